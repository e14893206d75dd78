-- The fleet as its workers tell of it: copies of their runs' records, the ends of those runs' logs, and what each agent's
-- machine can run; and which runs have used up what of an item's budget.

-- The copy that was furthest on of those that came, whole in `record`; the other columns are what is asked of it.
-- `counted` says that it is one of `item_runs`.
CREATE TABLE runs (
    run text COLLATE "C" NOT NULL PRIMARY KEY,
    agent text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    node text COLLATE "C",
    project text COLLATE "C",
    epoch bigint,
    state text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    settled boolean NOT NULL,
    terminal text COLLATE "C",
    termination text COLLATE "C",
    record text NOT NULL,
    counted boolean NOT NULL,
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL
);
CREATE INDEX runs_newest ON runs (first_seen, run);
CREATE INDEX runs_node ON runs (node, first_seen, run);
CREATE INDEX runs_agent ON runs (agent, first_seen, run);
CREATE INDEX runs_state ON runs (state, first_seen, run);
CREATE INDEX runs_project ON runs (project, first_seen, run);
CREATE INDEX runs_last_seen ON runs (last_seen);

-- Stretches of a run's log, from the byte `start` up to `until`; those that end too far before the last are removed.
CREATE TABLE run_logs (
    run text COLLATE "C" NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
    start bigint NOT NULL,
    until bigint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (run, start)
);

-- One row for each tenure of an item under which a run was settled that counts (D22), for as long as the database lives;
-- those that a person has forgiven stay, so that nothing sent twice counts again.
CREATE TABLE item_runs (
    node text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    run text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    forgiven boolean NOT NULL DEFAULT false,
    PRIMARY KEY (node, epoch)
);
CREATE INDEX item_runs_standing ON item_runs (node) WHERE NOT forgiven;

-- What an agent's machine can run, as it was published last; `last_seen` moves with every heartbeat.
CREATE TABLE capabilities (
    agent text COLLATE "C" NOT NULL PRIMARY KEY,
    document text NOT NULL,
    published_at bigint NOT NULL,
    published_by text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    last_seen bigint NOT NULL
);
