-- name: add(rows)!
-- One more entry of each of some nodes, which are locked, with who made it; of a revision its canonical markdown, of an
-- act nothing.
INSERT INTO node_history (node, n, revision, at, verb, author, authored_by_agent, session, via, content, reason)
SELECT node, coalesce((SELECT max(h.n) FROM node_history h WHERE h.node = e.node), 0) + 1,
    revision, at, verb, author, authored_by_agent, session, via, content, reason
FROM jsonb_to_recordset(:rows::jsonb) AS e (
    node text, revision text, at bigint, verb text, author text, authored_by_agent text, session text, via text,
    content text, reason text
);

-- name: page(node, before, most)
-- Entries of a node before the `before`th, newest first.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node::text AND n < :before::bigint
ORDER BY n DESC
LIMIT :most::bigint;

-- name: newest(node, revision)
-- The last time that a node came to a revision.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node::text AND revision = :revision::text COLLATE "C" AND verb NOT IN ('delete', 'redact')
ORDER BY n DESC
LIMIT 1;

-- name: entry(node, n)
-- One entry by its number.
SELECT n, revision, at, verb, author, authored_by_agent, session, via, content, reason, redaction FROM node_history
WHERE node = :node::text AND n = :n::integer;

-- name: revisions(node, least, beyond, most)
-- The different revisions of a node from `least` on and before `beyond`: those that a prefix may mean.
SELECT DISTINCT revision COLLATE "C" AS revision FROM node_history
WHERE node = :node::text AND revision COLLATE "C" >= :least::text AND revision COLLATE "C" < :beyond::text
ORDER BY revision
LIMIT :most::bigint;

-- name: redact(node, revision, marker)
-- The marker in place of a revision's content, wherever the history has it, and the number of the entry that says so,
-- which is the next.
UPDATE node_history SET
    content = :marker::text,
    redaction = (SELECT max(h.n) + 1 FROM node_history h WHERE h.node = :node::text)
WHERE node = :node::text AND revision COLLATE "C" = :revision::text AND verb NOT IN ('delete', 'redact')
  AND redaction IS NULL
RETURNING n;
