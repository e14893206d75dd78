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
