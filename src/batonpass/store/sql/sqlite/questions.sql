-- name: stewards(ids)
-- The people who steward these nodes, those who have done so longest first. CROSS JOIN: from the edges to the people, and
-- not from everybody to their edges.
SELECT e.dst, e.src FROM edges e
CROSS JOIN nodes p
WHERE p.id = e.src AND p.type = 'person' AND NOT p.dead AND e.type = 'stewards' AND e.dst IN (SELECT value FROM json_each(:ids))
ORDER BY e.dst, e.created_at, e.src;
