-- name: scan(heads, most)
-- Of each head's lane, in its order, the next items behind the head's place. Nothing is left out here, and the inner
-- limit can be read: with conditions of its own or a limit it does not know, the planner would rather sort the lane.
SELECT h.value ->> 'n', i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM json_each(:heads) AS h
CROSS JOIN queue_items i ON i.rowid IN (
    SELECT q.rowid FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
    ORDER BY q.place, q.born, q.node
    LIMIT :most
);

-- name: scan_in(heads, most)
-- The same for lanes of one project each.
SELECT h.value ->> 'n', i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM json_each(:heads) AS h
CROSS JOIN queue_items i ON i.rowid IN (
    SELECT q.rowid FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
    ORDER BY q.place, q.born, q.node
    LIMIT :most
);

-- name: scan_of(heads, most)
-- The same for lanes of one type each.
SELECT h.value ->> 'n', i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM json_each(:heads) AS h
CROSS JOIN queue_items i ON i.rowid IN (
    SELECT q.rowid FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.type = h.value ->> 'type' AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
    ORDER BY q.place, q.born, q.node
    LIMIT :most
);

-- name: turned(today, projects, types, exclude_types, most)
-- Items whose day to turn has come, so that their lane and place are those of another day.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND NOT i.busy AND i.turns <= :today
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
ORDER BY i.turns, i.place, i.node
LIMIT :most;

-- name: lapsed(now, projects, types, exclude_types, most)
-- Items marked as held whose lease is over: nobody's, and nothing has noticed. They are looked for among the few that
-- are marked, not among leases by their end: an index there would make every renewal move its row in it.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
JOIN leases l ON l.resource = i.node
WHERE i.lane IS NOT NULL AND i.busy AND (l.expires_at IS NULL OR l.expires_at <= :now)
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
LIMIT :most;

-- name: own(holder, owner, now, projects, types, exclude_types, most)
-- Items that a holder, or an agent of the owner, holds or has reserved, in force or not; reservations first.
SELECT l.kind = 'reservation' AND l.expires_at > :now, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM leases l
JOIN queue_items i ON i.node = l.resource
WHERE i.lane IS NOT NULL AND l.kind <> 'none' AND (l.holder = :holder OR l.owner = :owner)
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
ORDER BY l.kind DESC, i.place, i.node
LIMIT :most;

-- name: reserved(holder, owner, now, projects, types, exclude_types, most)
-- Of those the ones reserved at present.
SELECT 1, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM leases l
JOIN queue_items i ON i.node = l.resource
WHERE i.lane IS NOT NULL AND l.kind = 'reservation' AND l.expires_at > :now
  AND (l.holder = :holder OR l.owner = :owner)
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
ORDER BY i.place, i.node
LIMIT :most;

-- name: named(ids, projects, types, exclude_types)
-- Items by their ids.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND i.node IN (SELECT value FROM json_each(:ids))
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)));

-- name: assigned(assignee, most)
-- The nodes that somebody is assigned by hand, holds, or stewards themselves.
SELECT src FROM (
    SELECT e.src FROM edges e WHERE e.dst = :assignee AND e.type = 'assigned'
    UNION SELECT l.resource FROM leases l WHERE l.holder = :assignee AND substr(l.resource, 1, 7) <> 'record:'
    UNION SELECT e.dst FROM edges e WHERE e.src = :assignee AND e.type = 'stewards'
) AS a
ORDER BY src
LIMIT :most;

-- name: stewarded(assignee)
-- The projects whose repository or grouping somebody stewards.
SELECT DISTINCT substr(dst, 6) FROM edges
WHERE src = :assignee AND type = 'stewards' AND (substr(dst, 1, 5) = 'repo-' OR substr(dst, 1, 5) = 'proj-')
ORDER BY 1;

-- name: held_in(projects, most)
-- Items of some projects that are marked as held.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND i.busy AND i.project IN (SELECT value FROM json_each(:projects))
ORDER BY i.node
LIMIT :most;

