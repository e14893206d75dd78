-- name: scan(heads, most)
-- Of each head's lane, in its order, the next items behind the head's place. Nothing is left out here, and the inner
-- limit can be read: with conditions of its own or a limit it does not know, the planner would rather sort the lane.
SELECT (h.value ->> 'n')::integer, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT q.node, q.type, q.project, q.lane, q.place, q.born, q.turns, q.stale FROM queue_items q
        WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = (h.value ->> 'lane')::integer
          AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
        ORDER BY q.place, q.born, q.node
        LIMIT 512
    ) AS ordered
    LIMIT :most::bigint
) AS i;

-- name: scan_in(heads, most)
-- The same for lanes of one project each.
SELECT (h.value ->> 'n')::integer, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT q.node, q.type, q.project, q.lane, q.place, q.born, q.turns, q.stale FROM queue_items q
        WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = (h.value ->> 'lane')::integer
          AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
        ORDER BY q.place, q.born, q.node
        LIMIT 512
    ) AS ordered
    LIMIT :most::bigint
) AS i;

-- name: scan_of(heads, most)
-- The same for lanes of one type each.
SELECT (h.value ->> 'n')::integer, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT q.node, q.type, q.project, q.lane, q.place, q.born, q.turns, q.stale FROM queue_items q
        WHERE q.lane IS NOT NULL AND NOT q.busy AND q.type = h.value ->> 'type' AND q.lane = (h.value ->> 'lane')::integer
          AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
        ORDER BY q.place, q.born, q.node
        LIMIT 512
    ) AS ordered
    LIMIT :most::bigint
) AS i;

-- name: turned(today, projects, types, exclude_types, most)
-- Items whose day to turn has come, so that their lane and place are those of another day.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND NOT i.busy AND i.turns <= :today::integer
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
ORDER BY i.turns, i.place, i.node
LIMIT :most::bigint;

-- name: lapsed(now, projects, types, exclude_types, most)
-- Items marked as held whose lease is over: nobody's, and nothing has noticed. They are looked for among the few that
-- are marked, not among leases by their end: an index there would make every renewal move its row in it.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
JOIN leases l ON l.resource = i.node
WHERE i.lane IS NOT NULL AND i.busy AND (l.expires_at IS NULL OR l.expires_at <= :now::bigint)
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
LIMIT :most::bigint;

-- name: own(holder, owner, now, projects, types, exclude_types, most)
-- Items that a holder, or an agent of the owner, holds or has reserved, in force or not; reservations first.
SELECT (l.kind = 'reservation' AND l.expires_at > :now::bigint)::integer, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM leases l
JOIN queue_items i ON i.node = l.resource
WHERE i.lane IS NOT NULL AND l.kind <> 'none' AND (l.holder = :holder::text OR l.owner = :owner::text)
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
ORDER BY l.kind DESC, i.place, i.node
LIMIT :most::bigint;

-- name: reserved(holder, owner, now, projects, types, exclude_types, most)
-- Of those the ones reserved at present.
SELECT 1, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM leases l
JOIN queue_items i ON i.node = l.resource
WHERE i.lane IS NOT NULL AND l.kind = 'reservation' AND l.expires_at > :now::bigint
  AND (l.holder = :holder::text OR l.owner = :owner::text)
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
ORDER BY i.place, i.node
LIMIT :most::bigint;

-- name: named(ids, projects, types, exclude_types)
-- Items by their ids.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND i.node = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))));

-- name: assigned(assignee, most)
-- The nodes that somebody is assigned by hand, holds, or stewards themselves.
SELECT src FROM (
    SELECT e.src FROM edges e WHERE e.dst = :assignee::text AND e.type = 'assigned'
    UNION SELECT l.resource FROM leases l WHERE l.holder = :assignee::text AND substr(l.resource, 1, 7) <> 'record:'
    UNION SELECT e.dst FROM edges e WHERE e.src = :assignee::text AND e.type = 'stewards'
) AS a
ORDER BY src
LIMIT :most::bigint;

-- name: stewarded(assignee)
-- The projects whose repository or grouping somebody stewards.
SELECT DISTINCT substr(dst, 6) FROM edges
WHERE src = :assignee::text AND type = 'stewards' AND (substr(dst, 1, 5) = 'repo-' OR substr(dst, 1, 5) = 'proj-')
ORDER BY 1;

-- name: held_in(projects, most)
-- Items of some projects that are marked as held.
SELECT 0, i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale
FROM queue_items i
WHERE i.lane IS NOT NULL AND i.busy AND i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb)))
ORDER BY i.node
LIMIT :most::bigint;

