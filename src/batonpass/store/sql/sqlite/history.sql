-- name: add(rows)!
-- One more entry of each of some nodes, which are locked, with who made it; of a revision its canonical markdown, of an
-- act nothing.
INSERT INTO node_history (node, n, revision, at, verb, author, authored_by_agent, session, via, content, reason)
SELECT
    value ->> 'node', coalesce((SELECT max(h.n) FROM node_history h WHERE h.node = value ->> 'node'), 0) + 1,
    value ->> 'revision', value ->> 'at', value ->> 'verb', value ->> 'author', value ->> 'authored_by_agent',
    value ->> 'session', value ->> 'via', value ->> 'content', value ->> 'reason'
FROM json_each(:rows);

-- name: page(node, before, most)
-- Entries of a node before the `before`th, newest first.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node AND n < :before
ORDER BY n DESC
LIMIT :most;

-- name: newest(node, revision)
-- The last time that a node came to a revision.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node AND revision = :revision AND verb NOT IN ('delete', 'redact')
ORDER BY n DESC
LIMIT 1;

-- name: entry(node, n)
-- One entry by its number.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node AND n = :n;

-- name: revisions(node, least, beyond, most)
-- The different revisions of a node from `least` on and before `beyond`: those that a prefix may mean.
SELECT DISTINCT revision FROM node_history
WHERE node = :node AND revision >= :least AND revision < :beyond
ORDER BY revision
LIMIT :most;

-- name: redact(node, revision, marker)
-- The marker in place of a revision's content, wherever the history has it, and the number of the entry that says so,
-- which is the next.
UPDATE node_history SET
    content = :marker,
    redaction = (SELECT max(h.n) + 1 FROM node_history h WHERE h.node = :node)
WHERE node = :node AND revision = :revision AND verb NOT IN ('delete', 'redact') AND redaction IS NULL
RETURNING n;
