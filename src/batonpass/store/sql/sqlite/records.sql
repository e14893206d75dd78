-- name: create(records)
-- The rows of new records, not there yet, so that there is a row to lock. Their writer gives them their times. Their
-- versions begin where those of no lost history were (D46). It returns what it made, so that it travels with what is read.
INSERT INTO records (class, id, class_version, version, created_at, updated_at, deleted_at)
SELECT value ->> 'class', value ->> 'id', 0, (SELECT (max(i.n) - 1) * 4294967296 FROM incarnations i), 0, 0, 0 FROM json_each(:records) WHERE true
ON CONFLICT (class, id) DO NOTHING
RETURNING class, id;

-- name: first_version()
-- After which version a field begins that nobody has written: beyond any that lost history may have given out (D46).
SELECT (max(i.n) - 1) * 4294967296 FROM incarnations i;

-- name: lock(records)
-- The rows of the records that are written, locked in one total order, waiting for each. Taken after lease rows and
-- their classes (D44). The writer's turn is the lock here.
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM json_each(:records) AS w
JOIN records r ON r.class = w.value ->> 'class' AND r.id = w.value ->> 'id'
ORDER BY r.class, r.id;

-- name: lock_free(records)
-- The rows of a set that nobody holds locked; the others are asked for one by one. The writer's turn is the lock here.
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM json_each(:records) AS w
JOIN records r ON r.class = w.value ->> 'class' AND r.id = w.value ->> 'id'
ORDER BY r.class, r.id;

-- name: write(rows, expected)!
-- Every changed row at once. A row that is not as it was locked is a bug, not an answer: fewer rows than `expected`
-- fail the transaction (the driver counts them).
UPDATE records SET
    class_version = n.value ->> 'class_version', version = n.value ->> 'version', history_n = n.value ->> 'history_n',
    created_at = n.value ->> 'created_at', updated_at = n.value ->> 'updated_at', deleted_at = n.value ->> 'deleted_at'
FROM json_each(:rows) AS n
WHERE records.class = n.value ->> 'class' AND records.id = n.value ->> 'id'
  AND records.version = n.value ->> 'was_version' AND :expected > 0;

-- name: log(rows)!
-- What was done to records, by whom and on which premises. Nothing ever changes an entry.
INSERT INTO record_log (
    class, id, n, at, author, verb, field, version, record_version, class_version, value, based_on, took_over_from
)
SELECT
    value ->> 'class', value ->> 'id', value ->> 'n', value ->> 'at', value ->> 'author', value ->> 'verb',
    value ->> 'field', value ->> 'version', value ->> 'record_version', value ->> 'class_version', value ->> 'value',
    value ->> 'based_on', value ->> 'took_over_from'
FROM json_each(:rows);

-- name: of(records)
-- The rows of records as committed: for views, never for a decision.
SELECT r.class, r.id, r.class_version, r.version, r.history_n, r.created_at, r.updated_at, r.deleted_at
FROM json_each(:records) AS w
JOIN records r ON r.class = w.value ->> 'class' AND r.id = w.value ->> 'id'
ORDER BY r.class, r.id;

-- name: page(record_class, after, scan, most, task, now)
-- Records of a class by id, out of the first `scan` rows after an id: all that are there, or with `task` those of which
-- that task is free. By the key, and no further.
SELECT s.id FROM (
    SELECT r.class, r.id, r.version, r.deleted_at FROM records r
    WHERE r.class = :record_class AND r.id > :after
    ORDER BY r.id
    LIMIT :scan
) AS s
LEFT JOIN leases l ON l.resource = 'record:' || s.class || '/' || s.id || '#' || :task
WHERE s.deleted_at IS NULL AND s.version > 0
  AND (:task IS NULL OR l.resource IS NULL OR l.kind = 'none' OR l.expires_at <= :now)
ORDER BY s.id
LIMIT :most;

-- name: page_end(record_class, after, scan)
-- How many rows `page` looked through at most, and the last of them.
SELECT count(*), max(id) FROM (
    SELECT r.id FROM records r
    WHERE r.class = :record_class AND r.id > :after
    ORDER BY r.id
    LIMIT :scan
) AS s;

-- name: held_by(holder, after, beyond, now, most)
-- The tasks that somebody has claimed and not lost, between two resources.
SELECT resource FROM leases
WHERE holder = :holder AND resource > :after AND resource < :beyond AND expires_at > :now
ORDER BY resource
LIMIT :most;
