-- name: lock(run)!
-- Nobody else writes this run or its log before the transaction ends. There may be no row to lock, so the name is.
SELECT pg_advisory_xact_lock(hashtextextended('run:' || :run::text, 3));

-- name: known(run)
-- The copy of a run that stands, for who will write another; after `lock`.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs WHERE run = :run FOR UPDATE;

-- name: of(run)
-- The copy of a run that stands.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs WHERE run = :run;

-- name: put(run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, now)!
-- A run's copy in the place of the one before.
INSERT INTO runs (
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
)
VALUES (
    :run::text, :agent::text, :owner::text, :node::text, :project::text, :epoch::bigint, :state::text, :attempt::bigint,
    :settled::boolean, :terminal::text, :termination::text, :record::text, :counted::boolean, :now::bigint, :now::bigint
)
ON CONFLICT (run) DO UPDATE SET
    owner = excluded.owner, node = excluded.node, project = excluded.project, epoch = excluded.epoch,
    state = excluded.state, attempt = excluded.attempt, settled = excluded.settled, terminal = excluded.terminal,
    termination = excluded.termination, record = excluded.record, counted = excluded.counted,
    last_seen = excluded.last_seen;

-- name: heard(run, now)!
-- A copy came that changes nothing: the run was heard of all the same.
UPDATE runs SET last_seen = greatest(last_seen, :now::bigint) WHERE run = :run;

-- name: listed(before, before_run, most)
-- Runs, the newest first, before a place, which is behind every other for the first page.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE (first_seen, run) < (:before::bigint, :before_run::text)
ORDER BY first_seen DESC, run DESC
LIMIT :most::bigint;

-- name: listed_of_node(node, agent, state, project, before, before_run, most)
-- Those of an item; like the others below it goes along the one thing there is fewest of.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE node = :node::text AND (first_seen, run) < (:before::bigint, :before_run::text)
  AND (:agent::text IS NULL OR agent = :agent::text)
  AND (:state::text IS NULL OR state = :state::text)
  AND (:project::text IS NULL OR project = :project::text)
ORDER BY first_seen DESC, run DESC
LIMIT :most::bigint;

-- name: listed_of_agent(agent, state, project, before, before_run, most)
-- Those of an agent.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE agent = :agent::text AND (first_seen, run) < (:before::bigint, :before_run::text)
  AND (:state::text IS NULL OR state = :state::text)
  AND (:project::text IS NULL OR project = :project::text)
ORDER BY first_seen DESC, run DESC
LIMIT :most::bigint;

-- name: listed_in_state(state, project, before, before_run, most)
-- Those in a state.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE state = :state::text AND (first_seen, run) < (:before::bigint, :before_run::text)
  AND (:project::text IS NULL OR project = :project::text)
ORDER BY first_seen DESC, run DESC
LIMIT :most::bigint;

-- name: listed_of_project(project, before, before_run, most)
-- Those of a project.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE project = :project::text AND (first_seen, run) < (:before::bigint, :before_run::text)
ORDER BY first_seen DESC, run DESC
LIMIT :most::bigint;

-- name: log_end(run)
-- Where the log that came ends, in bytes.
SELECT coalesce(max(until), 0) FROM run_logs WHERE run = :run;

-- name: log(run)
-- The stretches of a run's log that are kept, in order.
SELECT start, text FROM run_logs WHERE run = :run ORDER BY start;

-- name: put_log(run, start, until, text)!
-- A stretch of a run's log.
INSERT INTO run_logs (run, start, until, text) VALUES (:run::text, :start::bigint, :until::bigint, :text::text);

-- name: cut_log(run, before)!
-- Drop the stretches that end so far back.
DELETE FROM run_logs WHERE run = :run AND until <= :before::bigint;

-- name: count(node, epoch, nonce, run, now)
-- A tenure that a settled run has used up, once: a row if it counts now. The nonce is the one that acquired the tenure,
-- else nothing is counted.
INSERT INTO item_runs (node, epoch, run, at)
SELECT :node::text, :epoch::bigint, :run::text, :now::bigint
WHERE EXISTS (
    SELECT 1 FROM lease_nonces WHERE resource = :node::text AND nonce = :nonce::text AND epoch = :epoch::bigint
)
ON CONFLICT (node, epoch) DO NOTHING
RETURNING 1;

-- name: forgive(node)
-- The runs of a node that count, and count no more: a row for each.
UPDATE item_runs SET forgiven = true WHERE node = :node AND NOT forgiven RETURNING 1;
