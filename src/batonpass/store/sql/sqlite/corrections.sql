-- name: standing(after_target, after_id, most)
-- Corrections that are not applied, by what they are about and then by id.
SELECT n.id FROM nodes n
WHERE n.type = 'correction' AND NOT n.dead
  AND (n.extra ->> '$.target', n.id) > (:after_target, :after_id)
ORDER BY n.extra ->> '$.target', n.id
LIMIT :most;

-- name: standing_of(target, after_id, most)
-- The same about one thing.
SELECT n.id FROM nodes n
WHERE n.type = 'correction' AND NOT n.dead
  AND n.extra ->> '$.target' = :target AND n.id > :after_id
ORDER BY n.id
LIMIT :most;