-- name: siblings(slug)
-- The projects that a slug stands for: with a grouping, every repository of it.
WITH grouping AS (
    SELECT dst FROM edges WHERE src = 'repo-' || :slug AND type = 'grouped-under'
)
SELECT :slug
UNION SELECT substr(dst, 6) FROM grouping WHERE substr(dst, 1, 5) = 'proj-'
UNION SELECT substr(e.src, 6) FROM grouping g JOIN edges e ON e.dst = g.dst AND e.type = 'grouped-under' WHERE substr(e.src, 1, 5) = 'repo-'
ORDER BY 1;

-- name: members(slug)
-- The projects of a grouping, its own name among them.
SELECT :slug
UNION SELECT substr(src, 6) FROM edges WHERE dst = 'proj-' || :slug AND type = 'grouped-under' AND substr(src, 1, 5) = 'repo-'
ORDER BY 1;

-- name: known_project(slugs)
-- Whether anything goes by one of these names: a repository, a grouping or a node's project.
SELECT EXISTS (
    SELECT 1 FROM json_each(:slugs) AS s
    WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = 'repo-' || s.value OR n.id = 'proj-' || s.value)
       OR EXISTS (SELECT 1 FROM nodes n WHERE n.project = s.value)
);

-- name: muted(person)
-- What a person's own node says is muted.
SELECT n.extra -> 'queue_mute' FROM nodes n WHERE n.id = :person AND n.extra -> 'queue_mute' IS NOT NULL;

-- name: front(person, since, most)
-- How often a person has changed which node since a moment, filing it aside; the busiest of them.
SELECT node, count(*) FROM node_history INDEXED BY node_history_author
WHERE author = :person AND at > :since AND n > 1 AND authored_by_agent IS NULL
GROUP BY node
ORDER BY 2 DESC, node
LIMIT :most;

-- name: lock_affected(changes, most)
-- The items whose eligibility a change of these nodes may touch: themselves, what they resolve or answer, what those
-- block, and the neighbours of every question among them. Locked in one order; what they are now is read afterwards.
WITH changed AS MATERIALIZED (
    SELECT value AS id FROM json_each(:changes)
), done AS MATERIALIZED (
    SELECT id FROM changed
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM changed) AND e.type IN ('resolves', 'answers')
), questions AS MATERIALIZED (
    SELECT id FROM done WHERE substr(id, 1, 9) = 'question-'
), affected AS MATERIALIZED (
    SELECT id FROM done
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM done) AND e.type = 'blocks'
    UNION SELECT e.src FROM edges e WHERE e.dst IN (SELECT id FROM questions)
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM questions)
)
SELECT i.node FROM queue_items i
WHERE i.node IN (SELECT id FROM affected)
ORDER BY i.node
LIMIT :most;

-- name: lock_items(ids)
-- Items that will be derived anew, locked in one order.
SELECT node FROM queue_items WHERE node IN (SELECT value FROM json_each(:ids)) ORDER BY node;

-- name: put_items(rows)!
-- Locked or new items as they are now; one that is as it was is not written.
INSERT INTO queue_items (node, type, project, readiness, live_blockers, base, born, lane, place, turns, stale, busy)
SELECT
    value ->> 'node', value ->> 'type', value ->> 'project', value ->> 'readiness', value ->> 'live_blockers',
    value ->> 'base', value ->> 'born', value ->> 'lane', value ->> 'place', value ->> 'turns', value ->> 'stale',
    value ->> 'busy'
FROM json_each(:rows)
WHERE true
ON CONFLICT (node) DO UPDATE SET
    project = excluded.project, readiness = excluded.readiness, live_blockers = excluded.live_blockers,
    base = excluded.base, born = excluded.born, lane = excluded.lane, place = excluded.place, turns = excluded.turns,
    stale = excluded.stale, busy = excluded.busy
WHERE (queue_items.project, queue_items.readiness, queue_items.live_blockers, queue_items.base, queue_items.born,
       queue_items.lane, queue_items.place, queue_items.turns, queue_items.stale, queue_items.busy)
    IS NOT (excluded.project, excluded.readiness, excluded.live_blockers, excluded.base, excluded.born,
       excluded.lane, excluded.place, excluded.turns, excluded.stale, excluded.busy);

