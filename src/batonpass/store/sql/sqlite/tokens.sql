-- name: known(hash, org)
-- A token with whoever stands behind it: all that a request's principal is made of.
SELECT
    t.hash, t.person, t.agent, t.standing, t.session, t.resource, t.epoch, t.scope, t.label, t.created_at, t.expires_at,
    t.revoked_at, p.name, p.email, a.label,
    EXISTS (SELECT 1 FROM edges e WHERE e.src = t.person AND e.type = 'stewards' AND e.dst = :org)
FROM tokens t
JOIN people p ON p.id = t.person
LEFT JOIN agents a ON a.id = t.agent
WHERE t.hash = :hash;

-- name: lock(hashes)
-- Tokens that a write will change, locked in one order. The writer's turn is the lock here.
SELECT
    hash, person, agent, standing, session, resource, epoch, scope, label, created_at, expires_at, revoked_at
FROM tokens
WHERE hash IN (SELECT value FROM json_each(:hashes))
ORDER BY hash;

-- name: add(hash, person, agent, standing, session, resource, epoch, scope, label, now, expires_at)!
-- A token minted now.
INSERT INTO tokens (hash, person, agent, standing, session, resource, epoch, scope, label, created_at, expires_at)
VALUES (:hash, :person, :agent, :standing, :session, :resource, :epoch, :scope, :label, :now, :expires_at);

-- name: revoke(hashes, now)!
-- The end of tokens that have not ended.
UPDATE tokens SET revoked_at = :now WHERE hash IN (SELECT value FROM json_each(:hashes)) AND revoked_at IS NULL;

-- name: bind(hash, session)!
-- The session of an agent's token, written once: the row is locked and was found without one.
UPDATE tokens SET session = :session WHERE hash = :hash AND session IS NULL;

-- name: of_agent(agent, runs_only, now, after, most)
-- The valid tokens of an agent by hash. The last column: a run token that its lease names no more.
SELECT
    t.hash, t.person, t.agent, t.standing, t.session, t.resource, t.epoch, t.scope, t.label, t.created_at, t.expires_at,
    t.revoked_at, t.resource IS NOT NULL AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = t.resource AND l.run_token = t.hash)
FROM tokens t
WHERE t.agent = :agent AND t.hash > :after AND t.revoked_at IS NULL AND t.expires_at > :now
  AND (NOT :runs_only OR t.resource IS NOT NULL)
ORDER BY t.hash
LIMIT :most;

-- name: of_person(person, now, after, most)
-- The valid personal tokens of one person, or of everybody, by hash.
SELECT
    t.hash, t.person, t.agent, t.standing, t.session, t.resource, t.epoch, t.scope, t.label, t.created_at, t.expires_at,
    t.revoked_at, false
FROM tokens t
WHERE t.agent IS NULL AND (:person IS NULL OR t.person = :person) AND t.hash > :after
  AND t.revoked_at IS NULL AND t.expires_at > :now
ORDER BY t.hash
LIMIT :most;

-- name: agents_beginning(agent, prefix, most)
-- The tokens of an agent whose hash begins so, those that have not ended first. No hex digit sorts after f.
SELECT
    hash, person, agent, standing, session, resource, epoch, scope, label, created_at, expires_at, revoked_at
FROM tokens
WHERE agent = :agent AND hash >= :prefix AND hash < :prefix || 'g'
ORDER BY revoked_at IS NOT NULL, hash
LIMIT :most;

-- name: persons_beginning(person, prefix, most)
-- The personal tokens of one person, or of everybody, whose hash begins so, those that have not ended first.
SELECT
    hash, person, agent, standing, session, resource, epoch, scope, label, created_at, expires_at, revoked_at
FROM tokens
WHERE agent IS NULL AND (:person IS NULL OR person = :person) AND hash >= :prefix AND hash < :prefix || 'g'
ORDER BY revoked_at IS NOT NULL, hash
LIMIT :most;
