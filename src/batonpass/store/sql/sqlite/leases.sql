-- name: lock(resources)
-- Every lease row a write will change or stands on, locked in one total order, waiting for each.
-- The writer's turn is the lock here.
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource IN (SELECT value FROM json_each(:resources))
ORDER BY resource;

-- name: lock_free(resources)
-- The rows of a set that nobody holds locked; the others are asked for one by one (H16, D44).
-- The writer's turn is the lock here.
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource IN (SELECT value FROM json_each(:resources))
ORDER BY resource;

-- name: of(resources)
-- The lease rows of some resources, as committed: for views, never for a decision.
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource IN (SELECT value FROM json_each(:resources))
ORDER BY resource;

-- name: write(rows, expected)!
-- Every changed row at once. A row that is not as it was locked is a bug, not an answer: fewer rows than `expected`
-- fail the transaction (the driver counts them).
UPDATE leases SET
    kind = n.value ->> 'kind', holder = n.value ->> 'holder', holder_name = n.value ->> 'holder_name',
    owner = n.value ->> 'owner', session = n.value ->> 'session', dispatch = n.value ->> 'dispatch',
    epoch = n.value ->> 'epoch', version = n.value ->> 'version', claimed_at = n.value ->> 'claimed_at',
    granted_at = n.value ->> 'granted_at', expires_at = n.value ->> 'expires_at', lapses = n.value ->> 'lapses',
    run_token = n.value ->> 'run_token', acquired_under = n.value ->> 'acquired_under',
    taken_from = n.value ->> 'taken_from', provisional = n.value ->> 'provisional'
FROM json_each(:rows) AS n
WHERE leases.resource = n.value ->> 'resource' AND leases.version = n.value ->> 'was_version' AND :expected > 0;

-- name: carry_on(rows, expected)!
-- The rows of tenures that go on: what a renewal changes, and otherwise as `write`.
UPDATE leases SET
    session = n.value ->> 'session', version = n.value ->> 'version', granted_at = n.value ->> 'granted_at',
    expires_at = n.value ->> 'expires_at'
FROM json_each(:rows) AS n
WHERE leases.resource = n.value ->> 'resource' AND leases.version = n.value ->> 'was_version' AND :expected > 0;

-- name: create(resources)!
-- The rows of new resources, free and at epoch 0, so that there is always a row to lock. After a restore they begin beyond
-- whatever lost history may have given out for a resource of that name, as all others do then (D46).
INSERT INTO leases (resource, epoch, version)
SELECT value, first.number, first.number
FROM json_each(:resources), (SELECT (SELECT (max(i.n) - 1) * 4294967296 FROM incarnations i) AS number) AS first
WHERE true
ON CONFLICT (resource) DO NOTHING;

-- name: nonces_used(pairs)
-- Which (resource, nonce) pairs have acquired before (D6).
SELECT u.resource, u.nonce FROM json_each(:pairs) AS p
JOIN lease_nonces u ON u.resource = p.value ->> 'resource' AND u.nonce = p.value ->> 'nonce';

-- name: note_nonces(rows)!
-- The nonces that acquire now.
INSERT INTO lease_nonces (resource, nonce, epoch)
SELECT value ->> 'resource', value ->> 'nonce', value ->> 'epoch' FROM json_each(:rows);

-- name: working_set(tokens, resources)
-- The newest tenure each run token acquired on each of these resources (D2b).
SELECT token, resource, max(epoch) FROM run_tenures
WHERE token IN (SELECT value FROM json_each(:tokens)) AND resource IN (SELECT value FROM json_each(:resources))
GROUP BY token, resource;

-- name: note_tenures(rows)!
-- The tenures acquired under run tokens now.
INSERT INTO run_tenures (token, resource, epoch)
SELECT value ->> 'token', value ->> 'resource', value ->> 'epoch' FROM json_each(:rows);

-- name: nodes(resources)
-- What every lease verb must know of its nodes.
SELECT id, type, project FROM nodes WHERE id IN (SELECT value FROM json_each(:resources));

