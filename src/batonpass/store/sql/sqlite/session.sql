-- name: limits(lock_ms, statement_ms, idle_ms)
-- SQLite has no limits of a transaction's own: one writer runs at a time, and its statements take microseconds.
SELECT :lock_ms, :statement_ms, :idle_ms;
