-- name: of(ids)
-- The stored edges out of some nodes, in canonical order.
SELECT src, type, dst, attrs FROM edges
WHERE src = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
ORDER BY src, type, dst;

-- name: put(rows)!
-- New edges, and new attributes of edges that are there: who wrote those is who wrote the edge.
INSERT INTO edges (src, type, dst, attrs, by_person, created_at)
SELECT src, type, dst, attrs, by_person, at
FROM jsonb_to_recordset(:rows::jsonb) AS n (src text, type text, dst text, attrs text, by_person boolean, at bigint)
ORDER BY src, type, dst
ON CONFLICT (src, type, dst) DO UPDATE SET attrs = excluded.attrs, by_person = excluded.by_person;

-- name: remove(rows)!
-- Edges that are not wanted any more.
DELETE FROM edges
USING jsonb_to_recordset(:rows::jsonb) AS n (src text, type text, dst text)
WHERE edges.src = n.src AND edges.type = n.type AND edges.dst = n.dst;

-- name: inbound(ids, types)
-- Edges of some types onto some nodes, with what must be known of where they come from.
SELECT e.dst, e.type, r.id, r.type, r.title, r.summary, r.status, r.date,
    EXISTS (SELECT 1 FROM edges s WHERE s.dst = r.id AND s.type = 'supersedes')
FROM edges e
JOIN nodes r ON r.id = e.src
WHERE e.dst = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
  AND e.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb)))
ORDER BY e.dst, e.type, e.src;

-- name: count_inbound(id, most)
-- How many edges lead onto a node, counted no further than `most`.
SELECT count(*) FROM (SELECT 1 FROM edges WHERE dst = :id::text LIMIT :most::bigint) AS counted;

-- name: open_findings(id, most)
-- Findings that relate to a node and are open: neither retired by their status, nor superseded, nor resolved.
SELECT f.id, f.title, f.status FROM edges e
JOIN nodes f ON f.id = e.src
WHERE e.dst = :id::text AND e.type = 'relates-to' AND f.type = 'finding' AND NOT f.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = f.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = f.id)
ORDER BY f.id
LIMIT :most::bigint;

-- name: page(node, direction, types, after_direction, after_type, after_other, most)
-- A node's edges in both directions, by direction, type and other end, with the other end's title and status, and
-- whether it was deleted.
SELECT e.direction, e.src, e.type, e.dst, e.attrs, o.title, o.status, t.id IS NOT NULL
FROM (
    SELECT 'in'::text AS direction, src, type, dst, attrs, src AS other FROM edges WHERE dst = :node::text
    UNION ALL
    SELECT 'out'::text AS direction, src, type, dst, attrs, dst AS other FROM edges WHERE src = :node::text
) AS e
LEFT JOIN nodes o ON o.id = e.other
LEFT JOIN tombstones t ON t.id = e.other
WHERE (:direction::text IS NULL OR e.direction = :direction::text)
  AND (:types::text IS NULL OR e.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND (e.direction, e.type, e.other) > (:after_direction::text, :after_type::text, :after_other::text)
ORDER BY e.direction, e.type, e.other
LIMIT :most::bigint;

-- name: lock_blocks()
-- One writer of `blocks` edges at a time, to COMMIT: two that do not see each other could close a cycle together.
SELECT pg_advisory_xact_lock(hashtext('batonpass.blocks'));

-- name: downstream(ids)
-- Every `blocks` edge reached from some nodes, however far: what a new edge onto them could close a cycle through.
-- OFFSET 0 keeps the look-ups apart: the planner expects thousands of nodes, and would read every edge there is for one.
WITH RECURSIVE reached (id) AS (
    SELECT jsonb_array_elements_text(:ids::jsonb) COLLATE "C"
    UNION
    SELECT e.dst FROM reached r
    CROSS JOIN LATERAL (SELECT dst FROM edges WHERE src = r.id AND type = 'blocks' OFFSET 0) e
)
SELECT e.src, e.dst FROM reached r
CROSS JOIN LATERAL (SELECT src, dst FROM edges WHERE src = r.id AND type = 'blocks' OFFSET 0) e
ORDER BY e.src, e.dst;
