-- name: window(project, types, exclude_types, assignee, unclaimed_at, rank, born, id, most)
-- The next live queueable nodes after a place, in order of priority and age; ties end in the id, so two reads without
-- writes agree. With a moment, only those that nobody has claimed then (nothing is later than NULL): a hint, what is
-- picked is locked and judged.
SELECT n.id, n.rank, n.born FROM nodes n
WHERE n.queueable AND NOT n.dead
  AND (n.rank, n.born, n.id) > (:rank::integer, :born::bigint, :id::text)
  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.kind = 'claim' AND l.expires_at > :unclaimed_at::bigint)
  AND :project::text IS NULL
  AND (:types::text IS NULL OR n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
  AND (:assignee::text IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee::text)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee::text))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most::bigint;

-- name: window_in(project, types, exclude_types, assignee, unclaimed_at, rank, born, id, most)
-- The same in one project. A statement of its own: one for both walks the nodes of every project to find those of one.
SELECT n.id, n.rank, n.born FROM nodes n
WHERE n.queueable AND NOT n.dead
  AND (n.rank, n.born, n.id) > (:rank::integer, :born::bigint, :id::text)
  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.kind = 'claim' AND l.expires_at > :unclaimed_at::bigint)
  AND n.project = :project::text
  AND (:types::text IS NULL OR n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
  AND (:assignee::text IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee::text)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee::text))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most::bigint;

-- name: reserved(holder, owner, now, project, types, exclude_types, assignee, most)
-- The live queueable nodes that a holder, or an agent of the owner, has reserved, in the queue's order.
SELECT n.id FROM leases l
JOIN nodes n ON n.id = l.resource
WHERE l.kind = 'reservation' AND l.expires_at > :now::bigint
  AND (l.holder = :holder::text OR l.owner = :owner::text)
  AND n.queueable AND NOT n.dead
  AND (:project::text IS NULL OR n.project = :project::text)
  AND (:types::text IS NULL OR n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
  AND (:assignee::text IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee::text)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee::text))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = n.id)
ORDER BY n.rank, n.born, n.id
LIMIT :most::bigint;

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
WHERE n.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: routings(ids)
-- Hand-made `assigned` edges: to whom, whether that is an agent, whether a person wrote it.
SELECT e.src, e.dst, coalesce(t.type = 'agent', false), e.by_person
FROM edges e
LEFT JOIN nodes t ON t.id = e.dst
WHERE e.type = 'assigned' AND e.src = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
ORDER BY e.src, e.dst;

-- name: blockers(ids)
-- The live blockers of these nodes.
SELECT target, blocker FROM live_blockers WHERE target = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))) ORDER BY target, blocker;

-- name: blocking(ids)
-- How many live nodes each of these blocks directly.
SELECT e.src, count(*) FROM edges e
JOIN nodes t ON t.id = e.dst AND NOT t.dead
WHERE e.type = 'blocks' AND e.src = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
GROUP BY e.src;

-- name: questions(ids)
-- Open questions one hop away from these nodes, in either direction.
SELECT e.dst, q.id FROM edges e JOIN nodes q ON q.id = e.src
WHERE q.type = 'question' AND NOT q.dead AND e.dst = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
UNION
SELECT e.src, q.id FROM edges e JOIN nodes q ON q.id = e.dst
WHERE q.type = 'question' AND NOT q.dead AND e.src = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = q.id)
ORDER BY 1, 2;

-- name: findings(ids)
-- Open findings that ride on these nodes.
SELECT e.dst, f.id FROM edges e JOIN nodes f ON f.id = e.src
WHERE e.type = 'relates-to' AND f.type = 'finding' AND NOT f.dead AND e.dst = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
ORDER BY e.dst, f.id;

-- name: pick(ids)
-- The first of these, in their order, whose lease row nobody holds locked; locked now. What else is true of it is read
-- again under this lock: a join's snapshot would be stale (H5).
SELECT
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional
FROM jsonb_array_elements_text(:ids::jsonb) WITH ORDINALITY AS i (id, place)
JOIN leases l ON l.resource = i.id
ORDER BY i.place
LIMIT 1
FOR UPDATE OF l SKIP LOCKED;

-- name: lock_launch(holder, dispatch)
-- One `next` at a time of a holder's launch with this nonce, to COMMIT; whoever waits then sees what the other claimed.
SELECT pg_advisory_xact_lock(hashtext('batonpass.launch ' || :holder::text), hashtext(:dispatch::text));

-- name: launched(holder, dispatch)
-- The resource a holder's launch with this nonce has claimed.
SELECT resource FROM leases
WHERE holder = :holder::text AND dispatch = :dispatch::text AND kind = 'claim'
ORDER BY resource LIMIT 1;
