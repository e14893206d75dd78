-- name: window(project, types, exclude_types, assignee, unclaimed_at, rank, born, id, most)
-- The next live queueable nodes after a place, in order of priority and age; ties end in the id, so two reads without
-- writes agree. With a moment, only those that nobody has claimed then (nothing is later than NULL): a hint, what is
-- picked is locked and judged.
SELECT n.id, n.rank, n.born FROM nodes n
WHERE n.queueable AND NOT n.dead
  AND (n.rank, n.born, n.id) > (:rank, :born, :id)
  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.kind = 'claim' AND l.expires_at > :unclaimed_at)
  AND :project IS NULL
  AND (:types IS NULL OR n.type IN (SELECT value FROM json_each(:types)))
  AND NOT (n.type IN (SELECT value FROM json_each(:exclude_types)))
  AND (:assignee IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most;

-- name: window_in(project, types, exclude_types, assignee, unclaimed_at, rank, born, id, most)
-- The same in one project. A statement of its own: one for both walks the nodes of every project to find those of one.
SELECT n.id, n.rank, n.born FROM nodes n
WHERE n.queueable AND NOT n.dead
  AND (n.rank, n.born, n.id) > (:rank, :born, :id)
  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.kind = 'claim' AND l.expires_at > :unclaimed_at)
  AND n.project = :project
  AND (:types IS NULL OR n.type IN (SELECT value FROM json_each(:types)))
  AND NOT (n.type IN (SELECT value FROM json_each(:exclude_types)))
  AND (:assignee IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most;

-- name: reserved(holder, owner, now, project, types, exclude_types, assignee, most)
-- The live queueable nodes that a holder, or an agent of the owner, has reserved, in the queue's order.
-- CROSS: the leases first, which are few; the planner would walk the queue.
SELECT n.id FROM leases l
CROSS JOIN nodes n ON n.id = l.resource
WHERE l.kind = 'reservation' AND l.expires_at > :now
  AND (l.holder = :holder OR l.owner = :owner)
  AND n.queueable AND NOT n.dead
  AND (:project IS NULL OR n.project = :project)
  AND (:types IS NULL OR n.type IN (SELECT value FROM json_each(:types)))
  AND NOT (n.type IN (SELECT value FROM json_each(:exclude_types)))
  AND (:assignee IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most;

-- name: facts(ids)
-- Everything of these nodes that their place in the queue depends on, with their lease rows.
SELECT
    n.id, n.type, n.title, n.status, n.project, n.priority, n.priority_by, n.priority_via, n.born, n.wake, n.needed_by,
    n.profile, n.requires, n.readiness, n.readiness_by, n.readiness_person, n.dead,
    EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes'),
    EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id),
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional
FROM nodes n
LEFT JOIN leases l ON l.resource = n.id
WHERE n.id IN (SELECT value FROM json_each(:ids));

-- name: routings(ids)
-- Hand-made `assigned` edges: to whom, whether that is an agent, whether a person wrote it.
SELECT e.src, e.dst, coalesce(t.type = 'agent', false), e.by_person
FROM edges e
LEFT JOIN nodes t ON t.id = e.dst
WHERE e.type = 'assigned' AND e.src IN (SELECT value FROM json_each(:ids))
ORDER BY e.src, e.dst;

-- name: blockers(ids)
-- The live blockers of these nodes.
SELECT target, blocker FROM live_blockers WHERE target IN (SELECT value FROM json_each(:ids)) ORDER BY target, blocker;

-- name: blocking(ids)
-- How many live nodes each of these blocks directly.
SELECT e.src, count(*) FROM edges e
JOIN nodes t ON t.id = e.dst AND NOT t.dead
WHERE e.type = 'blocks' AND e.src IN (SELECT value FROM json_each(:ids))
GROUP BY e.src;

-- name: questions(ids)
-- Open questions one hop away from these nodes, in either direction.
SELECT e.dst, q.id FROM edges e JOIN nodes q ON q.id = e.src
WHERE q.type = 'question' AND NOT q.dead AND e.dst IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
UNION
SELECT e.src, q.id FROM edges e JOIN nodes q ON q.id = e.dst
WHERE q.type = 'question' AND NOT q.dead AND e.src IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
ORDER BY 1, 2;

-- name: findings(ids)
-- Open findings that ride on these nodes.
SELECT e.dst, f.id FROM edges e JOIN nodes f ON f.id = e.src
WHERE e.type = 'relates-to' AND f.type = 'finding' AND NOT f.dead AND e.dst IN (SELECT value FROM json_each(:ids))
ORDER BY e.dst, f.id;

-- name: pick(ids)
-- The first of these, in their order. The writer's turn is the lock, so nothing is ever skipped.
SELECT
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional
FROM json_each(:ids) AS i
JOIN leases l ON l.resource = i.value
ORDER BY i.key
LIMIT 1;

-- name: lock_launch(holder, dispatch)
-- The writer's turn is the lock; nothing to do.
SELECT :holder, :dispatch;

-- name: launched(holder, dispatch)
-- The resource a holder's launch with this nonce has claimed.
SELECT resource FROM leases
WHERE holder = :holder AND dispatch = :dispatch AND kind = 'claim'
ORDER BY resource LIMIT 1;
