-- name: stewards(ids)
-- The people who steward these nodes, those who have done so longest first.
SELECT e.dst, e.src FROM edges e
JOIN nodes p ON p.id = e.src AND p.type = 'person' AND NOT p.dead
WHERE e.type = 'stewards' AND e.dst IN (SELECT value FROM json_each(:ids))
ORDER BY e.dst, e.created_at, e.src;
