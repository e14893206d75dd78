-- name: create(records)
-- The rows of new records, not there yet, so that there is a row to lock. Their writer gives them their times. Their
-- versions begin where those of no lost history were (D46). It returns what it made, so that it travels with what is read.
INSERT INTO records (class, id, class_version, version, created_at, updated_at, deleted_at)
SELECT w.class, w.id, 0, (SELECT (max(i.n) - 1)::bigint * 4294967296 FROM incarnations i), 0, 0, 0 FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
ORDER BY w.class COLLATE "C", w.id COLLATE "C"
ON CONFLICT (class, id) DO NOTHING
RETURNING class, id;

-- name: first_version()
-- After which version a field begins that nobody has written: beyond any that lost history may have given out (D46).
SELECT (max(i.n) - 1)::bigint * 4294967296 FROM incarnations i;

-- name: lock(records)
-- The rows of the records that are written, locked in one total order, waiting for each. Taken after lease rows and
-- their classes (D44).
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
JOIN records r ON r.class = w.class AND r.id = w.id
ORDER BY r.class, r.id
FOR UPDATE OF r;

-- name: lock_free(records)
-- The rows of a set that nobody holds locked; the others are asked for one by one.
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
JOIN records r ON r.class = w.class AND r.id = w.id
ORDER BY r.class, r.id
FOR UPDATE OF r SKIP LOCKED;

-- name: write(rows, expected)
-- Every changed row at once. A row that is not as it was locked is a bug, not an answer: the transaction fails.
WITH n AS (
    SELECT * FROM jsonb_to_recordset(:rows::jsonb) AS n (
        class text, id text, class_version bigint, version bigint, history_n bigint, created_at bigint,
        updated_at bigint, deleted_at bigint, was_version bigint
    )
), written AS (
    UPDATE records SET
        class_version = n.class_version, version = n.version, history_n = n.history_n, created_at = n.created_at,
        updated_at = n.updated_at, deleted_at = n.deleted_at
    FROM n
    WHERE records.class = n.class AND records.id = n.id AND records.version = n.was_version
    RETURNING 1
)
SELECT batonpass_require_rows(count(*), :expected::bigint) FROM written;

-- name: log(rows)!
-- What was done to records, by whom and on which premises. Nothing ever changes an entry.
INSERT INTO record_log (
    class, id, n, at, author, verb, field, version, record_version, class_version, value, based_on, took_over_from
)
SELECT
    class, id, n, at, author, verb, field, version, record_version, class_version, value, based_on, took_over_from
FROM jsonb_to_recordset(:rows::jsonb) AS n (
    class text, id text, n bigint, at bigint, author text, verb text, field text, version bigint,
    record_version bigint, class_version bigint, value text, based_on text, took_over_from text
);

-- name: of(records)
-- The rows of records as committed: for views, never for a decision.
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
JOIN records r ON r.class = w.class AND r.id = w.id
ORDER BY r.class, r.id;

-- name: page(record_class, after, scan, most, task, now)
-- Records of a class by id, out of the first `scan` rows after an id: all that are there, or with `task` those of which
-- that task is free. By the key, and no further.
SELECT s.id FROM (
    SELECT r.class, r.id, r.version, r.deleted_at FROM records r
    WHERE r.class = :record_class::text AND r.id > :after::text COLLATE "C"
    ORDER BY r.id
    LIMIT :scan::bigint
) AS s
LEFT JOIN leases l ON l.resource = 'record:' || s.class || '/' || s.id || '#' || :task::text
WHERE s.deleted_at IS NULL AND s.version > 0
  AND (:task::text IS NULL OR l.resource IS NULL OR l.kind = 'none' OR l.expires_at <= :now::bigint)
ORDER BY s.id
LIMIT :most::bigint;

-- name: page_end(record_class, after, scan)
-- How many rows `page` looked through at most, and the last of them.
SELECT count(*), max(id) FROM (
    SELECT r.id FROM records r
    WHERE r.class = :record_class::text AND r.id > :after::text COLLATE "C"
    ORDER BY r.id
    LIMIT :scan::bigint
) AS s;

-- name: held_by(holder, after, beyond, now, most)
-- The tasks that somebody has claimed and not lost, between two resources.
SELECT resource FROM leases
WHERE holder = :holder::text AND resource > :after::text COLLATE "C" AND resource < :beyond::text COLLATE "C"
  AND expires_at > :now::bigint
ORDER BY resource
LIMIT :most::bigint;
