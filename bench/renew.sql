-- pgbench: the one row a renewal writes, in one prepared statement that is its own transaction.
\set node random(0, :nodes - 1)
UPDATE leases SET version = version + 1, granted_at = granted_at + 1, expires_at = expires_at + 1 WHERE resource = 'task-held-' || :node;
