-- name: now(now)
-- The database's clock in microseconds, or the moment a test has set. A statement of its own, sent after the locks (D5).
SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
