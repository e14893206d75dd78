-- name: lock(resources)
-- Every lease row a write will change or stands on, locked in one total order, waiting for each.
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)))
ORDER BY resource
FOR UPDATE;

-- name: lock_free(resources)
-- The rows of a set that nobody holds locked; the others are asked for one by one (H16, D44).
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)))
ORDER BY resource
FOR UPDATE SKIP LOCKED;

-- name: of(resources)
-- The lease rows of some resources, as committed: for views, never for a decision.
SELECT
    resource, kind, holder, holder_name, owner, session, dispatch, epoch, version, claimed_at, granted_at,
    expires_at, lapses, run_token, acquired_under, taken_from, provisional
FROM leases
WHERE resource = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)))
ORDER BY resource;

-- name: write(rows, expected)
-- Every changed row at once. A row that is not as it was locked is a bug, not an answer: the transaction fails.
-- The array says again which rows, so that the index is used: of a set's size the planner knows nothing, and over some
-- thousand leases it would read them all.
WITH n AS (
    SELECT * FROM jsonb_to_recordset(:rows::jsonb) AS n (
        resource text, kind text, holder text, holder_name text, owner text, session text, dispatch text,
        epoch bigint, version bigint, claimed_at bigint, granted_at bigint, expires_at bigint, lapses integer,
        run_token text, acquired_under text, taken_from text, provisional boolean, was_version bigint
    )
), written AS (
    UPDATE leases SET
        kind = n.kind, holder = n.holder, holder_name = n.holder_name, owner = n.owner, session = n.session,
        dispatch = n.dispatch, epoch = n.epoch, version = n.version, claimed_at = n.claimed_at,
        granted_at = n.granted_at, expires_at = n.expires_at, lapses = n.lapses, run_token = n.run_token,
        acquired_under = n.acquired_under, taken_from = n.taken_from, provisional = n.provisional
    FROM n
    WHERE leases.resource = n.resource AND leases.version = n.was_version
      AND leases.resource = ANY (ARRAY(SELECT resource FROM n))
    RETURNING 1
)
SELECT batonpass_require_rows(count(*), :expected::bigint) FROM written;

-- name: carry_on(rows, expected)
-- The rows of tenures that go on: what a renewal changes, and otherwise as `write`.
WITH n AS (
    SELECT * FROM jsonb_to_recordset(:rows::jsonb) AS n (
        resource text, session text, version bigint, granted_at bigint, expires_at bigint, was_version bigint
    )
), written AS (
    UPDATE leases SET
        session = n.session, version = n.version, granted_at = n.granted_at, expires_at = n.expires_at
    FROM n
    WHERE leases.resource = n.resource AND leases.version = n.was_version
      AND leases.resource = ANY (ARRAY(SELECT resource FROM n))
    RETURNING 1
)
SELECT batonpass_require_rows(count(*), :expected::bigint) FROM written;

-- name: create(resources)!
-- The rows of new resources, free and at epoch 0, so that there is always a row to lock. After a restore they begin beyond
-- whatever lost history may have given out for a resource of that name, as all others do then (D46).
INSERT INTO leases (resource, epoch, version)
SELECT resource, first.number, first.number
FROM jsonb_array_elements_text(:resources::jsonb) AS resource, (SELECT (SELECT (max(i.n) - 1)::bigint * 4294967296 FROM incarnations i) AS number) AS first
ON CONFLICT (resource) DO NOTHING;

-- name: nonces_used(pairs)
-- Which (resource, nonce) pairs have acquired before (D6).
SELECT u.resource, u.nonce FROM lease_nonces u
JOIN jsonb_to_recordset(:pairs::jsonb) AS p (resource text, nonce text) ON p.resource = u.resource AND p.nonce = u.nonce
WHERE u.resource = ANY (ARRAY(SELECT jsonb_array_elements(:pairs::jsonb) ->> 'resource'));

-- name: note_nonces(rows)!
-- The nonces that acquire now.
INSERT INTO lease_nonces (resource, nonce, epoch)
SELECT resource, nonce, epoch FROM jsonb_to_recordset(:rows::jsonb) AS n (resource text, nonce text, epoch bigint);

-- name: working_set(tokens, resources)
-- The newest tenure each run token acquired on each of these resources (D2b).
SELECT token, resource, max(epoch) FROM run_tenures
WHERE token = ANY (ARRAY(SELECT jsonb_array_elements_text(:tokens::jsonb))) AND resource = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)))
GROUP BY token, resource;

-- name: note_tenures(rows)!
-- The tenures acquired under run tokens now.
INSERT INTO run_tenures (token, resource, epoch)
SELECT token, resource, epoch FROM jsonb_to_recordset(:rows::jsonb) AS n (token text, resource text, epoch bigint);

-- name: nodes(resources)
-- What every lease verb must know of its nodes.
SELECT id, type, project FROM nodes WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)));