-- name: siblings(slug)
-- The projects that a slug stands for: with a grouping, every repository of it.
WITH grouping AS (
    SELECT dst FROM edges WHERE src = 'repo-' || :slug::text AND type = 'grouped-under'
)
SELECT :slug::text
UNION SELECT substr(dst, 6) FROM grouping WHERE substr(dst, 1, 5) = 'proj-'
UNION SELECT substr(e.src, 6) FROM grouping g JOIN edges e ON e.dst = g.dst AND e.type = 'grouped-under' WHERE substr(e.src, 1, 5) = 'repo-'
ORDER BY 1;

-- name: members(slug)
-- The projects of a grouping, its own name among them.
SELECT :slug::text
UNION SELECT substr(src, 6) FROM edges WHERE dst = 'proj-' || :slug::text AND type = 'grouped-under' AND substr(src, 1, 5) = 'repo-'
ORDER BY 1;

-- name: known_project(slugs)
-- Whether anything goes by one of these names: a repository, a grouping or a node's project.
SELECT EXISTS (
    SELECT 1 FROM jsonb_array_elements_text(:slugs::jsonb) AS s (slug)
    WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = 'repo-' || s.slug OR n.id = 'proj-' || s.slug)
       OR EXISTS (SELECT 1 FROM nodes n WHERE n.project = s.slug)
);

-- name: muted(person)
-- What a person's own node says is muted.
SELECT (n.extra::jsonb -> 'queue_mute')::text FROM nodes n WHERE n.id = :person::text AND n.extra::jsonb ? 'queue_mute';

-- name: front(person, since, most)
-- How often a person has changed which node since a moment, filing it aside; the busiest of them.
SELECT node, count(*) FROM node_history
WHERE author = :person::text AND at > :since::bigint AND n > 1 AND authored_by_agent IS NULL
GROUP BY node
ORDER BY 2 DESC, node
LIMIT :most::bigint;

-- name: lock_affected(changes, most)
-- The items whose eligibility a change of these nodes may touch: themselves, what they resolve or answer, what those
-- block, and the neighbours of every question among them. Locked in one order; what they are now is read afterwards.
WITH changed AS MATERIALIZED (
    SELECT jsonb_array_elements_text(:changes::jsonb) AS id
), done AS MATERIALIZED (
    SELECT id FROM changed
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM changed)) AND e.type IN ('resolves', 'answers')
), questions AS MATERIALIZED (
    SELECT id FROM done WHERE substr(id, 1, 9) = 'question-'
), affected AS MATERIALIZED (
    SELECT id FROM done
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM done)) AND e.type = 'blocks'
    UNION SELECT e.src FROM edges e WHERE e.dst = ANY (ARRAY(SELECT id FROM questions))
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM questions))
)
SELECT i.node FROM queue_items i
WHERE i.node = ANY (ARRAY(SELECT id FROM affected))
ORDER BY i.node
LIMIT :most::bigint
FOR UPDATE OF i;

-- name: lock_items(ids)
-- Items that will be derived anew, locked in one order.
SELECT node FROM queue_items WHERE node = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))) ORDER BY node FOR UPDATE;

-- name: put_items(rows)!
-- Locked or new items as they are now; one that is as it was is not written.
INSERT INTO queue_items (node, type, project, readiness, live_blockers, base, born, lane, place, turns, stale, busy)
SELECT node, type, project, readiness, live_blockers, base, born, lane, place, turns, stale, busy
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    node text, type text, project text, readiness text, live_blockers integer, base bigint, born bigint, lane integer,
    place bigint, turns integer, stale boolean, busy boolean
)
ORDER BY node
ON CONFLICT (node) DO UPDATE SET
    project = excluded.project, readiness = excluded.readiness, live_blockers = excluded.live_blockers,
    base = excluded.base, born = excluded.born, lane = excluded.lane, place = excluded.place, turns = excluded.turns,
    stale = excluded.stale, busy = excluded.busy
WHERE (queue_items.project, queue_items.readiness, queue_items.live_blockers, queue_items.base, queue_items.born,
       queue_items.lane, queue_items.place, queue_items.turns, queue_items.stale, queue_items.busy)
    IS DISTINCT FROM (excluded.project, excluded.readiness, excluded.live_blockers, excluded.base, excluded.born,
       excluded.lane, excluded.place, excluded.turns, excluded.stale, excluded.busy);

