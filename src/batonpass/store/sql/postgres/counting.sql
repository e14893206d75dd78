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

-- name: between(heads, today, known)
-- How many items of some lanes stand between two places, of each kind, and whether they count: not those that have
-- turned, nor those that are known already. More than a thousand in all are too many, and not all of them. In no order:
-- the planner takes so many conditions for so few rows that it would sort them. The end is a place in the whole index,
-- where no other index helps to find it.
SELECT i.type, i.project, i.lane, i.stale, i.turns > :today::integer AND i.node NOT IN (SELECT jsonb_array_elements_text(:known::jsonb)), count(*)
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.lane = (h.value ->> 'lane')::integer
      AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
      AND (q.lane, q.place, q.born, q.node) <= ((h.value ->> 'lane')::integer, (h.value ->> 'end_place')::bigint, (h.value ->> 'end_born')::bigint, h.value ->> 'end_node')
    LIMIT 1001
) AS i
GROUP BY 1, 2, 3, 4, 5;

-- name: between_in(heads, today, known)
-- The same for lanes of one project each.
SELECT i.type, i.project, i.lane, i.stale, i.turns > :today::integer AND i.node NOT IN (SELECT jsonb_array_elements_text(:known::jsonb)), count(*)
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.project = h.value ->> 'project' AND q.lane = (h.value ->> 'lane')::integer
      AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
      AND (q.project, q.lane, q.place, q.born, q.node) <= (h.value ->> 'project', (h.value ->> 'lane')::integer, (h.value ->> 'end_place')::bigint, (h.value ->> 'end_born')::bigint, h.value ->> 'end_node')
    LIMIT 1001
) AS i
GROUP BY 1, 2, 3, 4, 5;

-- name: between_of(heads, today, known)
-- The same for lanes of one type each. Whichever index is taken, of the type's lane or of all in it, the end is in it.
SELECT i.type, i.project, i.lane, i.stale, i.turns > :today::integer AND i.node NOT IN (SELECT jsonb_array_elements_text(:known::jsonb)), count(*)
FROM jsonb_array_elements(:heads::jsonb) AS h (value)
CROSS JOIN LATERAL (
    SELECT q.node, q.type, q.project, q.lane, q.turns, q.stale FROM queue_items q
    WHERE q.lane IS NOT NULL AND NOT q.busy AND q.type = h.value ->> 'type' AND q.lane = (h.value ->> 'lane')::integer
      AND (q.place, q.born, q.node) > ((h.value ->> 'place')::bigint, (h.value ->> 'born')::bigint, h.value ->> 'node')
      AND (q.lane, q.place, q.born, q.node) <= ((h.value ->> 'lane')::integer, (h.value ->> 'end_place')::bigint, (h.value ->> 'end_born')::bigint, h.value ->> 'end_node')
      AND (q.type, q.lane, q.place, q.born, q.node) <= (h.value ->> 'type', (h.value ->> 'lane')::integer, (h.value ->> 'end_place')::bigint, (h.value ->> 'end_born')::bigint, h.value ->> 'end_node')
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
      AND (:projects::text IS NULL OR i.project = ANY (ARRAY(SELECT jsonb_array_elements_text(:projects::jsonb))))
      AND (:types::text IS NULL OR i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:types::jsonb))))
      AND NOT (i.type = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude_types::jsonb))))
)
SELECT * FROM (
    SELECT 0::bigint, node, type, project, lane, place, born, turns, stale FROM marked WHERE expires_at IS NULL OR expires_at <= :now::bigint LIMIT :most::bigint
) AS over
UNION ALL
SELECT * FROM (
    SELECT count(*), NULL::text, kind, NULL::text, 0, 0::bigint, 0::bigint, 0, false FROM (
        SELECT kind FROM marked
        WHERE expires_at > :now::bigint AND lane = ANY (ARRAY(SELECT jsonb_array_elements_text(:lanes::jsonb)::integer))
          AND holder <> :holder::text AND (:owner::text IS NULL OR owner IS NULL OR owner <> :owner::text)
        LIMIT :most::bigint
    ) AS few
    GROUP BY kind
) AS held;
