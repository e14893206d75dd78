-- name: known(hash)
-- The key that a request shows.
SELECT hash, name, scope, created_by, created_at, expires_at, revoked_at FROM api_keys WHERE hash = :hash;

-- name: lock_name(name)!
-- Nobody else adds or ends a key of this name before the transaction ends. The writer's turn is the lock here.
SELECT 1 WHERE :name = :name;

-- name: of_name(name)
-- The keys of a name that were not revoked: one that is live, and before it those that have expired.
SELECT hash, name, scope, created_by, created_at, expires_at, revoked_at FROM api_keys
WHERE name = :name AND revoked_at IS NULL
ORDER BY created_at, hash;

-- name: add(hash, name, scope, created_by, now, expires_at)!
-- A key minted now.
INSERT INTO api_keys (hash, name, scope, created_by, created_at, expires_at)
VALUES (:hash, :name, :scope, :created_by, :now, :expires_at);

-- name: revoke(hashes, now)!
-- The end of keys that were not revoked before.
UPDATE api_keys SET revoked_at = :now WHERE hash IN (SELECT value FROM json_each(:hashes)) AND revoked_at IS NULL;

-- name: listed(name, now, after, most)
-- The valid keys, of one name or of all, in order of name; a name has one at most.
SELECT hash, name, scope, created_by, created_at, expires_at, revoked_at FROM api_keys
WHERE name > :after AND (:name IS NULL OR name = :name) AND revoked_at IS NULL AND expires_at > :now
ORDER BY name
LIMIT :most;

-- name: beginning(prefix, most)
-- The keys whose hash begins so, those that were not revoked first. No hex digit sorts after f.
SELECT hash, name, scope, created_by, created_at, expires_at, revoked_at FROM api_keys
WHERE hash >= :prefix AND hash < :prefix || 'g'
ORDER BY revoked_at IS NOT NULL, hash
LIMIT :most;
