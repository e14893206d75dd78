-- name: facts(ids, heat_since, heat_most, cold_before, depth, most)
-- Everything of these nodes that their place in the queue depends on, with their lease rows. Each thing is looked up for
-- one node at a time, so that no plan reads a whole table for a few. The lists are JSON, NULL or empty where there is
-- nothing: hand-made `assigned` edges (to whom, whether that is an agent, whether a person wrote it), live blockers,
-- open questions one hop away in either direction, open findings that ride on it (fifty at most, declines first, since
-- workers heed those). An end's prefix is looked at before anything is read of it: a hub may have thousands. The live
-- nodes downstream over `blocks` are counted as far as `depth`; one may be reached once for each depth, so telling a
-- hundred apart takes `most` of a hundred times that.
SELECT
    n.id, n.type, n.title, n.status, n.project, n.priority, n.priority_by, n.priority_via, n.born, n.wake, n.needed_by,
    n.profile, n.requires, n.readiness, n.readiness_by, n.readiness_person, n.dead OR NOT n.queueable,
    EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes'),
    EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id),
    EXISTS (SELECT 1 FROM nodes a WHERE a.id IN ('repo-' || n.project, 'proj-' || n.project) AND a.status = 'archived'),
    n.extra ->> 'execution',
    n.extra ->> 'commits',
    (SELECT count(*) FROM (
        SELECT 1 FROM node_history h WHERE h.node = n.id AND h.n > 1 AND h.at > :heat_since LIMIT :heat_most
    ) AS lately),
    (SELECT count(*) FROM edges o WHERE o.src = n.id),
    (SELECT count(*) FROM edges o LEFT JOIN nodes t ON t.id = o.dst WHERE o.src = n.id AND o.type <> 'supersedes'
        AND (t.id IS NULL OR EXISTS (SELECT 1 FROM edges s WHERE s.dst = o.dst AND s.type = 'supersedes'))),
    (SELECT count(*) FROM edges o JOIN nodes t ON t.id = o.dst WHERE o.src = n.id AND t.updated_at < :cold_before),
    (SELECT json_group_array(json_array(dst, to_agent, by_person)) FROM (
        SELECT e.dst, substr(e.dst, 1, 6) = 'agent-' AS to_agent, e.by_person FROM edges e
        WHERE e.src = n.id AND e.type = 'assigned' ORDER BY e.dst
    ) AS few),
    (SELECT json_group_array(blocker) FROM (SELECT blocker FROM live_blockers WHERE target = n.id ORDER BY blocker) AS few),
    (
        WITH RECURSIVE down (id, depth) AS (
            SELECT e.dst, 1 FROM edges e
            JOIN nodes t ON t.id = e.dst
            WHERE e.src = n.id AND e.type = 'blocks' AND NOT t.dead AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = t.id AND s.type = 'supersedes')
              AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = t.id)
            UNION
            SELECT e.dst, d.depth + 1 FROM down d
            JOIN edges e ON e.src = d.id AND e.type = 'blocks'
            JOIN nodes t ON t.id = e.dst
            WHERE likelihood(d.depth < :depth, 0.0001) AND NOT t.dead AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = t.id AND s.type = 'supersedes')
              AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = t.id)
        )
        SELECT count(DISTINCT id) FROM (SELECT id FROM down WHERE id <> n.id LIMIT :most) AS few
    ),
    (SELECT json_group_array(id) FROM (
        SELECT q.id FROM edges e JOIN nodes q ON q.id = e.src
        WHERE e.dst = n.id AND substr(e.src, 1, 9) = 'question-' AND NOT q.dead
          AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = q.id AND s.type = 'supersedes')
          AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
        UNION
        SELECT q.id FROM edges e JOIN nodes q ON q.id = e.dst
        WHERE e.src = n.id AND substr(e.dst, 1, 9) = 'question-' AND NOT q.dead
          AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = q.id AND s.type = 'supersedes')
          AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
        ORDER BY 1
    ) AS few),
    (SELECT json_group_array(id) FROM (
        SELECT f.id FROM edges e JOIN nodes f ON f.id = e.src
        WHERE e.dst = n.id AND e.type = 'relates-to' AND e.src >= 'find-' AND e.src < 'find.' AND NOT f.dead
          AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = f.id AND s.type = 'supersedes')
          AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = f.id)
        ORDER BY substr(f.id, 1, 13) <> 'find-declined', f.id
        LIMIT 50
    ) AS few),
    (SELECT count(*) FROM item_runs c WHERE c.node = n.id AND NOT c.forgiven),
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional
FROM nodes n
LEFT JOIN leases l ON l.resource = n.id
WHERE n.id IN (SELECT value FROM json_each(:ids));

-- name: blockers(ids)
-- The live blockers of these nodes.
SELECT target, blocker FROM live_blockers WHERE target IN (SELECT value FROM json_each(:ids)) ORDER BY target, blocker;

-- name: outcomes(ids, weak)
-- What was written about these nodes and says more than that it was: artifacts and decisions with an edge onto them that
-- is none of the `weak`, unless they are the outcome of something else that is still open.
SELECT e.dst, o.id FROM edges e
JOIN nodes o ON o.id = e.src AND o.type IN ('artifact', 'decision')
WHERE e.dst IN (SELECT value FROM json_each(:ids))
  AND NOT e.type IN (SELECT value FROM json_each(:weak))
  AND NOT EXISTS (
      SELECT 1 FROM edges r JOIN nodes t ON t.id = r.dst AND NOT t.dead
      WHERE r.src = o.id AND r.type = 'resolves' AND r.dst <> e.dst
  )
ORDER BY e.dst, o.id;

-- name: cycles(ids, depth, most)
-- Which of these nodes block themselves, round about.
SELECT i.value FROM json_each(:ids) AS i
WHERE i.value IN (
    WITH RECURSIVE up (id, depth) AS (
        SELECT b.blocker, 1 FROM live_blockers b WHERE b.target = i.value
        UNION
        SELECT b.blocker, u.depth + 1 FROM up u JOIN live_blockers b ON b.target = u.id WHERE likelihood(u.depth < :depth, 0.0001)
    )
    SELECT id FROM up LIMIT :most
);

-- name: pick(ids)
-- The first of these, in their order. The writer's turn is the lock, so nothing is ever skipped.
SELECT
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional
FROM json_each(:ids) AS i
JOIN leases l ON l.resource = i.value
ORDER BY i.key
LIMIT 1;
