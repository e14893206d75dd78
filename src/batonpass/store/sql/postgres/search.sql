-- name: top()
-- The number of the node that was filed last; 0 when there is none.
SELECT coalesce(max(doc), 0) FROM search_nodes;

-- name: newest(condition, within, low, high, most)
-- The newest numbers of a stretch for whose nodes a condition on tokens holds. `within` names the stretch by tokens,
-- so that the index reads no further than it reaches; it may begin before `low` and end behind `high`. Materialized:
-- the tokens alone decide the way; a walk along the numbers may look shorter, and would make the tokens of every node.
WITH found AS MATERIALIZED (
    SELECT doc FROM search_nodes
    WHERE batonpass_tokens(words, doc) @@ ('(' || :condition::text || ') & (' || :within::text || ')')::tsquery
)
SELECT doc FROM found WHERE doc >= :low::bigint AND doc < :high::bigint ORDER BY doc DESC LIMIT :most::bigint;

-- name: begun(condition, beginning, within, low, high, looked)
-- The newest so many numbers of a stretch for whose nodes a condition holds, and whether a token of each has a beginning.
-- Materialized as in `newest`, and the words read of no more than are looked at.
WITH found AS MATERIALIZED (
    SELECT doc FROM search_nodes
    WHERE batonpass_tokens(words, doc) @@ ('(' || :condition::text || ') & (' || :within::text || ')')::tsquery
), newest AS MATERIALIZED (
    SELECT doc FROM found WHERE doc >= :low::bigint AND doc < :high::bigint ORDER BY doc DESC LIMIT :looked::bigint
)
SELECT n.doc, strpos(' ' || n.words, ' ' || :beginning::text) > 0
FROM newest
CROSS JOIN LATERAL (SELECT doc, words FROM search_nodes WHERE doc = newest.doc OFFSET 0) n
ORDER BY n.doc DESC;

-- name: by_id(begins, ends, projects, types, looked)
-- Of the first so many nodes from one id up to another those of some projects and types, in the order of their ids.
SELECT s.doc FROM (
    SELECT id, project, type FROM nodes WHERE id >= :begins::text AND id < :ends::text ORDER BY id LIMIT :looked::bigint
) AS near
JOIN search_nodes s ON s.node = near.id
WHERE (:projects::text IS NULL OR project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
ORDER BY near.id;

-- name: named(docs)
-- The nodes that were filed under some numbers.
SELECT doc, node FROM search_nodes
WHERE doc = ANY (ARRAY(SELECT jsonb_array_elements_text(:docs::jsonb)::bigint));

-- name: write(rows)!
-- The entries of nodes that are locked, numbered in their order: made with them, changed with their text.
INSERT INTO search_nodes (node, words, counts)
SELECT node, words, counts FROM jsonb_to_recordset(:rows::jsonb) AS e (i integer, node text, words text, counts text)
ORDER BY i
ON CONFLICT (node) DO UPDATE SET words = excluded.words, counts = excluded.counts;

-- name: take_out(nodes)!
-- What stood in the index so far. Here the index follows its table.
SELECT :nodes::text;

-- name: put_in(nodes)!
-- What stands in the index from now on. Here the index follows its table.
SELECT :nodes::text;

-- name: merge(pages)!
-- Here an index forgets by itself.
SELECT :pages::bigint;

-- name: changes()
-- How many rows a merge has changed.
SELECT 0;

-- name: forget(node)!
-- A node's entry, gone with its node.
DELETE FROM search_nodes WHERE node = :node::text;

-- name: frequencies(words, low)
-- In how many of the nodes from a number on each word is counted.
SELECT counted.word, count(*)
FROM search_nodes n, LATERAL json_object_keys(n.counts::json) AS counted (word)
WHERE n.doc >= :low::bigint AND counted.word = ANY (ARRAY(SELECT jsonb_array_elements_text(:words::jsonb)))
GROUP BY counted.word;

-- name: counted_from(low)
-- How many nodes from a number on have been read.
SELECT count(*) FROM search_nodes WHERE doc >= :low::bigint AND words IS NOT NULL;

-- name: counts_of(docs)
-- The counted words of nodes, the one that was filed last first.
SELECT node, counts FROM search_nodes
WHERE doc = ANY (ARRAY(SELECT jsonb_array_elements_text(:docs::jsonb)::bigint))
ORDER BY doc DESC;

-- name: unread(most)
-- How many nodes nobody has read into the index yet, as far as that is counted.
SELECT count(*) FROM (SELECT 1 FROM search_nodes WHERE words IS NULL LIMIT :most::bigint) AS missing;

-- name: take_unread(most)
-- Nodes that nobody has read yet, the newest first, locked; what somebody else is reading is passed over.
SELECT node FROM search_nodes WHERE words IS NULL ORDER BY doc DESC LIMIT :most::bigint FOR UPDATE SKIP LOCKED;
