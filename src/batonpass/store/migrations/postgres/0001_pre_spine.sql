-- The spine: one organization's people, agents, tokens, graph, leases, events and idempotency keys.
-- Instants are integers of microseconds since 1970 (D43); JSON is text; booleans are boolean.

-- The newest row is the database's incarnation; a restore begins another (D46).
CREATE TABLE incarnations (
    n integer NOT NULL PRIMARY KEY,
    id text NOT NULL,
    at bigint NOT NULL,
    why text NOT NULL
);

-- `email_key` is the address as core folds it: the same on both databases, and unique.
CREATE TABLE people (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    name text NOT NULL,
    email text NOT NULL,
    email_key text COLLATE "C" NOT NULL UNIQUE,
    created_at bigint NOT NULL
);

CREATE TABLE agents (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    owner text COLLATE "C" NOT NULL REFERENCES people (id),
    label text NOT NULL,
    pubkey text,
    created_at bigint NOT NULL
);
CREATE INDEX agents_owner ON agents (owner, id);

-- Only the SHA-256 of a secret is kept. A run token names the tenure it was minted for (resource, epoch).
CREATE TABLE tokens (
    hash text COLLATE "C" NOT NULL PRIMARY KEY,
    person text COLLATE "C" NOT NULL REFERENCES people (id),
    agent text COLLATE "C" REFERENCES agents (id),
    standing boolean NOT NULL DEFAULT false,
    session text,
    resource text COLLATE "C",
    epoch bigint,
    scope text NOT NULL DEFAULT 'write' CHECK (scope IN ('read', 'write')),
    label text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint,
    CHECK ((resource IS NULL) = (epoch IS NULL)),
    CHECK (agent IS NOT NULL OR (resource IS NULL AND session IS NULL))
);
CREATE INDEX tokens_person ON tokens (person, hash) WHERE agent IS NULL;
CREATE INDEX tokens_agent ON tokens (agent, hash) WHERE agent IS NOT NULL;

-- `dead`, `resolving`, `queueable` and `rank` are core's verdicts on type, status and priority, kept with the row.
-- `extra` holds the authored keys that have no column; `born` is the date, else the creation, as an instant.
CREATE TABLE nodes (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    project text COLLATE "C",
    title text NOT NULL,
    summary text NOT NULL,
    status text,
    date text,
    body text NOT NULL,
    priority text, priority_by text, priority_at bigint, priority_via text,
    readiness text, readiness_by text, readiness_at bigint, readiness_via text,
    readiness_person boolean NOT NULL DEFAULT false,
    wake text,
    needed_by text,
    requires text NOT NULL DEFAULT '[]',
    profile text,
    extra text NOT NULL DEFAULT '{}',
    revision text NOT NULL,
    author text,
    authored_by_agent text,
    session text,
    authored_via text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    born bigint NOT NULL,
    dead boolean NOT NULL,
    resolving boolean NOT NULL,
    queueable boolean NOT NULL,
    rank integer NOT NULL
);
CREATE INDEX nodes_type ON nodes (type, id);
CREATE INDEX nodes_project ON nodes (project, id);
CREATE INDEX nodes_queue ON nodes (rank, born, id) WHERE queueable AND NOT dead;
CREATE INDEX nodes_queue_project ON nodes (project, rank, born, id) WHERE queueable AND NOT dead;

-- `by_person`: a person wrote it; an agent's routing alone is no consent (D41).
CREATE TABLE edges (
    src text COLLATE "C" NOT NULL REFERENCES nodes (id),
    type text COLLATE "C" NOT NULL,
    dst text COLLATE "C" NOT NULL,
    attrs text NOT NULL DEFAULT '{}',
    by_person boolean NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (src, type, dst)
);
CREATE INDEX edges_inbound ON edges (dst, type, src);

-- One row per revision and per verb that changed the node; content is the canonical markdown.
CREATE TABLE node_history (
    node text COLLATE "C" NOT NULL,
    n integer NOT NULL,
    revision text NOT NULL,
    at bigint NOT NULL,
    verb text NOT NULL,
    author text,
    authored_by_agent text,
    session text,
    via text,
    content text NOT NULL,
    PRIMARY KEY (node, n)
);

