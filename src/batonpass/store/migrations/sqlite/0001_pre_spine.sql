-- The spine: one organization's people, agents, tokens, graph, leases, events and idempotency keys.
-- Instants are integers of microseconds since 1970 (D43); JSON is text; booleans are 0 and 1.

-- The newest row is the database's incarnation; a restore begins another (D46).
CREATE TABLE incarnations (
    n INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    why TEXT NOT NULL
) STRICT;

-- `email_key` is the address as core folds it: the same on both databases, and unique.
CREATE TABLE people (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES people (id),
    label TEXT NOT NULL,
    pubkey TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX agents_owner ON agents (owner, id);

-- Only the SHA-256 of a secret is kept. A run token names the tenure it was minted for (resource, epoch).
CREATE TABLE tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    person TEXT NOT NULL REFERENCES people (id),
    agent TEXT REFERENCES agents (id),
    standing INTEGER NOT NULL DEFAULT 0,
    session TEXT,
    resource TEXT,
    epoch INTEGER,
    scope TEXT NOT NULL DEFAULT 'write' CHECK (scope IN ('read', 'write')),
    label TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    CHECK ((resource IS NULL) = (epoch IS NULL)),
    CHECK (agent IS NOT NULL OR (resource IS NULL AND session IS NULL))
) STRICT;
CREATE INDEX tokens_person ON tokens (person, hash) WHERE agent IS NULL;
CREATE INDEX tokens_agent ON tokens (agent, hash) WHERE agent IS NOT NULL;

-- `dead`, `resolving`, `queueable` and `rank` are core's verdicts on type, status and priority, kept with the row.
-- `extra` holds the authored keys that have no column; `born` is the date, else the creation, as an instant.
CREATE TABLE nodes (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    project TEXT,
    title TEXT NOT NULL,
    summary TEXT NOT NULL,
    status TEXT,
    date TEXT,
    body TEXT NOT NULL,
    priority TEXT, priority_by TEXT, priority_at INTEGER, priority_via TEXT,
    readiness TEXT, readiness_by TEXT, readiness_at INTEGER, readiness_via TEXT,
    readiness_person INTEGER NOT NULL DEFAULT 0,
    wake TEXT,
    needed_by TEXT,
    requires TEXT NOT NULL DEFAULT '[]',
    profile TEXT,
    extra TEXT NOT NULL DEFAULT '{}',
    revision TEXT NOT NULL,
    author TEXT,
    authored_by_agent TEXT,
    session TEXT,
    authored_via TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    born INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    resolving INTEGER NOT NULL,
    queueable INTEGER NOT NULL,
    rank INTEGER NOT NULL
) STRICT;
CREATE INDEX nodes_type ON nodes (type, id);
CREATE INDEX nodes_project ON nodes (project, id);
CREATE INDEX nodes_queue ON nodes (rank, born, id) WHERE queueable AND NOT dead;
CREATE INDEX nodes_queue_project ON nodes (project, rank, born, id) WHERE queueable AND NOT dead;

-- `by_person`: a person wrote it; an agent's routing alone is no consent (D41).
CREATE TABLE edges (
    src TEXT NOT NULL REFERENCES nodes (id),
    type TEXT NOT NULL,
    dst TEXT NOT NULL,
    attrs TEXT NOT NULL DEFAULT '{}',
    by_person INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (src, type, dst)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_inbound ON edges (dst, type, src);

-- One row per revision and per verb that changed the node; content is the canonical markdown.
CREATE TABLE node_history (
    node TEXT NOT NULL,
    n INTEGER NOT NULL,
    revision TEXT NOT NULL,
    at INTEGER NOT NULL,
    verb TEXT NOT NULL,
    author TEXT,
    authored_by_agent TEXT,
    session TEXT,
    via TEXT,
    content TEXT NOT NULL,
    PRIMARY KEY (node, n)
) STRICT, WITHOUT ROWID;

-- Made with its node or record and kept for ever: epoch and version never repeat for a resource (D5, D32).
CREATE TABLE leases (
    resource TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL DEFAULT 'none' CHECK (kind IN ('none', 'claim', 'reservation')),
    holder TEXT,
    holder_name TEXT,
    owner TEXT,
    session TEXT,
    dispatch TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER,
    granted_at INTEGER,
    expires_at INTEGER,
    lapses INTEGER NOT NULL DEFAULT 0,
    run_token TEXT,
    acquired_under TEXT,
    taken_from TEXT,
    provisional INTEGER NOT NULL DEFAULT 0,
    CHECK ((kind = 'none') = (holder IS NULL) AND (kind = 'none') = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_holder ON leases (holder, resource) WHERE holder IS NOT NULL;
CREATE INDEX leases_taken_from ON leases (taken_from, resource) WHERE taken_from IS NOT NULL;
CREATE INDEX leases_owner ON leases (owner, resource) WHERE owner IS NOT NULL;

-- A nonce acquires a resource once, ever (D6).
CREATE TABLE lease_nonces (
    resource TEXT NOT NULL,
    nonce TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (resource, nonce)
) STRICT, WITHOUT ROWID;

-- Every tenure acquired under a run token: its working set (D2b).
CREATE TABLE run_tenures (
    token TEXT NOT NULL,
    resource TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (token, resource, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    project TEXT NOT NULL PRIMARY KEY,
    claim_ttl_ms INTEGER,
    claim_ttl_max_ms INTEGER,
    reserve_grace_ms INTEGER,
    lapse_limit INTEGER,
    run_limit INTEGER,
    max_claims INTEGER,
    paused TEXT,
    agents_may_ready INTEGER
) STRICT;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    node TEXT,
    project TEXT,
    actor TEXT NOT NULL,
    owner TEXT,
    session TEXT,
    revision TEXT,
    epoch INTEGER,
    data TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE TABLE idempotency_keys (
    principal TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    status INTEGER,
    reply TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (principal, method, path, key)
) STRICT, WITHOUT ROWID;
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
