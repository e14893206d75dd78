-- name: replies(before, most)!
-- Stored replies nobody may repeat any more (D11).
DELETE FROM idempotency_keys
WHERE (principal, method, path, key) IN (
    SELECT principal, method, path, key FROM idempotency_keys WHERE at < :before::bigint LIMIT :most::bigint
);

-- name: events(before, most)!
-- Events past retention, oldest first (D43).
DELETE FROM events
WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM events ORDER BY seq LIMIT :most::bigint) AS oldest WHERE at < :before::bigint
);

-- name: working_sets(before, most)!
-- What ended tokens had acquired; their tokens open nothing any more.
DELETE FROM run_tenures
WHERE token IN (
    SELECT hash FROM tokens
    WHERE agent IS NOT NULL AND coalesce(revoked_at, expires_at) < :before::bigint LIMIT :most::bigint
);

-- name: tokens(before, most)!
-- Agents' tokens that ended long ago and that no lease names; people's are kept, to be looked up.
DELETE FROM tokens
WHERE hash IN (
    SELECT t.hash FROM tokens t
    WHERE t.agent IS NOT NULL AND coalesce(t.revoked_at, t.expires_at) < :before::bigint
      AND t.hash NOT IN (SELECT run_token FROM leases WHERE run_token IS NOT NULL)
      AND t.hash NOT IN (SELECT acquired_under FROM leases WHERE acquired_under IS NOT NULL)
      AND t.hash NOT IN (SELECT token FROM run_tenures)
    LIMIT :most::bigint
);
