-- name: of(records)
-- The fields of records. The writer's turn is the lock here.
SELECT f.class, f.id, f.field, f.version, f.value, f.items, f.size, f.author, f.updated_at
FROM json_each(:records) AS w
JOIN record_fields f ON f.class = w.value ->> 'class' AND f.id = w.value ->> 'id'
ORDER BY f.class, f.id, f.field;

-- name: states(records)
-- What the fields of records are at, with how many bytes they hold: all that a write is decided by.
SELECT f.class, f.id, f.field, f.version, f.items, f.size
FROM json_each(:records) AS w
JOIN record_fields f ON f.class = w.value ->> 'class' AND f.id = w.value ->> 'id';

-- name: items(records, fields)
-- The items of some appends of records, in their order.
SELECT i.class, i.id, i.field, i.value
FROM json_each(:records) AS w
CROSS JOIN json_each(:fields) AS named
JOIN record_items i ON i.class = w.value ->> 'class' AND i.id = w.value ->> 'id' AND i.field = named.value
ORDER BY i.class, i.id, i.field, i.n;

-- name: sizes(records, fields)
-- How many bytes the values of some fields have, record by record.
SELECT f.class, f.id, sum(f.size)
FROM json_each(:records) AS w
CROSS JOIN json_each(:fields) AS named
JOIN record_fields f ON f.class = w.value ->> 'class' AND f.id = w.value ->> 'id' AND f.field = named.value
GROUP BY f.class, f.id;

-- name: write(rows)!
-- Fields as they are now.
INSERT INTO record_fields (class, id, field, version, value, items, size, author, updated_at)
SELECT
    value ->> 'class', value ->> 'id', value ->> 'field', value ->> 'version', value ->> 'value', value ->> 'items',
    value ->> 'size', value ->> 'author', value ->> 'updated_at'
FROM json_each(:rows) WHERE true
ON CONFLICT (class, id, field) DO UPDATE SET
    version = excluded.version, value = excluded.value, items = excluded.items, size = excluded.size,
    author = excluded.author, updated_at = excluded.updated_at;

-- name: add_items(rows)!
-- Further items of appends.
INSERT INTO record_items (class, id, field, n, value, author, at)
SELECT
    value ->> 'class', value ->> 'id', value ->> 'field', value ->> 'n', value ->> 'value', value ->> 'author',
    value ->> 'at'
FROM json_each(:rows);

-- name: empty(record_class, id)!
-- Take the values of a deleted record away. Versions rise and stay, so that none is ever given twice (D32).
UPDATE record_fields SET version = version + 1, value = NULL, items = 0, size = 0, author = NULL, updated_at = NULL
WHERE class = :record_class AND id = :id;

-- name: remove_items(record_class, id)!
-- And its items.
DELETE FROM record_items WHERE class = :record_class AND id = :id;
