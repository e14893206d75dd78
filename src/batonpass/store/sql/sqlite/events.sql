-- name: append(rows)!
-- What happened, in order. Sent after the row locks, so for one node or record `seq` is the true order (D15a).
INSERT INTO events (at, kind, node, project, actor, owner, session, revision, epoch, data, record, field, version)
SELECT
    value ->> 'at', value ->> 'kind', value ->> 'node', value ->> 'project', value ->> 'actor', value ->> 'owner',
    value ->> 'session', value ->> 'revision', value ->> 'epoch', value ->> 'data',
    value ->> 'record', value ->> 'field', value ->> 'version'
FROM json_each(:rows)
ORDER BY value ->> 'i';

-- name: after(seq, most)
-- Events after a position, oldest first.
SELECT seq, at, kind, node, project, actor, owner, session, revision, epoch, data, record, field, version FROM events WHERE seq > :seq ORDER BY seq LIMIT :most;

-- name: ends()
-- The oldest event that is kept, and the highest number anybody has drawn.
SELECT
    (SELECT min(seq) FROM events),
    max(coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0));

-- name: writers()
-- Who is writing events: of no concern here, where transactions end in the order in which they drew.
SELECT NULL WHERE 0;

-- name: from(seq)
-- The first event at or after a number.
SELECT seq, at FROM events WHERE seq >= :seq ORDER BY seq LIMIT 1;
