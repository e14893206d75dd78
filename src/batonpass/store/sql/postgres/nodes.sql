-- name: of(ids)
-- Nodes as committed.
SELECT
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person
FROM nodes
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: lock(ids)
-- Nodes that a write will change or stands on, locked in one order. Their keys never change, so edges may still be
-- added onto them.
SELECT
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person
FROM nodes
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
ORDER BY id
FOR NO KEY UPDATE;

-- name: lock_new(ids)!
-- Ids that are not there yet and that this transaction may create: nobody else creates them before it ends. There is no
-- row to lock, so their hashes are, in one order; the seed keeps them apart from the holders'.
SELECT pg_advisory_xact_lock(key)
FROM (
    SELECT DISTINCT hashtextextended(id, 1) AS key
    FROM jsonb_array_elements_text(:ids::jsonb) AS wanted (id)
    WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = wanted.id)
    ORDER BY key
) AS keys;

-- name: insert(rows)!
-- New nodes. Their ids were locked and found free: one that is there all the same is a bug, and the transaction fails.
INSERT INTO nodes (
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person,
    born, dead, resolving, queueable, rank
)
SELECT
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person,
    born, dead, resolving, queueable, rank
FROM jsonb_to_recordset(:rows::jsonb) AS n (
    id text, type text, title text, summary text, status text, date text, project text, priority text, readiness text,
    wake text, needed_by text, requires text, profile text, extra text, body text, revision text, author text,
    authored_by_agent text, session text, authored_via text, created_at bigint, updated_at bigint,
    priority_by text, priority_at bigint, priority_via text, readiness_by text, readiness_at bigint, readiness_via text,
    readiness_person boolean, born bigint, dead boolean, resolving boolean, queueable boolean, rank integer
);

-- name: update(rows, expected)
-- Locked nodes, whole. One that is not there is a bug: the transaction fails.
WITH n AS (
    SELECT * FROM jsonb_to_recordset(:rows::jsonb) AS n (
        id text, type text, title text, summary text, status text, date text, project text, priority text,
        readiness text, wake text, needed_by text, requires text, profile text, extra text, body text, revision text,
        author text, authored_by_agent text, session text, authored_via text, created_at bigint, updated_at bigint,
        priority_by text, priority_at bigint, priority_via text, readiness_by text, readiness_at bigint,
        readiness_via text, readiness_person boolean, born bigint, dead boolean, resolving boolean, queueable boolean,
        rank integer
    )
), written AS (
    UPDATE nodes SET
        type = n.type, title = n.title, summary = n.summary, status = n.status, date = n.date, project = n.project,
        priority = n.priority, readiness = n.readiness, wake = n.wake, needed_by = n.needed_by, requires = n.requires,
        profile = n.profile, extra = n.extra, body = n.body, revision = n.revision, author = n.author,
        authored_by_agent = n.authored_by_agent, session = n.session, authored_via = n.authored_via,
        created_at = n.created_at, updated_at = n.updated_at, priority_by = n.priority_by,
        priority_at = n.priority_at, priority_via = n.priority_via, readiness_by = n.readiness_by,
        readiness_at = n.readiness_at, readiness_via = n.readiness_via, readiness_person = n.readiness_person,
        born = n.born, dead = n.dead, resolving = n.resolving, queueable = n.queueable, rank = n.rank
    FROM n
    WHERE nodes.id = n.id
    RETURNING 1
)
SELECT batonpass_require_rows(count(*), :expected::bigint) FROM written;

-- name: list(types, status, project, assignee, text, after, most)
-- Nodes by id. `status` '' means none; `assignee` counts hand-made routing and the lease; `text` is in title or summary.
SELECT
    n.id, n.type, n.title, n.summary, n.status, n.date, n.project, n.priority, n.readiness, n.wake, n.needed_by,
    n.requires, n.profile, n.extra, n.body, n.revision, n.author, n.authored_by_agent, n.session, n.authored_via,
    n.created_at, n.updated_at, n.priority_by, n.priority_at, n.priority_via, n.readiness_by, n.readiness_at,
    n.readiness_via, n.readiness_person
FROM nodes n
WHERE n.id > :after::text
  AND (:types::text IS NULL OR n.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND (:status::text IS NULL OR coalesce(n.status, '') = :status::text)
  AND (:project::text IS NULL OR n.project = :project::text)
  AND (:assignee::text IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee::text)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee::text))
  AND (:text::text IS NULL OR position(lower(:text::text) IN lower(n.title)) > 0
       OR position(lower(:text::text) IN lower(n.summary)) > 0)
ORDER BY n.id
LIMIT :most::bigint;
