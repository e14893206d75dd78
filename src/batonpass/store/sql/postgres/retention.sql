-- name: replies(before, most)
-- Stored replies nobody may repeat any more, at most so many (D11). What somebody is locking is left for the next time.
WITH old AS MATERIALIZED (
    SELECT principal, method, path, key FROM idempotency_keys
    WHERE at < :before::bigint
    LIMIT :most::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM idempotency_keys k USING old
WHERE k.principal = old.principal AND k.method = old.method AND k.path = old.path AND k.key = old.key
RETURNING 1;

-- name: events(before, most)
-- Events past retention, oldest first, at most so many (D43).
WITH oldest AS MATERIALIZED (
    SELECT seq, at FROM events ORDER BY seq LIMIT :most::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM events USING oldest WHERE events.seq = oldest.seq AND oldest.at < :before::bigint
RETURNING 1;

-- name: working_sets(before, most)
-- What ended tokens had acquired, at most so many rows; their tokens open nothing any more.
WITH old AS MATERIALIZED (
    SELECT r.token, r.resource, r.epoch FROM run_tenures r
    JOIN tokens t ON t.hash = r.token
    WHERE coalesce(t.revoked_at, t.expires_at) < :before::bigint
    LIMIT :most::bigint
    FOR UPDATE OF r SKIP LOCKED
)
DELETE FROM run_tenures r USING old
WHERE r.token = old.token AND r.resource = old.resource AND r.epoch = old.epoch
RETURNING 1;

-- name: tokens(before, most)
-- Agents' tokens that ended long ago and that no lease names, at most so many; people's are kept, to be looked up.
WITH old AS MATERIALIZED (
    SELECT t.hash FROM tokens t
    WHERE t.agent IS NOT NULL AND coalesce(t.revoked_at, t.expires_at) < :before::bigint
      AND t.hash NOT IN (SELECT run_token FROM leases WHERE run_token IS NOT NULL)
      AND t.hash NOT IN (SELECT acquired_under FROM leases WHERE acquired_under IS NOT NULL)
      AND t.hash NOT IN (SELECT token FROM run_tenures)
    LIMIT :most::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM tokens USING old WHERE tokens.hash = old.hash
RETURNING 1;

-- name: history_reach(after, before, most)
-- How many entries of records' histories stand in a stretch of time, at most so many, and when the last of them was made.
SELECT count(*), max(at) FROM (
    SELECT at FROM record_log WHERE at >= :after::bigint AND at < :before::bigint ORDER BY at LIMIT :most::bigint
) AS stretch;

-- name: history(after, reach)
-- Entries of records' histories from a moment to another, but for the last about each field: who wrote it stays known.
WITH old AS MATERIALIZED (
    SELECT l.class, l.id, l.n FROM record_log l
    WHERE l.at >= :after::bigint AND l.at <= :reach::bigint AND EXISTS (
        SELECT 1 FROM record_log m
        WHERE m.class = l.class AND m.id = l.id AND m.n > l.n AND (m.field = l.field OR l.field IS NULL)
    )
    FOR UPDATE OF l SKIP LOCKED
)
DELETE FROM record_log l USING old WHERE l.class = old.class AND l.id = old.id AND l.n = old.n
RETURNING 1;

-- name: runs(before, most)
-- Runs that were last heard of so long ago, at most so many, and their logs with them. What they counted stays counted.
DELETE FROM runs WHERE run IN (
    SELECT run FROM runs WHERE last_seen < :before LIMIT :most FOR UPDATE SKIP LOCKED
)
RETURNING 1;