-- name: mark(busy, free)!
-- Items that are held now, and those that are held no more.
UPDATE queue_items SET busy = node IN (SELECT value FROM json_each(:busy))
WHERE node IN (SELECT value FROM json_each(:busy) UNION ALL SELECT value FROM json_each(:free));

-- name: note_changes(certain, perhaps)
-- Note nodes that have changed, for whatever it may mean further away: those of the second list only if something is.
INSERT INTO queue_dirty (name, what)
SELECT id, 'change' FROM (
    SELECT value AS id FROM json_each(:certain)
    UNION
    SELECT e.src FROM edges e
    WHERE e.src IN (SELECT value FROM json_each(:perhaps))
      AND (e.type IN ('blocks', 'resolves', 'answers', 'supersedes') OR substr(e.src, 1, 9) = 'question-')
    UNION
    SELECT e.dst FROM edges e
    WHERE e.dst IN (SELECT value FROM json_each(:perhaps))
      AND (e.type IN ('blocks', 'resolves', 'answers', 'supersedes') OR substr(e.dst, 1, 9) = 'question-')
) AS changed
RETURNING 1;

-- name: note(names, what)!
-- Note items, changed nodes or projects to be derived anew.
INSERT INTO queue_dirty (name, what) SELECT value, :what FROM json_each(:names);

-- name: take_notes(most)
-- The oldest notes that nobody else is at.
SELECT n, name, what FROM queue_dirty ORDER BY n LIMIT :most;

-- name: drop_notes(numbers)!
-- Notes that have been dealt with.
DELETE FROM queue_dirty WHERE n IN (SELECT value FROM json_each(:numbers));

-- name: spread_changes(names, depth, most)!
-- Note every item that changed nodes may touch: those of `lock_affected`, and those upstream, whose score counts them.
WITH RECURSIVE changed AS MATERIALIZED (
    SELECT value AS id FROM json_each(:names)
), done AS MATERIALIZED (
    SELECT id FROM changed
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM changed) AND e.type IN ('resolves', 'answers')
), questions AS MATERIALIZED (
    SELECT id FROM done WHERE substr(id, 1, 9) = 'question-'
), upstream (id, depth) AS (
    SELECT id, 0 FROM done
    UNION
    SELECT e.src, u.depth + 1 FROM upstream u
    JOIN edges e ON e.dst = u.id AND e.type = 'blocks'
    WHERE likelihood(u.depth < :depth, 0.0001)
)
INSERT INTO queue_dirty (name, what)
SELECT i.node, 'item' FROM queue_items i
WHERE i.node IN (
    SELECT id FROM (SELECT id FROM upstream LIMIT :most) AS few
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM done) AND e.type = 'blocks'
    UNION SELECT e.src FROM edges e WHERE e.dst IN (SELECT id FROM questions)
    UNION SELECT e.dst FROM edges e WHERE e.src IN (SELECT id FROM questions)
);

-- name: spread_projects(names)!
-- Note every item of projects; `*` is all of them.
INSERT INTO queue_dirty (name, what)
SELECT node, 'item' FROM queue_items
WHERE project IN (SELECT value FROM json_each(:names)) OR '*' IN (SELECT value FROM json_each(:names));

-- name: note_turned(today, most)!
-- Note items whose day to turn has come.
INSERT INTO queue_dirty (name, what)
SELECT node, 'item' FROM queue_items
WHERE lane IS NOT NULL AND NOT busy AND turns <= :today
ORDER BY turns, place, node
LIMIT :most;

-- name: any_turned(today)
-- Whether any item's day to turn has come.
SELECT 1 FROM queue_items WHERE lane IS NOT NULL AND NOT busy AND turns <= :today LIMIT 1;

-- name: any_notes()
-- Whether anything is noted.
SELECT 1 FROM queue_dirty LIMIT 1;
