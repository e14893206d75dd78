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

-- name: insert(row)!
-- A new node. Its id was found free in this writer's turn: one that is there all the same is a bug.
INSERT INTO nodes (
    id, type, title, summary, status, date, project, priority, readiness, wake, needed_by, requires, profile, extra, body,
    revision, author, authored_by_agent, session, authored_via, created_at, updated_at,
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, readiness_person,
    born, dead, resolving, queueable, rank
)
SELECT
    :row ->> 'id', :row ->> 'type', :row ->> 'title', :row ->> 'summary', :row ->> 'status', :row ->> 'date',
    :row ->> 'project', :row ->> 'priority', :row ->> 'readiness', :row ->> 'wake', :row ->> 'needed_by',
    :row ->> 'requires', :row ->> 'profile', :row ->> 'extra', :row ->> 'body', :row ->> 'revision', :row ->> 'author',
    :row ->> 'authored_by_agent', :row ->> 'session', :row ->> 'authored_via', :row ->> 'created_at',
    :row ->> 'updated_at', :row ->> 'priority_by', :row ->> 'priority_at', :row ->> 'priority_via',
    :row ->> 'readiness_by', :row ->> 'readiness_at', :row ->> 'readiness_via', :row ->> 'readiness_person',
    :row ->> 'born', :row ->> 'dead', :row ->> 'resolving', :row ->> 'queueable', :row ->> 'rank';

-- name: update(row, expected)!
-- A locked node, whole. No row is a bug: the driver counts them.
UPDATE nodes SET
    type = :row ->> 'type', title = :row ->> 'title', summary = :row ->> 'summary', status = :row ->> 'status',
    date = :row ->> 'date', project = :row ->> 'project', priority = :row ->> 'priority',
    readiness = :row ->> 'readiness', wake = :row ->> 'wake', needed_by = :row ->> 'needed_by',
    requires = :row ->> 'requires', profile = :row ->> 'profile', extra = :row ->> 'extra', body = :row ->> 'body',
    revision = :row ->> 'revision', author = :row ->> 'author', authored_by_agent = :row ->> 'authored_by_agent',
    session = :row ->> 'session', authored_via = :row ->> 'authored_via', created_at = :row ->> 'created_at',
    updated_at = :row ->> 'updated_at', priority_by = :row ->> 'priority_by', priority_at = :row ->> 'priority_at',
    priority_via = :row ->> 'priority_via', readiness_by = :row ->> 'readiness_by',
    readiness_at = :row ->> 'readiness_at', readiness_via = :row ->> 'readiness_via',
    readiness_person = :row ->> 'readiness_person', born = :row ->> 'born', dead = :row ->> 'dead',
    resolving = :row ->> 'resolving', queueable = :row ->> 'queueable', rank = :row ->> 'rank'
WHERE id = :row ->> 'id' AND :expected > 0;

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
