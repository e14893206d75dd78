-- name: of(ids)
-- Nodes as committed.
SELECT
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person
FROM nodes
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: lock(ids)
-- Nodes that a write will change or stands on, locked in one order. The writer's turn is the lock here.
SELECT
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person
FROM nodes
WHERE id IN (SELECT value FROM json_each(:ids))
ORDER BY id;

-- name: lock_new(ids)!
-- Ids that this transaction may create: nobody else creates them before it ends. The writer's turn is the lock here.
SELECT 1 WHERE :ids IS NULL;

-- name: insert(rows)!
-- New nodes. Their ids were found free in this writer's turn: one that is there all the same is a bug.
INSERT INTO nodes (
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person,
    born, dead, resolving, queueable, rank
)
SELECT
    value ->> 'id', value ->> 'type', value ->> 'title', value ->> 'summary', value ->> 'status', value ->> 'date',
    value ->> 'project', value ->> 'priority', value ->> 'readiness', value ->> 'wake', value ->> 'needed_by',
    value ->> 'requires', value ->> 'profile', value ->> 'extra', value ->> 'body', value ->> 'revision', value ->> 'author',
    value ->> 'authored_by_agent', value ->> 'session', value ->> 'authored_via', value ->> 'created_at',
    value ->> 'updated_at', value ->> 'priority_by', value ->> 'priority_at', value ->> 'priority_via',
    value ->> 'readiness_by', value ->> 'readiness_at', value ->> 'readiness_via', value ->> 'readiness_person',
    value ->> 'born', value ->> 'dead', value ->> 'resolving', value ->> 'queueable', value ->> 'rank'
FROM json_each(:rows);

-- name: update(rows, expected)!
-- Locked nodes, whole. One that is not there is a bug: the driver counts them.
UPDATE nodes SET
    type = r.value ->> 'type', title = r.value ->> 'title', summary = r.value ->> 'summary', status = r.value ->> 'status',
    date = r.value ->> 'date', project = r.value ->> 'project', priority = r.value ->> 'priority',
    readiness = r.value ->> 'readiness', wake = r.value ->> 'wake', needed_by = r.value ->> 'needed_by',
    requires = r.value ->> 'requires', profile = r.value ->> 'profile', extra = r.value ->> 'extra', body = r.value ->> 'body',
    revision = r.value ->> 'revision', author = r.value ->> 'author', authored_by_agent = r.value ->> 'authored_by_agent',
    session = r.value ->> 'session', authored_via = r.value ->> 'authored_via', created_at = r.value ->> 'created_at',
    updated_at = r.value ->> 'updated_at', priority_by = r.value ->> 'priority_by', priority_at = r.value ->> 'priority_at',
    priority_via = r.value ->> 'priority_via', readiness_by = r.value ->> 'readiness_by',
    readiness_at = r.value ->> 'readiness_at', readiness_via = r.value ->> 'readiness_via',
    readiness_person = r.value ->> 'readiness_person', born = r.value ->> 'born', dead = r.value ->> 'dead',
    resolving = r.value ->> 'resolving', queueable = r.value ->> 'queueable', rank = r.value ->> 'rank'
FROM json_each(:rows) AS r
WHERE nodes.id = r.value ->> 'id' AND :expected > 0;

-- name: list(types, status, project, assignee, text, after, most)
-- Nodes by id. `status` '' means none; `assignee` counts hand-made routing and the lease; `text` is in title or summary.
SELECT
    n.id, n.type, n.title, n.summary, n.status, n.date, n.project, n.priority, n.readiness, n.wake, n.needed_by,
    n.requires, n.profile, n.extra, n.body, n.revision, n.author, n.authored_by_agent, n.session, n.authored_via,
    n.created_at, n.updated_at, n.priority_by, n.priority_at, n.priority_via, n.readiness_by, n.readiness_at,
    n.readiness_via, n.readiness_person
FROM nodes n
WHERE n.id > :after
  AND (:types IS NULL OR n.type IN (SELECT value FROM json_each(:types)))
  AND (:status IS NULL OR coalesce(n.status, '') = :status)
  AND (:project IS NULL OR n.project = :project)
  AND (:assignee IS NULL
       OR EXISTS (SELECT 1 FROM edges a WHERE a.src = n.id AND a.type = 'assigned' AND a.dst = :assignee)
       OR EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id AND l.holder = :assignee))
  AND (:text IS NULL OR instr(lower(n.title), lower(:text)) > 0 OR instr(lower(n.summary), lower(:text)) > 0)
ORDER BY n.id
LIMIT :most;
