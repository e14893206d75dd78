-- name: insert(principal, method, path, key, body_hash, now, oldest)
-- A new key, or none when a live one is there; a twin's uncommitted row is waited for. One past retention is begun anew.
INSERT INTO idempotency_keys (principal, method, path, key, body_hash, at)
VALUES (:principal::text, :method::text, :path::text, :key::text, :body_hash::text, :now::bigint)
ON CONFLICT (principal, method, path, key) DO UPDATE SET
    body_hash = excluded.body_hash, at = excluded.at, status = NULL, reply = NULL
    WHERE idempotency_keys.at < :oldest::bigint
RETURNING key;

-- name: find(principal, method, path, key)
-- What was stored with a key.
SELECT body_hash, status, reply FROM idempotency_keys
WHERE principal = :principal AND method = :method AND path = :path AND key = :key;

-- name: answer(principal, method, path, key, status, reply)!
-- The reply, stored in the transaction of its change.
UPDATE idempotency_keys SET status = :status::integer, reply = :reply::text
WHERE principal = :principal AND method = :method AND path = :path AND key = :key;
