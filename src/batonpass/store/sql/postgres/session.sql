-- name: limits(lock_ms, statement_ms, idle_ms)
-- This transaction's own limits: for a lock, for a statement, for idling while others wait (D44, H25).
SELECT
    set_config('lock_timeout', :lock_ms, true),
    set_config('statement_timeout', :statement_ms, true),
    set_config('idle_in_transaction_session_timeout', :idle_ms, true);
