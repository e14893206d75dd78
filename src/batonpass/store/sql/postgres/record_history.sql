-- name: page(record_class, id, before, scan, most, fields, values)
-- What was done to a record, newest first: of the `scan` entries before the `before`th those about some fields, or about
-- none. By the key, and no further.
SELECT s.n, s.at, s.author, s.verb, s.field, s.version, s.record_version,
    CASE WHEN :values::bigint = 1 THEN s.value END AS value, s.based_on, s.took_over_from
FROM (
    SELECT * FROM record_log l
    WHERE l.class = :record_class::text AND l.id = :id::text AND l.n < :before::bigint
    ORDER BY l.n DESC
    LIMIT :scan::bigint
) AS s
WHERE s.field IS NULL OR s.field = ANY (ARRAY(SELECT jsonb_array_elements_text(:fields::jsonb)))
ORDER BY s.n DESC
LIMIT :most::bigint;

-- name: page_end(record_class, id, before, scan)
-- How many entries `page` looked through at most, and the oldest of them.
SELECT count(*), min(n) FROM (
    SELECT l.n FROM record_log l
    WHERE l.class = :record_class::text AND l.id = :id::text AND l.n < :before::bigint
    ORDER BY l.n DESC
    LIMIT :scan::bigint
) AS s;

-- name: newest(record_class, id, fields, scan)
-- The newest entry about each of some fields, as far as it is among the last `scan` of the record's.
SELECT l.field, l.n, l.at, l.author, l.verb FROM record_log l
WHERE l.class = :record_class::text AND l.id = :id::text AND l.n IN (
    SELECT max(m.n) FROM record_log m
    WHERE m.class = :record_class::text AND m.id = :id::text
      AND m.n > (SELECT r.history_n FROM records r WHERE r.class = :record_class::text AND r.id = :id::text) - :scan::bigint
      AND m.field = ANY (ARRAY(SELECT jsonb_array_elements_text(:fields::jsonb)))
    GROUP BY m.field
)
ORDER BY l.field;
