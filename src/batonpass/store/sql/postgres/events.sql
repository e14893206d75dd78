-- name: append(rows)!
-- What happened, in order. Sent after the row locks, so for one node `seq` is the true order (D15a).
INSERT INTO events (at, kind, node, project, actor, owner, session, revision, epoch, data)
SELECT at, kind, node, project, actor, owner, session, revision, epoch, data
FROM jsonb_to_recordset(:rows::jsonb) AS n (i integer, at bigint, kind text, node text, project text, actor text, owner text, session text, revision text, epoch bigint, data text)
ORDER BY i;

-- name: after(seq, most)
-- Events after a position, oldest first.
SELECT seq, at, kind, node, project, actor, owner, session, revision, epoch, data FROM events WHERE seq > :seq::bigint ORDER BY seq LIMIT :most::bigint;
