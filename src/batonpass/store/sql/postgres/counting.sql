-- name: hidden(reasons, today, types, exclude_types)
-- How many items some lanes have for each reason, counted up to a thousand and no further; in order, so that the lane's
-- index is walked.
SELECT (w.value ->> 'why')::text, (
    SELECT count(*) FROM (
        SELECT 1 FROM jsonb_array_elements(w.value -> 'heads') AS h (value)
        CROSS JOIN LATERAL (
            SELECT q.type, q.turns FROM queue_items q
            WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = (h.value ->> 'lane')::integer
            ORDER BY q.place, q.born, q.node
            LIMIT 1000
        ) AS i
        WHERE i.turns > :today::integer AND (:types::text IS NULL OR i.type IN (SELECT jsonb_array_elements_text(:types::jsonb))) AND i.type NOT IN (SELECT jsonb_array_elements_text(:exclude_types::jsonb))
        LIMIT 1000
    ) AS few
)
FROM jsonb_array_elements(:reasons::jsonb) AS w (value);

-- name: hidden_in(reasons, today, types, exclude_types)
-- The same for lanes of one project each.
SELECT (w.value ->> 'why')::text, (
    SELECT count(*) FROM (
        SELECT 1 FROM jsonb_array_elements(w.value -> 'heads') AS h (value)
        CROSS JOIN LATERAL (
            SELECT q.type, q.turns FROM queue_items q
            WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = (h.value ->> 'lane')::integer
            ORDER BY q.place, q.born, q.node
            LIMIT 1000
        ) AS i
        WHERE i.turns > :today::integer AND (:types::text IS NULL OR i.type IN (SELECT jsonb_array_elements_text(:types::jsonb))) AND i.type NOT IN (SELECT jsonb_array_elements_text(:exclude_types::jsonb))
        LIMIT 1000
    ) AS few
)
FROM jsonb_array_elements(:reasons::jsonb) AS w (value);

-- name: held(holder, owner, now, lanes, projects, types, exclude_types, most)
-- How many items of some lanes others hold, by kind, counted to a limit.
SELECT kind, count(*) FROM (
    SELECT l.kind FROM queue_items i
    JOIN leases l ON l.resource = i.node
    WHERE i.lane IS NOT NULL AND i.busy AND l.expires_at > :now::bigint
      AND i.lane = ANY (ARRAY(SELECT jsonb_array_elements_text(:lanes::jsonb)::integer))
      AND l.holder <> :holder::text AND (:owner::text IS NULL OR l.owner IS NULL OR l.owner <> :owner::text)
      AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
      AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
      AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
    LIMIT :most::bigint
) AS few
GROUP BY kind;

-- name: census(lanes, today, projects, types, exclude_types)
-- How many items there are of each kind, all of them: for whoever asks, never on a poller's way.
SELECT i.type, i.project, i.lane, i.stale, count(*) FROM queue_items i
WHERE i.lane IS NOT NULL AND NOT i.busy AND i.turns + 0 > :today::integer
  AND i.lane = ANY (ARRAY(SELECT jsonb_array_elements_text(:lanes::jsonb)::integer))
  AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
  AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
  AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
GROUP BY 1, 2, 3, 4;
