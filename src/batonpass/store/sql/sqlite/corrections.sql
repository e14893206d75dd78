-- name: standing(after, most)
-- Corrections that are not applied, in order of id. The index is named: the planner takes nodes_type for as good, and
-- would walk past all that were ever applied.
SELECT n.id FROM nodes n INDEXED BY nodes_corrections
WHERE n.type = 'correction' AND NOT n.dead AND n.id > :after
ORDER BY n.id
LIMIT :most;

-- name: standing_of(target, after, most)
-- The same about one thing.
SELECT n.id FROM nodes n
WHERE n.type = 'correction' AND NOT n.dead AND n.extra ->> 'target' = :target AND n.id > :after
ORDER BY n.id
LIMIT :most;
