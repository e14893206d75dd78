-- name: append(rows)!
-- What happened, in order. Sent after the row locks, so for one node or record `seq` is the true order (D15a).
INSERT INTO events (at, kind, node, project, actor, owner, session, revision, epoch, data, record, field, version)
SELECT at, kind, node, project, actor, owner, session, revision, epoch, data, record, field, version
FROM jsonb_to_recordset(:rows::jsonb) AS n (i integer, at bigint, kind text, node text, project text, actor text, owner text, session text, revision text, epoch bigint, data text, record text, field text, version bigint)
ORDER BY i;

-- name: after(seq, most)
-- Events after a position, oldest first.
SELECT seq, at, kind, node, project, actor, owner, session, revision, epoch, data, record, field, version FROM events WHERE seq > :seq::bigint ORDER BY seq LIMIT :most::bigint;

-- name: ends()
-- The oldest event that is kept, and the highest number anybody has drawn, committed or not.
SELECT
    (SELECT min(seq) FROM events),
    greatest((SELECT max(seq) FROM events), pg_sequence_last_value(pg_get_serial_sequence('events', 'seq')::regclass), 0);

-- name: writers()
-- Who is writing events: whoever does holds this lock from before it draws a number until its end. Never NULL; a view
-- of this moment, whatever snapshot the transaction has.
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
  AND relation = 'events'::regclass
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: from(seq)
-- The first event at or after a number.
SELECT seq, at FROM events WHERE seq >= :seq::bigint ORDER BY seq LIMIT 1;
