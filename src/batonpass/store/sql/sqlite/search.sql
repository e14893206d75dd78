-- name: top()
-- The number of the node that was filed last; 0 when there is none.
SELECT coalesce(max(doc), 0) FROM search_nodes;

-- name: newest(condition, within, low, high, most)
-- The newest numbers of a stretch for whose nodes a condition on tokens holds. The condition comes in PostgreSQL's form;
-- no token has a character that is replaced here. `within` says what `low` and `high` say.
SELECT rowid FROM search_words
WHERE search_words MATCH replace(replace(replace(replace(replace(
        :condition, ':*', ' *'), '~''', ''' *'), '''', '"'), '&', 'AND'), '|', 'OR')
  AND rowid >= :low AND rowid < :high AND :within IS NOT NULL
ORDER BY rowid DESC
LIMIT :most;

-- name: begun(condition, beginning, within, low, high, looked)
-- The newest so many numbers of a stretch for whose nodes a condition holds, and whether a token of each has a beginning.
-- CROSS: the index first.
SELECT f.doc, instr(' ' || n.words, ' ' || :beginning) > 0
FROM (
    SELECT rowid AS doc FROM search_words
    WHERE search_words MATCH replace(replace(replace(replace(replace(
            :condition, ':*', ' *'), '~''', ''' *'), '''', '"'), '&', 'AND'), '|', 'OR')
      AND rowid >= :low AND rowid < :high AND :within IS NOT NULL
    ORDER BY rowid DESC
    LIMIT :looked
) AS f
CROSS JOIN search_nodes n ON n.doc = f.doc
ORDER BY f.doc DESC;

-- name: by_id(begins, ends, projects, types, looked)
-- Of the first so many nodes from one id up to another those of some projects and types, in the order of their ids.
SELECT s.doc FROM (
    SELECT id, project, type FROM nodes WHERE id >= :begins AND id < :ends ORDER BY id LIMIT :looked
) AS near
CROSS JOIN search_nodes s ON s.node = near.id
WHERE (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
ORDER BY near.id;

-- name: named(docs)
-- The nodes that were filed under some numbers.
SELECT doc, node FROM search_nodes WHERE doc IN (SELECT value FROM json_each(:docs));

-- name: write(rows)!
-- The entries of nodes that are locked, numbered in their order: made with them, changed with their text.
INSERT INTO search_nodes (node, words, counts)
SELECT value ->> 'node', value ->> 'words', value ->> 'counts' FROM json_each(:rows) WHERE true ORDER BY key
ON CONFLICT (node) DO UPDATE SET words = excluded.words, counts = excluded.counts;

-- name: take_out(nodes)!
-- What stood in the index so far: it has to be told word for word.
INSERT INTO search_words (search_words, rowid, words)
SELECT 'delete', doc, words FROM search_nodes
WHERE node IN (SELECT value FROM json_each(:nodes)) AND words IS NOT NULL;

-- name: put_in(nodes)!
-- What stands in the index from now on, in the order of the numbers.
INSERT INTO search_words (rowid, words)
SELECT doc, words FROM search_nodes WHERE node IN (SELECT value FROM json_each(:nodes)) ORDER BY doc;

-- name: merge(pages)!
-- About so many pages of the index written anew; less than 0 begins with the whole of it.
INSERT INTO search_words (search_words, rank) VALUES ('merge', :pages);

-- name: changes()
-- How many rows this connection has changed: a merge that had nothing left to do changes one.
SELECT total_changes();

-- name: forget(node)!
-- A node's entry, gone with its node.
DELETE FROM search_nodes WHERE node = :node;

-- name: frequencies(words, low)
-- In how many of the nodes from a number on each word is counted.
SELECT counted.key, count(*)
FROM search_nodes n, json_each(n.counts) AS counted
WHERE n.doc >= :low AND counted.key IN (SELECT value FROM json_each(:words))
GROUP BY counted.key;

-- name: counted_from(low)
-- How many nodes from a number on have been read.
SELECT count(*) FROM search_nodes WHERE doc >= :low AND words IS NOT NULL;

-- name: counts_of(docs)
-- The counted words of nodes, the one that was filed last first.
SELECT node, counts FROM search_nodes WHERE doc IN (SELECT value FROM json_each(:docs)) ORDER BY doc DESC;

-- name: unread(most)
-- How many nodes nobody has read into the index yet, as far as that is counted.
SELECT count(*) FROM (SELECT 1 FROM search_nodes WHERE words IS NULL LIMIT :most) AS missing;

-- name: take_unread(most)
-- Nodes that nobody has read yet, the newest first. The writer's turn is the lock.
SELECT node FROM search_nodes WHERE words IS NULL ORDER BY doc DESC LIMIT :most;
