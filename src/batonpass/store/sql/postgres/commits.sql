-- name: put(rows)!
-- Commits that a locked node carries from now on.
INSERT INTO node_commits (node, repo, sha)
SELECT node, repo, sha FROM jsonb_to_recordset(:rows::jsonb) AS c (node text, repo text, sha text)
ORDER BY node, repo, sha
ON CONFLICT (node, repo, sha) DO NOTHING;

-- name: remove(rows)!
-- Commits that a locked node carries no more.
DELETE FROM node_commits
USING jsonb_to_recordset(:rows::jsonb) AS c (node text, repo text, sha text)
WHERE node_commits.node = c.node AND node_commits.repo = c.repo AND node_commits.sha = c.sha;

-- name: nodes_with(least, beyond, shorter, repo, after, most)
-- Nodes by id that carry a commit of which the hash asked for is the beginning (from `least` on and before `beyond`), or
-- which is noted by the beginning of it (`shorter`); each with the commits that made it one of them.
WITH found AS (
    SELECT node, repo, sha FROM node_commits WHERE sha >= :least::text AND sha < :beyond::text
    UNION
    SELECT node, repo, sha FROM node_commits
    WHERE sha = ANY (ARRAY(SELECT jsonb_array_elements_text(:shorter::jsonb)))
)
SELECT n.id, n.type, n.title, n.status, n.project, jsonb_agg(f.repo || '@' || f.sha)::text
FROM found f
JOIN nodes n ON n.id = f.node
WHERE f.node > :after::text AND (:repo::text IS NULL OR f.repo = :repo::text)
GROUP BY n.id, n.type, n.title, n.status, n.project
ORDER BY n.id
LIMIT :most::bigint;
