-- name: of(ids)
-- The stored edges out of some nodes, in canonical order.
SELECT src, type, dst, attrs FROM edges
WHERE src IN (SELECT value FROM json_each(:ids))
ORDER BY src, type, dst;

-- name: put(rows)!
-- New edges, and new attributes of edges that are there: who wrote those is who wrote the edge.
INSERT INTO edges (src, type, dst, attrs, by_person, created_at)
SELECT value ->> 'src', value ->> 'type', value ->> 'dst', value ->> 'attrs', value ->> 'by_person', value ->> 'at'
FROM json_each(:rows) WHERE true
ON CONFLICT (src, type, dst) DO UPDATE SET attrs = excluded.attrs, by_person = excluded.by_person;

-- name: remove(rows)!
-- Edges that are not wanted any more.
DELETE FROM edges
WHERE (src, type, dst) IN (SELECT value ->> 'src', value ->> 'type', value ->> 'dst' FROM json_each(:rows));

-- name: inbound(ids, types)
-- Edges of some types onto some nodes, with what must be known of where they come from.
SELECT e.dst, e.type, r.id, r.type, r.title, r.summary, r.status, r.date,
    EXISTS (SELECT 1 FROM edges s WHERE s.dst = r.id AND s.type = 'supersedes')
FROM edges e
JOIN nodes r ON r.id = e.src
WHERE e.dst IN (SELECT value FROM json_each(:ids)) AND e.type IN (SELECT value FROM json_each(:types))
ORDER BY e.dst, e.type, e.src;

-- name: count_inbound(id, most)
-- How many edges lead onto a node, counted no further than `most`.
SELECT count(*) FROM (SELECT 1 FROM edges WHERE dst = :id LIMIT :most);

-- name: open_findings(id, most)
-- Findings that relate to a node and are open: neither retired by their status, nor superseded, nor resolved.
SELECT f.id, f.title, f.status FROM edges e
JOIN nodes f ON f.id = e.src
WHERE e.dst = :id AND e.type = 'relates-to' AND f.type = 'finding' AND NOT f.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = f.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = f.id)
ORDER BY f.id
LIMIT :most;

-- name: page(node, direction, types, after_direction, after_type, after_other, most)
-- A node's edges in both directions, by direction, type and other end, with the other end's title and status, and
-- whether it was deleted.
SELECT e.direction, e.src, e.type, e.dst, e.attrs, o.title, o.status, t.id IS NOT NULL
FROM (
    SELECT 'in' AS direction, src, type, dst, attrs, src AS other FROM edges WHERE dst = :node
    UNION ALL
    SELECT 'out' AS direction, src, type, dst, attrs, dst AS other FROM edges WHERE src = :node
) AS e
LEFT JOIN nodes o ON o.id = e.other
LEFT JOIN tombstones t ON t.id = e.other
WHERE (:direction IS NULL OR e.direction = :direction)
  AND (:types IS NULL OR e.type IN (SELECT value FROM json_each(:types)))
  AND (e.direction, e.type, e.other) > (:after_direction, :after_type, :after_other)
ORDER BY e.direction, e.type, e.other
LIMIT :most;

-- name: lock_blocks()!
-- One writer of `blocks` edges at a time, so that two cannot close a cycle together. The writer's turn is the lock here.
SELECT 1;

-- name: downstream(ids)
-- Every `blocks` edge reached from some nodes, however far: what a new edge onto them could close a cycle through.
-- CROSS JOIN keeps the order: SQLite would read every edge there is, to spare itself the sorting of these.
WITH RECURSIVE reached (id) AS (
    SELECT value FROM json_each(:ids)
    UNION
    SELECT e.dst FROM reached r CROSS JOIN edges e ON e.src = r.id AND e.type = 'blocks'
)
SELECT e.src, e.dst FROM reached r CROSS JOIN edges e ON e.src = r.id AND e.type = 'blocks'
ORDER BY e.src, e.dst;