-- name: obstacles(resources)
-- The nodes that are not to be claimed: dead by their status, superseded by or resolved by whom, held by which pipeline.
-- Most are not among them.
SELECT id, status, superseded_by, resolved_by, execution
FROM (
    SELECT n.id, n.status, n.dead, n.extra::jsonb ->> 'execution' AS execution,
        (SELECT min(s.src) FROM edges s WHERE s.dst = n.id AND s.type = 'supersedes') AS superseded_by,
        (SELECT min(r.resolver) FROM live_resolutions r WHERE r.target = n.id) AS resolved_by
    FROM nodes n
    WHERE n.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:resources::jsonb)))
) AS n
WHERE dead OR superseded_by IS NOT NULL OR resolved_by IS NOT NULL OR execution IS NOT NULL;

-- name: live_claims(holders, now)
-- How many leases in force on nodes each holder has, reservations included: both keep items from others.
SELECT holder, count(*) FROM leases
WHERE holder = ANY (ARRAY(SELECT jsonb_array_elements_text(:holders::jsonb)))
  AND substr(resource, 1, 7) <> 'record:'
  AND expires_at > coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
GROUP BY holder;

-- name: lock_holders(holders)
-- Let nobody else acquire for these holders until the transaction ends: how many they hold is counted next. Taken
-- after lease rows, in the order of the locks themselves.
SELECT pg_advisory_xact_lock(key)
FROM (
    SELECT hashtextextended(holder, 0) AS key
    FROM jsonb_array_elements_text(:holders::jsonb) AS holder
    ORDER BY 1
) AS keys;

-- name: traces(tenures)
-- The lapsed tenures whose holder left something on the node: a report, a finding, a resolver (D9).
SELECT DISTINCT t.resource FROM jsonb_to_recordset(:tenures::jsonb) AS t (resource text, holder text, since bigint)
JOIN edges e ON e.dst = t.resource AND e.type IN ('relates-to', 'resolves', 'answers') AND e.created_at >= t.since
JOIN nodes n ON n.id = e.src AND n.authored_by_agent = t.holder;

-- name: of_holder(holder, person, session, since)
-- The rows an enumerating verb of `holder` is about: what it holds or lost to somebody since, and, for a token bound to
-- `session`, its person's leases bound to that session (D1). Candidates only: they are locked and decided after. Whoever
-- names nothing means nodes, never a record's task.
SELECT resource FROM leases
WHERE (holder = :holder::text OR taken_from = :holder::text OR (holder = :person::text AND session = :session::text))
  AND expires_at > :since::bigint AND substr(resource, 1, 7) <> 'record:'
ORDER BY resource;

-- name: list(holder, project, state, now, after, most)
-- Leases on nodes with the node's project, by resource: those in force, lapsed or reserved, of one holder or of all.
SELECT
    l.resource, l.kind, l.holder, l.holder_name, l.owner, l.session, l.dispatch, l.epoch, l.version, l.claimed_at,
    l.granted_at, l.expires_at, l.lapses, l.run_token, l.acquired_under, l.taken_from, l.provisional,
    n.project, n.title
FROM leases l
LEFT JOIN nodes n ON n.id = l.resource
WHERE l.kind <> 'none' AND l.resource > :after::text AND substr(l.resource, 1, 7) <> 'record:'
  AND (:holder::text IS NULL OR l.holder = :holder::text OR l.owner = :holder::text)
  AND (:project::text IS NULL OR n.project = :project::text)
  AND CASE :state::text
      WHEN 'live' THEN l.kind = 'claim' AND l.expires_at > :now::bigint
      WHEN 'reserved' THEN l.kind = 'reservation' AND l.expires_at > :now::bigint
      WHEN 'lapsed' THEN l.expires_at <= :now::bigint
      ELSE true END
ORDER BY l.resource
LIMIT :most::bigint;

-- name: policies()
-- Every project's policy overrides; `*` is every project's.
SELECT project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready
FROM policies;

-- name: put_policy(project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready)!
-- One project's overrides, whole; NULL falls back to `*`, then to the default.
INSERT INTO policies (project, claim_ttl_ms, claim_ttl_max_ms, reserve_grace_ms, lapse_limit, run_limit, max_claims, paused, agents_may_ready)
VALUES (:project::text, :claim_ttl_ms::bigint, :claim_ttl_max_ms::bigint, :reserve_grace_ms::bigint, :lapse_limit::bigint, :run_limit::bigint, :max_claims::bigint, :paused::text, :agents_may_ready::boolean)
ON CONFLICT (project) DO UPDATE SET
    claim_ttl_ms = excluded.claim_ttl_ms, claim_ttl_max_ms = excluded.claim_ttl_max_ms,
    reserve_grace_ms = excluded.reserve_grace_ms, lapse_limit = excluded.lapse_limit, run_limit = excluded.run_limit,
    max_claims = excluded.max_claims, paused = excluded.paused, agents_may_ready = excluded.agents_may_ready;

-- name: lock_policies(key)
-- One change of a policy at a time; the row may not be there yet, so there is none to lock.
SELECT pg_advisory_xact_lock(:key);
