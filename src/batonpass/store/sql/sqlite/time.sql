-- name: now(now)
-- The host's clock in microseconds (SQLite keeps milliseconds), or the moment a test has set. A statement of its own,
-- run after the locks (D5).
SELECT coalesce(
    :now,
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
);
