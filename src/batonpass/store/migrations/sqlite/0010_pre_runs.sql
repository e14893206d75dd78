-- The fleet as its workers tell of it: copies of their runs' records, the ends of those runs' logs, and what each agent's
-- machine can run; and which runs have used up what of an item's budget.

-- The copy that was furthest on of those that came, whole in `record`; the other columns are what is asked of it.
-- `counted` says that it is one of `item_runs`.
CREATE TABLE runs (
    run TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    owner TEXT,
    node TEXT,
    project TEXT,
    epoch INTEGER,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    terminal TEXT,
    termination TEXT,
    record TEXT NOT NULL,
    counted INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_newest ON runs (first_seen, run);
CREATE INDEX runs_node ON runs (node, first_seen, run);
CREATE INDEX runs_agent ON runs (agent, first_seen, run);
CREATE INDEX runs_state ON runs (state, first_seen, run);
CREATE INDEX runs_project ON runs (project, first_seen, run);
CREATE INDEX runs_last_seen ON runs (last_seen);

-- Stretches of a run's log, from the byte `start` up to `until`; those that end too far before the last are removed.
CREATE TABLE run_logs (
    run TEXT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, start)
) STRICT, WITHOUT ROWID;

-- One row for each tenure of an item under which a run was settled that counts (D22), for as long as the database lives;
-- those that a person has forgiven stay, so that nothing sent twice counts again.
CREATE TABLE item_runs (
    node TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    run TEXT NOT NULL,
    at INTEGER NOT NULL,
    forgiven INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (node, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX item_runs_standing ON item_runs (node) WHERE NOT forgiven;

-- What an agent's machine can run, as it was published last; `last_seen` moves with every heartbeat.
CREATE TABLE capabilities (
    agent TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    published_by TEXT NOT NULL,
    session TEXT,
    last_seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
