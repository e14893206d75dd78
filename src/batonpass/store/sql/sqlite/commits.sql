-- name: put(rows)!
-- Commits that a locked node carries from now on.
INSERT INTO node_commits (node, repo, sha)
SELECT value ->> 'node', value ->> 'repo', value ->> 'sha' FROM json_each(:rows) WHERE true
ON CONFLICT (node, repo, sha) DO NOTHING;

-- name: remove(rows)!
-- Commits that a locked node carries no more.
DELETE FROM node_commits
WHERE (node, repo, sha) IN (SELECT value ->> 'node', value ->> 'repo', value ->> 'sha' FROM json_each(:rows));

-- name: nodes_with(least, beyond, shorter, repo, after, most)
-- Nodes by id that carry a commit of which the hash asked for is the beginning (from `least` on and before `beyond`), or
-- which is noted by the beginning of it (`shorter`); each with the commits that made it one of them.
WITH found AS (
    SELECT node, repo, sha FROM node_commits WHERE sha >= :least AND sha < :beyond
    UNION
    SELECT node, repo, sha FROM node_commits WHERE sha IN (SELECT value FROM json_each(:shorter))
)
SELECT n.id, n.type, n.title, n.status, n.project, json_group_array(f.repo || '@' || f.sha)
FROM found f
JOIN nodes n ON n.id = f.node
WHERE f.node > :after AND (:repo IS NULL OR f.repo = :repo)
GROUP BY n.id
ORDER BY n.id
LIMIT :most;
