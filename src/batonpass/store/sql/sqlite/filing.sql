-- name: lock_stem(stem)!
-- One filing at a time under this stem, to COMMIT. The writer's turn is the lock here.
SELECT 1 WHERE :stem IS NULL;

-- name: taken(ids)
-- Which of these ids are or were a node's.
SELECT wanted.value FROM json_each(:ids) AS wanted
WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = wanted.value)
   OR EXISTS (SELECT 1 FROM tombstones t WHERE t.id = wanted.value);

-- name: at_work(holder, session, now, most)
-- The nodes that a holder has claimed for a session and still holds.
SELECT l.resource FROM leases l
JOIN nodes n ON n.id = l.resource
WHERE l.holder = :holder AND l.kind = 'claim' AND l.session = :session AND l.expires_at > :now
ORDER BY l.resource
LIMIT :most;
