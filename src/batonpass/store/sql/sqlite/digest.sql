-- name: neighbours(probes, most)
-- What edges of some types join some nodes to, either way: of each probe at most `most` each way, the newest first.
SELECT p.value ->> 'node', p.value ->> 'edge', 'in', n.value
FROM json_each(:probes) AS p, json_each((
    SELECT json_group_array(src) FROM (
        SELECT e.src FROM edges e
        WHERE e.dst = p.value ->> 'node' AND e.type = p.value ->> 'edge'
        ORDER BY e.created_at DESC, e.src
        LIMIT :most
    )
)) AS n
UNION ALL
SELECT p.value ->> 'node', p.value ->> 'edge', 'out', n.value
FROM json_each(:probes) AS p, json_each((
    SELECT json_group_array(dst) FROM (
        SELECT e.dst FROM edges e
        WHERE e.src = p.value ->> 'node' AND e.type = p.value ->> 'edge'
          AND EXISTS (SELECT 1 FROM nodes t WHERE t.id = e.dst)
        ORDER BY e.dst
        LIMIT :most
    )
)) AS n;

-- name: reports(node, ranges, most)
-- The newest nodes that relate to a node and whose ids lie in one of some ranges. The index is named: in the order of
-- the other all that relate to the node would be gone through.
SELECT e.src
FROM json_each(:ranges) AS r
CROSS JOIN edges e INDEXED BY edges_inbound ON e.dst = :node AND e.type = 'relates-to' AND e.src >= r.value ->> 'low' AND e.src < r.value ->> 'high'
ORDER BY e.created_at DESC, e.src
LIMIT :most;

-- name: successors(ids, hops)
-- What stands in the place of superseded nodes, chains followed to the end: each one's newest successor.
WITH RECURSIVE chain (id, successor, hops) AS (
    SELECT value, (
        SELECT e.src FROM edges e WHERE e.dst = value AND e.type = 'supersedes' ORDER BY e.created_at DESC, e.src LIMIT 1
    ), 1
    FROM json_each(:ids)
    UNION
    SELECT c.successor, (
        SELECT e.src FROM edges e
        WHERE e.dst = c.successor AND e.type = 'supersedes'
        ORDER BY e.created_at DESC, e.src
        LIMIT 1
    ), c.hops + 1
    FROM chain c
    WHERE c.successor IS NOT NULL AND c.hops < :hops
)
SELECT DISTINCT id, successor FROM chain WHERE successor IS NOT NULL
ORDER BY id;

-- name: cards(ids, whole)
-- Nodes as a briefing shows them, with who resolved and who superseded them; the bodies of some.
SELECT
    n.id, n.type, n.title, n.summary, n.status, n.date, n.project, n.author, n.authored_by_agent, n.created_at, n.extra,
    CASE WHEN n.id IN (SELECT value FROM json_each(:whole)) THEN n.body ELSE '' END,
    (SELECT r.resolver FROM live_resolutions r WHERE r.target = n.id ORDER BY r.at, r.resolver LIMIT 1),
    (SELECT e.src FROM edges e WHERE e.dst = n.id AND e.type = 'supersedes' ORDER BY e.created_at DESC, e.src LIMIT 1)
FROM nodes n
WHERE n.id IN (SELECT value FROM json_each(:ids));

-- name: corrections(targets, most)
-- The corrections of each of some targets that are not retired, the newest first.
SELECT t.value, c.value
FROM json_each(:targets) AS t, json_each((
    SELECT json_group_array(id) FROM (
        SELECT n.id FROM nodes n
        WHERE n.type = 'correction' AND NOT n.dead AND n.extra ->> 'target' = t.value
        ORDER BY n.created_at DESC, n.id
        LIMIT :most
    )
)) AS c
ORDER BY t.key, c.key;

-- name: norms(most)
-- The newest norms in force, with what says where they apply. The index is named: the planner takes nodes_type for as
-- good, and would read every norm there ever was.
SELECT n.id, n.date, n.extra FROM nodes n INDEXED BY nodes_norms
WHERE n.type = 'norm' AND NOT n.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
ORDER BY n.created_at DESC, n.id
LIMIT :most;

-- name: groupings(repo)
-- The projects that a repository belongs to.
SELECT dst FROM edges WHERE src = :repo AND type = 'grouped-under'
ORDER BY dst;

-- name: briefs(id, target)
-- A project's stored brief: the one of this id, else the newest that was compiled for the project.
SELECT n.id FROM nodes n
WHERE n.id = :id AND n.type = 'briefing' AND NOT n.dead
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
UNION ALL
SELECT c.id FROM (
    SELECT n.id FROM edges e
    JOIN nodes n ON n.id = e.src AND n.type = 'briefing' AND NOT n.dead
    WHERE e.dst = :target AND e.type = 'compiled-for'
      AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
    ORDER BY e.created_at DESC, e.src
    LIMIT 1
) AS c;

-- name: repos(most)
-- Repositories, with the other names and the fingerprints they go by.
SELECT id, extra FROM nodes WHERE type = 'repo' AND NOT dead
ORDER BY id
LIMIT :most;

-- name: belongs(project)
-- Whether any node belongs to a project.
SELECT EXISTS (SELECT 1 FROM nodes WHERE project = :project);

-- name: recent(project, types, most)
-- The newest nodes of some types in a project that are not retired, as many of each at most.
SELECT r.value
FROM json_each(:types) AS k, json_each((
    SELECT json_group_array(id) FROM (
        SELECT n.id FROM nodes n
        WHERE n.project = :project AND n.type = k.value AND NOT n.dead
        ORDER BY n.created_at DESC, n.id
        LIMIT :most
    )
)) AS r
ORDER BY k.key, r.key;
