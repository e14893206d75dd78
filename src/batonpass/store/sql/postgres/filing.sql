-- name: lock_stem(stem)!
-- One filing at a time under this stem, to COMMIT; whoever waits then sees which ids the others took. The seed keeps
-- stems apart from ids and holders.
SELECT pg_advisory_xact_lock(hashtextextended(:stem::text, 2));

-- name: taken(ids)
-- Which of these ids are or were a node's.
SELECT id FROM jsonb_array_elements_text(:ids::jsonb) AS wanted (id)
WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = wanted.id)
   OR EXISTS (SELECT 1 FROM tombstones t WHERE t.id = wanted.id);

-- name: at_work(holder, session, now, most)
-- The nodes that a holder has claimed for a session and still holds.
SELECT l.resource FROM leases l
JOIN nodes n ON n.id = l.resource
WHERE l.holder = :holder::text AND l.kind = 'claim' AND l.session = :session::text AND l.expires_at > :now::bigint
ORDER BY l.resource
LIMIT :most::bigint;