-- name: mark(busy, free)!
-- Items that are held now, and those that are held no more. One that is being derived at this moment is not waited for:
-- it is noted, and will be derived once more.
WITH wanted AS MATERIALIZED (
    SELECT jsonb_array_elements_text(:busy::jsonb) AS id
    UNION ALL SELECT jsonb_array_elements_text(:free::jsonb)
), locked AS MATERIALIZED (
    SELECT i.node FROM queue_items i
    WHERE i.node = ANY (ARRAY(SELECT id FROM wanted))
    FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE queue_items SET busy = node = ANY (ARRAY(SELECT jsonb_array_elements_text(:busy::jsonb)))
    WHERE node = ANY (ARRAY(SELECT node FROM locked))
)
INSERT INTO queue_dirty (name, what)
SELECT i.node, 'item' FROM queue_items i
WHERE i.node = ANY (ARRAY(SELECT id FROM wanted)) AND i.node <> ALL (ARRAY(SELECT node FROM locked));

-- name: note_changes(certain, perhaps)
-- Note nodes that have changed, for whatever it may mean further away: those of the second list only if something is.
INSERT INTO queue_dirty (name, what)
SELECT id, 'change' FROM (
    SELECT jsonb_array_elements_text(:certain::jsonb) AS id
    UNION
    SELECT e.src FROM edges e
    WHERE e.src = ANY (ARRAY(SELECT jsonb_array_elements_text(:perhaps::jsonb)))
      AND (e.type IN ('blocks', 'resolves', 'answers', 'supersedes') OR substr(e.src, 1, 9) = 'question-')
    UNION
    SELECT e.dst FROM edges e
    WHERE e.dst = ANY (ARRAY(SELECT jsonb_array_elements_text(:perhaps::jsonb)))
      AND (e.type IN ('blocks', 'resolves', 'answers', 'supersedes') OR substr(e.dst, 1, 9) = 'question-')
) AS changed
RETURNING 1;

-- name: note(names, what)!
-- Note items, changed nodes or projects to be derived anew.
INSERT INTO queue_dirty (name, what) SELECT jsonb_array_elements_text(:names::jsonb), :what::text;

-- name: take_notes(most)
-- The oldest notes that nobody else is at.
SELECT n, name, what FROM queue_dirty ORDER BY n LIMIT :most::bigint FOR UPDATE SKIP LOCKED;

-- name: drop_notes(numbers)!
-- Notes that have been dealt with.
DELETE FROM queue_dirty WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint));

-- name: spread_changes(names, depth, most)!
-- Note every item that changed nodes may touch: those of `lock_affected`, and those upstream, whose score counts them.
WITH RECURSIVE changed AS MATERIALIZED (
    SELECT jsonb_array_elements_text(:names::jsonb) AS id
), done AS MATERIALIZED (
    SELECT id FROM changed
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM changed)) AND e.type IN ('resolves', 'answers')
), questions AS MATERIALIZED (
    SELECT id FROM done WHERE substr(id, 1, 9) = 'question-'
), upstream (id, depth) AS (
    SELECT id, 0 FROM done
    UNION
    SELECT e.src, u.depth + 1 FROM upstream u
    CROSS JOIN LATERAL (SELECT src FROM edges WHERE dst = u.id AND type = 'blocks' OFFSET 0) AS e
    WHERE u.depth < :depth::integer
)
INSERT INTO queue_dirty (name, what)
SELECT i.node, 'item' FROM queue_items i
WHERE i.node = ANY (ARRAY(
    SELECT id FROM (SELECT id FROM upstream LIMIT :most::bigint) AS few
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM done)) AND e.type = 'blocks'
    UNION SELECT e.src FROM edges e WHERE e.dst = ANY (ARRAY(SELECT id FROM questions))
    UNION SELECT e.dst FROM edges e WHERE e.src = ANY (ARRAY(SELECT id FROM questions))
));

-- name: spread_projects(names)!
-- Note every item of projects; `*` is all of them.
INSERT INTO queue_dirty (name, what)
SELECT node, 'item' FROM queue_items
WHERE project = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb))) OR '*' = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb)));

-- name: note_turned(today, most)!
-- Note items whose day to turn has come.
INSERT INTO queue_dirty (name, what)
SELECT node, 'item' FROM queue_items
WHERE lane IS NOT NULL AND NOT busy AND turns <= :today::integer
ORDER BY turns, place, node
LIMIT :most::bigint;

-- name: any_turned(today)
-- Whether any item's day to turn has come.
SELECT 1 FROM queue_items WHERE lane IS NOT NULL AND NOT busy AND turns <= :today::integer LIMIT 1;

-- name: any_notes()
-- Whether anything is noted.
SELECT 1 FROM queue_dirty LIMIT 1;
