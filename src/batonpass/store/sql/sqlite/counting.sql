-- name: hidden(reasons, today, types, exclude_types)
-- How many items some lanes have for each reason, counted up to a thousand and no further; in order, so that the lane's
-- index is walked.
SELECT w.value ->> 'why', min(1000, sum((
    SELECT count(*) FROM (
        SELECT q.type, q.turns FROM queue_items q
        WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = h.value ->> 'lane'
        ORDER BY q.place, q.born, q.node
        LIMIT 1000
    ) AS i
    WHERE i.turns > :today AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
      AND i.type NOT IN (SELECT value FROM json_each(:exclude_types))
)))
FROM json_each(:reasons) AS w, json_each(w.value, '$.heads') AS h
GROUP BY w.key;

-- name: hidden_in(reasons, today, types, exclude_types)
-- The same for lanes of one project each.
SELECT w.value ->> 'why', min(1000, sum((
    SELECT count(*) FROM (
        SELECT q.type, q.turns FROM queue_items q
        WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = h.value ->> 'lane'
        ORDER BY q.place, q.born, q.node
        LIMIT 1000
    ) AS i
    WHERE i.turns > :today AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
      AND i.type NOT IN (SELECT value FROM json_each(:exclude_types))
)))
FROM json_each(:reasons) AS w, json_each(w.value, '$.heads') AS h
GROUP BY w.key;

-- name: held(holder, owner, now, lanes, projects, types, exclude_types, most)
-- How many items of some lanes others hold, by kind, counted to a limit.
SELECT kind, count(*) FROM (
    SELECT l.kind FROM queue_items i
    JOIN leases l ON l.resource = i.node
    WHERE i.lane IS NOT NULL AND i.busy AND l.expires_at > :now
      AND i.lane IN (SELECT value FROM json_each(:lanes))
      AND l.holder <> :holder AND (:owner IS NULL OR l.owner IS NULL OR l.owner <> :owner)
      AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
      AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
      AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
    LIMIT :most
) AS few
GROUP BY kind;

-- name: census(lanes, today, projects, types, exclude_types)
-- How many items there are of each kind, all of them: for whoever asks, never on a poller's way.
SELECT i.type, i.project, i.lane, i.stale, count(*) FROM queue_items i
WHERE i.lane IS NOT NULL AND NOT i.busy AND i.turns + 0 > :today
  AND i.lane IN (SELECT value FROM json_each(:lanes))
  AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
  AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
  AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
GROUP BY 1, 2, 3, 4;

-- name: between(heads, today, known)
-- How many items of some lanes stand between two places, of each kind, and whether they count: not those that have
-- turned, nor those that are known already. More than a thousand in all are too many, and not all of them.
SELECT type, project, lane, stale, turns > :today AND node NOT IN (SELECT value FROM json_each(:known)), count(*) FROM (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM json_each(:heads) AS h
    CROSS JOIN queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
      AND (q.place, q.born, q.node) <= (h.value ->> 'end_place', h.value ->> 'end_born', h.value ->> 'end_node')
    LIMIT 1001
) AS i
GROUP BY 1, 2, 3, 4, 5;

-- name: between_in(heads, today, known)
-- The same for lanes of one project each.
SELECT type, project, lane, stale, turns > :today AND node NOT IN (SELECT value FROM json_each(:known)), count(*) FROM (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM json_each(:heads) AS h
    CROSS JOIN queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
      AND (q.place, q.born, q.node) <= (h.value ->> 'end_place', h.value ->> 'end_born', h.value ->> 'end_node')
    LIMIT 1001
) AS i
GROUP BY 1, 2, 3, 4, 5;

-- name: between_of(heads, today, known)
-- The same for lanes of one type each.
SELECT type, project, lane, stale, turns > :today AND node NOT IN (SELECT value FROM json_each(:known)), count(*) FROM (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM json_each(:heads) AS h
    CROSS JOIN queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.type = h.value ->> 'type' AND q.lane = h.value ->> 'lane'
      AND (q.place, q.born, q.node) > (h.value ->> 'place', h.value ->> 'born', h.value ->> 'node')
      AND (q.place, q.born, q.node) <= (h.value ->> 'end_place', h.value ->> 'end_born', h.value ->> 'end_node')
    LIMIT 1001
) AS i
GROUP BY 1, 2, 3, 4, 5;

-- name: marked(holder, owner, now, lanes, projects, types, exclude_types, most)
-- Of the items that are marked as held: those whose lease is over, like `ranking.lapsed`; and, without a node, how many
-- of some lanes others hold, by kind, each up to a limit. Both together, since finding their leases is what costs.
WITH marked AS MATERIALIZED (
    SELECT i.node, i.type, i.project, i.lane, i.place, i.born, i.turns, i.stale, l.kind, l.holder, l.owner, l.expires_at
    FROM queue_items i
    JOIN leases l ON l.resource = i.node
    WHERE i.lane IS NOT NULL AND i.busy
      AND (:projects IS NULL OR i.project IN (SELECT value FROM json_each(:projects)))
      AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
      AND NOT (i.type IN (SELECT value FROM json_each(:exclude_types)))
)
SELECT * FROM (
    SELECT 0, node, type, project, lane, place, born, turns, stale FROM marked WHERE expires_at IS NULL OR expires_at <= :now LIMIT :most
) AS over
UNION ALL
SELECT * FROM (
    SELECT count(*), NULL, kind, NULL, 0, 0, 0, 0, 0 FROM (
        SELECT kind FROM marked
        WHERE expires_at > :now AND lane IN (SELECT value FROM json_each(:lanes))
          AND holder <> :holder AND (:owner IS NULL OR owner IS NULL OR owner <> :owner)
        LIMIT :most
    ) AS few
    GROUP BY kind
) AS held;
