-- name: replies(before, most)
-- Stored replies nobody may repeat any more, at most so many (D11).
DELETE FROM idempotency_keys
WHERE (principal, method, path, key) IN (
    SELECT principal, method, path, key FROM idempotency_keys WHERE at < :before LIMIT :most
)
RETURNING 1;

-- name: events(before, most)
-- Events past retention, oldest first, at most so many (D43).
DELETE FROM events
WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM events ORDER BY seq LIMIT :most) AS oldest WHERE at < :before
)
RETURNING 1;

-- name: working_sets(before, most)
-- What ended tokens had acquired, at most so many rows; their tokens open nothing any more.
DELETE FROM run_tenures
WHERE (token, resource, epoch) IN (
    SELECT r.token, r.resource, r.epoch FROM run_tenures r
    JOIN tokens t ON t.hash = r.token
    WHERE coalesce(t.revoked_at, t.expires_at) < :before
    LIMIT :most
)
RETURNING 1;

-- name: tokens(before, most)
-- Agents' tokens that ended long ago and that no lease names, at most so many; people's are kept, to be looked up.
DELETE FROM tokens
WHERE hash IN (
    SELECT t.hash FROM tokens t
    WHERE t.agent IS NOT NULL AND coalesce(t.revoked_at, t.expires_at) < :before
      AND t.hash NOT IN (SELECT run_token FROM leases WHERE run_token IS NOT NULL)
      AND t.hash NOT IN (SELECT acquired_under FROM leases WHERE acquired_under IS NOT NULL)
      AND t.hash NOT IN (SELECT token FROM run_tenures)
    LIMIT :most
)
RETURNING 1;

-- name: history_reach(after, before, most)
-- How many entries of records' histories stand in a stretch of time, at most so many, and when the last of them was made.
SELECT count(*), max(at) FROM (
    SELECT at FROM record_log WHERE at >= :after AND at < :before ORDER BY at LIMIT :most
) AS stretch;

-- name: history(after, reach)
-- Entries of records' histories from a moment to another, but for the last about each field: who wrote it stays known.
DELETE FROM record_log AS l
WHERE l.at >= :after AND l.at <= :reach AND EXISTS (
    SELECT 1 FROM record_log m
    WHERE m.class = l.class AND m.id = l.id AND m.n > l.n AND (m.field = l.field OR l.field IS NULL)
)
RETURNING 1;

-- name: runs(before, most)
-- Runs that were last heard of so long ago, at most so many, and their logs with them. What they counted stays counted.
DELETE FROM runs WHERE run IN (SELECT run FROM runs WHERE last_seen < :before LIMIT :most) RETURNING 1;
