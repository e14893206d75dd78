-- name: append(rows)!
-- What happened, in order. Sent after the row locks, so for one node `seq` is the true order (D15a).
INSERT INTO events (at, kind, node, project, actor, owner, session, revision, epoch, data)
SELECT
    value ->> 'at', value ->> 'kind', value ->> 'node', value ->> 'project', value ->> 'actor', value ->> 'owner',
    value ->> 'session', value ->> 'revision', value ->> 'epoch', value ->> 'data'
FROM json_each(:rows)
ORDER BY value ->> 'i';

-- name: after(seq, most)
-- Events after a position, oldest first.
SELECT seq, at, kind, node, project, actor, owner, session, revision, epoch, data FROM events WHERE seq > :seq ORDER BY seq LIMIT :most;
