-- name: neighbours(probes, most)
-- What edges of some types join some nodes to, either way: of each probe at most `most` each way, the newest first.
SELECT p.node, p.edge, 'in'::text, n.other
FROM jsonb_to_recordset(:probes::jsonb) AS p (node text, edge text)
CROSS JOIN LATERAL (
    SELECT e.src AS other FROM edges e
    WHERE e.dst = p.node AND e.type = p.edge
    ORDER BY e.created_at DESC, e.src
    LIMIT :most::bigint
) AS n
UNION ALL
SELECT p.node, p.edge, 'out'::text, n.other
FROM jsonb_to_recordset(:probes::jsonb) AS p (node text, edge text)
CROSS JOIN LATERAL (
    SELECT e.dst AS other FROM edges e
    WHERE e.src = p.node AND e.type = p.edge AND EXISTS (SELECT 1 FROM nodes t WHERE t.id = e.dst)
    ORDER BY e.dst
    LIMIT :most::bigint
) AS n;

-- name: reports(node, ranges, most)
-- The newest nodes that relate to a node and whose ids lie in one of some ranges. They are found by their ids first: in
-- order of time all that relate to the node would be gone through.
SELECT t.src
FROM jsonb_to_recordset(:ranges::jsonb) AS r (low text, high text)
CROSS JOIN LATERAL (
    SELECT e.src FROM edges e
    WHERE e.dst = :node::text AND e.type = 'relates-to' AND e.src >= r.low AND e.src < r.high
    OFFSET 0
) AS f
JOIN edges t ON t.src = f.src AND t.type = 'relates-to' AND t.dst = :node::text
ORDER BY t.created_at DESC, t.src
LIMIT :most::bigint;

-- name: successors(ids, hops)
-- What stands in the place of superseded nodes, chains followed to the end: each one's newest successor.
WITH RECURSIVE chain (id, successor, hops) AS (
    SELECT wanted.id COLLATE "C", (
        SELECT e.src FROM edges e
        WHERE e.dst = wanted.id AND e.type = 'supersedes'
        ORDER BY e.created_at DESC, e.src
        LIMIT 1
    ), 1
    FROM jsonb_array_elements_text(:ids::jsonb) AS wanted (id)
    UNION
    SELECT c.successor, (
        SELECT e.src FROM edges e
        WHERE e.dst = c.successor AND e.type = 'supersedes'
        ORDER BY e.created_at DESC, e.src
        LIMIT 1
    ), c.hops + 1
    FROM chain c
    WHERE c.successor IS NOT NULL AND c.hops < :hops::integer
)
SELECT DISTINCT id, successor FROM chain WHERE successor IS NOT NULL
ORDER BY id;

-- name: cards(ids, whole)
-- Nodes as a briefing shows them, with who resolved and who superseded them; the bodies of some.
SELECT
    n.id, n.type, n.title, n.summary, n.status, n.date, n.project, n.author, n.authored_by_agent, n.created_at, n.extra,
    CASE WHEN n.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:whole::jsonb))) THEN n.body ELSE '' END,
    (SELECT r.resolver FROM live_resolutions r WHERE r.target = n.id ORDER BY r.at, r.resolver LIMIT 1),
    (SELECT e.src FROM edges e WHERE e.dst = n.id AND e.type = 'supersedes' ORDER BY e.created_at DESC, e.src LIMIT 1)
FROM nodes n
WHERE n.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: corrections(targets, most)
-- The corrections of each of some targets that are not retired, the newest first.
SELECT t.target, c.id
FROM jsonb_array_elements_text(:targets::jsonb) WITH ORDINALITY AS t (target, place)
CROSS JOIN LATERAL (
    SELECT n.id, n.created_at FROM nodes n
    WHERE n.type = 'correction' AND NOT n.dead AND n.extra::jsonb ->> 'target' = t.target
    ORDER BY n.created_at DESC, n.id
    LIMIT :most::bigint
) AS c
ORDER BY t.place, c.created_at DESC, c.id;

-- name: norms(most)
-- The newest norms in force, with what says where they apply.
SELECT n.id, n.date, n.extra FROM nodes n
WHERE n.type = 'norm' AND NOT n.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
ORDER BY n.created_at DESC, n.id
LIMIT :most::bigint;

-- name: groupings(repo)
-- The projects that a repository belongs to.
SELECT dst FROM edges WHERE src = :repo::text AND type = 'grouped-under'
ORDER BY dst;

-- name: briefs(id, target)
-- A project's stored brief: the one of this id, else the newest that was compiled for the project.
SELECT n.id FROM nodes n
WHERE n.id = :id::text AND n.type = 'briefing' AND NOT n.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
UNION ALL
SELECT c.id FROM (
    SELECT n.id FROM edges e
    JOIN nodes n ON n.id = e.src AND n.type = 'briefing' AND NOT n.dead
    WHERE e.dst = :target::text AND e.type = 'compiled-for'
      AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
    ORDER BY e.created_at DESC, e.src
    LIMIT 1
) AS c;

-- name: repos(most)
-- Repositories, with the other names and the fingerprints they go by.
SELECT id, extra FROM nodes WHERE type = 'repo' AND NOT dead
ORDER BY id
LIMIT :most::bigint;

-- name: belongs(project)
-- Whether any node belongs to a project.
SELECT EXISTS (SELECT 1 FROM nodes WHERE project = :project::text);

-- name: recent(project, types, most)
-- The newest nodes of some types in a project that are not retired, as many of each at most.
SELECT r.id
FROM jsonb_array_elements_text(:types::jsonb) WITH ORDINALITY AS k (type, place)
CROSS JOIN LATERAL (
    SELECT n.id, n.created_at FROM nodes n
    WHERE n.project = :project::text AND n.type = k.type AND NOT n.dead
    ORDER BY n.created_at DESC, n.id
    LIMIT :most::bigint
) AS r
ORDER BY k.place, r.created_at DESC, r.id;