-- name: obstacles(resources)
-- The nodes that are not to be claimed: dead by their status, superseded by or resolved by whom, held by which pipeline.
-- Most are not among them.
SELECT id, status, superseded_by, resolved_by, execution
FROM (
    SELECT n.id, n.status, n.dead, n.extra ->> 'execution' AS execution,
        (SELECT min(s.src) FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes') AS superseded_by,
        (SELECT min(r.resolver) FROM live_resolutions r WHERE r.target = n.id) AS resolved_by
    FROM nodes n
    WHERE n.id IN (SELECT value FROM json_each(:resources))
) AS n
WHERE dead OR superseded_by IS NOT NULL OR resolved_by IS NOT NULL OR execution IS NOT NULL;

-- name: live_claims(holders, now)
-- How many leases in force on nodes each holder has, reservations included: both keep items from others.
SELECT holder, count(*) FROM leases
WHERE holder IN (SELECT value FROM json_each(:holders))
  AND substr(resource, 1, 7) <> 'record:'
  AND expires_at > coalesce(
    :now,
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
  )
GROUP BY holder;

-- name: lock_holders(holders)
-- The writer's turn is the lock here.
SELECT :holders;

-- name: traces(tenures)
-- The lapsed tenures whose holder left something on the node: a report, a finding, a resolver (D9).
SELECT DISTINCT t.value ->> 'resource' FROM json_each(:tenures) AS t
JOIN edges e ON e.dst = t.value ->> 'resource' AND e.type IN ('relates-to', 'resolves', 'answers')
    AND e.created_at >= t.value ->> 'since'
JOIN nodes n ON n.id = e.src AND n.authored_by_agent = t.value ->> 'holder';

-- name: of_holder(holder, person, session, since)
-- The rows an enumerating verb of `holder` is about: what it holds or lost to somebody since, and, for a token bound to
-- `session`, its person's leases bound to that session (D1). Candidates only: they are locked and decided after. Whoever
-- names nothing means nodes, never a record's task.
SELECT resource FROM leases
WHERE (holder = :holder OR taken_from = :holder OR (holder = :person AND session = :session))
  AND expires_at > :since AND substr(resource, 1, 7) <> 'record:'
ORDER BY resource;

-- name: list(holder, project, state, now, after, most)
-- Leases on nodes with the node's project, by resource: those in force, lapsed or reserved, of one holder or of all.
SELECT
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional,
    n.project, n.title
FROM leases l
LEFT JOIN nodes n ON n.id = l.resource
WHERE l.kind <> 'none' AND l.resource > :after AND substr(l.resource, 1, 7) <> 'record:'
  AND (:holder IS NULL OR l.holder = :holder OR l.owner = :holder)
  AND (:project IS NULL OR n.project = :project)
  AND CASE :state
      WHEN 'live' THEN l.kind = 'claim' AND l.expires_at > :now
      WHEN 'reserved' THEN l.kind = 'reservation' AND l.expires_at > :now
      WHEN 'lapsed' THEN l.expires_at <= :now
      ELSE true END
ORDER BY l.resource
LIMIT :most;

-- name: policies()
-- Every project's policy overrides; `*` is every project's.
SELECT project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready
FROM policies;

-- name: put_policy(project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready)!
-- One project's overrides, whole; NULL falls back to `*`, then to the default.
INSERT INTO policies (project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready)
VALUES (:project, :claim_ttl_ms, :claim_ttl_max_ms, :reserve_grace_ms, :lapse_limit, :run_limit, :max_claims, :paused, :agents_may_ready)
ON CONFLICT (project) DO UPDATE SET
    claim_ttl_ms = excluded.claim_ttl_ms, claim_ttl_max_ms = excluded.claim_ttl_max_ms,
    reserve_grace_ms = excluded.reserve_grace_ms, lapse_limit = excluded.lapse_limit, run_limit = excluded.run_limit,
    max_claims = excluded.max_claims, paused = excluded.paused, agents_may_ready = excluded.agents_may_ready;

-- name: lock_policies(key)
-- The writer's turn is the lock here.
SELECT :key;
