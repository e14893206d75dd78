-- name: standing(after_target, after_id, most)
-- Corrections that are not applied, by what they are about and then by id.
SELECT n.id FROM nodes n
WHERE n.type = 'correction' AND NOT n.dead
  AND ((n.extra::jsonb ->> 'target') COLLATE "C", n.id) > (:after_target::text, :after_id::text)
ORDER BY (n.extra::jsonb ->> 'target') COLLATE "C", n.id
LIMIT :most::bigint;

-- name: standing_of(target, after_id, most)
-- The same about one thing.
SELECT n.id FROM nodes n
WHERE n.type = 'correction' AND NOT n.dead
  AND (n.extra::jsonb ->> 'target') COLLATE "C" = :target::text AND n.id > :after_id::text
ORDER BY n.id
LIMIT :most::bigint;