-- Made with its node or record and kept for ever: epoch and version never repeat for a resource (D5, D32).
CREATE TABLE leases (
    resource text COLLATE "C" NOT NULL PRIMARY KEY,
    kind text NOT NULL DEFAULT 'none' CHECK (kind IN ('none', 'claim', 'reservation')),
    holder text COLLATE "C",
    holder_name text,
    owner text COLLATE "C",
    session text,
    dispatch text,
    epoch bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    claimed_at bigint,
    granted_at bigint,
    expires_at bigint,
    lapses integer NOT NULL DEFAULT 0,
    run_token text COLLATE "C",
    acquired_under text COLLATE "C",
    taken_from text COLLATE "C",
    provisional boolean NOT NULL DEFAULT false,
    CHECK ((kind = 'none') = (holder IS NULL) AND (kind = 'none') = (expires_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX leases_holder ON leases (holder, resource) WHERE holder IS NOT NULL;
CREATE INDEX leases_taken_from ON leases (taken_from, resource) WHERE taken_from IS NOT NULL;
CREATE INDEX leases_owner ON leases (owner, resource) WHERE owner IS NOT NULL;

-- A nonce acquires a resource once, ever (D6).
CREATE TABLE lease_nonces (
    resource text COLLATE "C" NOT NULL,
    nonce text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (resource, nonce)
);

-- Every tenure acquired under a run token: its working set (D2b).
CREATE TABLE run_tenures (
    token text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (token, resource, epoch)
);

CREATE TABLE policies (
    project text COLLATE "C" NOT NULL PRIMARY KEY,
    claim_ttl_ms bigint,
    claim_ttl_max_ms bigint,
    reserve_grace_ms bigint,
    lapse_limit integer,
    run_limit integer,
    max_claims integer,
    paused text,
    agents_may_ready boolean
);

CREATE TABLE events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    kind text NOT NULL,
    node text COLLATE "C",
    project text COLLATE "C",
    actor text NOT NULL,
    owner text COLLATE "C",
    session text,
    revision text,
    epoch bigint,
    data text NOT NULL DEFAULT '{}'
);

CREATE TABLE idempotency_keys (
    principal text COLLATE "C" NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    key text COLLATE "C" NOT NULL,
    body_hash text NOT NULL,
    status integer,
    reply text,
    at bigint NOT NULL,
    PRIMARY KEY (principal, method, path, key)
);
CREATE INDEX idempotency_keys_at ON idempotency_keys (at);

-- The first live inbound edge that resolves a node (companion 2.3): `answers` counts for questions only, a resolver
-- that is superseded or whose status does not resolve counts for nothing.
CREATE VIEW live_resolutions AS
SELECT e.dst AS target, e.src AS resolver, e.type AS edge, e.created_at AS at
FROM edges e
JOIN nodes r ON r.id = e.src AND r.resolving
WHERE (e.type = 'resolves' OR (e.type = 'answers' AND EXISTS (SELECT 1 FROM nodes t WHERE t.id = e.dst AND t.type = 'question')))
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = e.src AND s.type = 'supersedes');

-- A blocker is live while it is not dead, not superseded and not itself resolved.
CREATE VIEW live_blockers AS
SELECT e.dst AS target, e.src AS blocker
FROM edges e
JOIN nodes b ON b.id = e.src AND NOT b.dead
WHERE e.type = 'blocks'
  AND NOT EXISTS (SELECT 1 FROM edges s WHERE s.dst = e.src AND s.type = 'supersedes')
  AND NOT EXISTS (SELECT 1 FROM live_resolutions r WHERE r.target = e.src);

-- Fail the transaction unless a statement changed as many rows as it must: the change and COMMIT travel together, so
-- the check has to happen in the database.
CREATE FUNCTION batonpass_require_rows(actual bigint, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF actual <> expected THEN
        RAISE EXCEPTION 'changed % rows, not %', actual, expected USING ERRCODE = 'assert_failure';
    END IF;
    RETURN actual;
END $$;
