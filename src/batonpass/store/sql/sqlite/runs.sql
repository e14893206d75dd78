-- name: lock(run)!
-- Nobody else writes this run or its log before the transaction ends. The writer's turn is the lock here.
SELECT 1 WHERE :run = :run;

-- name: known(run)
-- The copy of a run that stands, for who will write another; after `lock`.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs WHERE run = :run;

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
    :run, :agent, :owner, :node, :project, :epoch, :state, :attempt, :settled, :terminal, :termination, :record, :counted,
    :now, :now
)
ON CONFLICT (run) DO UPDATE SET
    owner = excluded.owner, node = excluded.node, project = excluded.project, epoch = excluded.epoch,
    state = excluded.state, attempt = excluded.attempt, settled = excluded.settled, terminal = excluded.terminal,
    termination = excluded.termination, record = excluded.record, counted = excluded.counted,
    last_seen = excluded.last_seen;

-- name: heard(run, now)!
-- A copy came that changes nothing: the run was heard of all the same.
UPDATE runs SET last_seen = max(last_seen, :now) WHERE run = :run;

-- name: listed(before, before_run, most)
-- Runs, the newest first, before a place, which is behind every other for the first page.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE (first_seen, run) < (:before, :before_run)
ORDER BY first_seen DESC, run DESC
LIMIT :most;

-- name: listed_of_node(node, agent, state, project, before, before_run, most)
-- Those of an item; like the others below it goes along the one thing there is fewest of.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE node = :node AND (first_seen, run) < (:before, :before_run)
  AND (:agent IS NULL OR agent = :agent)
  AND (:state IS NULL OR state = :state)
  AND (:project IS NULL OR project = :project)
ORDER BY first_seen DESC, run DESC
LIMIT :most;

-- name: listed_of_agent(agent, state, project, before, before_run, most)
-- Those of an agent.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE agent = :agent AND (first_seen, run) < (:before, :before_run)
  AND (:state IS NULL OR state = :state)
  AND (:project IS NULL OR project = :project)
ORDER BY first_seen DESC, run DESC
LIMIT :most;

-- name: listed_in_state(state, project, before, before_run, most)
-- Those in a state.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE state = :state AND (first_seen, run) < (:before, :before_run)
  AND (:project IS NULL OR project = :project)
ORDER BY first_seen DESC, run DESC
LIMIT :most;

-- name: listed_of_project(project, before, before_run, most)
-- Those of a project.
SELECT
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination, record, counted, first_seen, last_seen
FROM runs
WHERE project = :project AND (first_seen, run) < (:before, :before_run)
ORDER BY first_seen DESC, run DESC
LIMIT :most;

-- name: log_end(run)
-- Where the log that came ends, in bytes.
SELECT coalesce(max(until), 0) FROM run_logs WHERE run = :run;

-- name: log(run)
-- The stretches of a run's log that are kept, in order.
SELECT start, text FROM run_logs WHERE run = :run ORDER BY start;

-- name: put_log(run, start, until, text)!
-- A stretch of a run's log.
INSERT INTO run_logs (run, start, until, text) VALUES (:run, :start, :until, :text);

-- name: cut_log(run, before)!
-- Drop the stretches that end so far back.
DELETE FROM run_logs WHERE run = :run AND until <= :before;

-- name: count(node, epoch, nonce, run, now)
-- A tenure that a settled run has used up, once: a row if it counts now. The nonce is the one that acquired the tenure,
-- else nothing is counted.
INSERT INTO item_runs (node, epoch, run, at)
SELECT :node, :epoch, :run, :now
WHERE EXISTS (SELECT 1 FROM lease_nonces WHERE resource = :node AND nonce = :nonce AND epoch = :epoch)
ON CONFLICT (node, epoch) DO NOTHING
RETURNING 1;

-- name: forgive(node)
-- The runs of a node that count, and count no more: a row for each.
UPDATE item_runs SET forgiven = 1 WHERE node = :node AND NOT forgiven RETURNING 1;
