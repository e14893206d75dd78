-- name: of(records)
-- The fields of records. Who writes them has the record's row locked.
SELECT f.class, f.id, f.field, f.version, f.value, f.items, f.size, f.author, f.updated_at
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
JOIN record_fields f ON f.class = w.class AND f.id = w.id
ORDER BY f.class, f.id, f.field;

-- name: states(records)
-- What the fields of records are at, with how many bytes they hold: all that a write is decided by.
SELECT f.class, f.id, f.field, f.version, f.items, f.size
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
JOIN record_fields f ON f.class = w.class AND f.id = w.id;

-- name: items(records, fields)
-- The items of some appends of records, in their order.
SELECT i.class, i.id, i.field, i.value
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
CROSS JOIN jsonb_array_elements_text(:fields::jsonb) AS named (field)
JOIN record_items i ON i.class = w.class AND i.id = w.id AND i.field = named.field
ORDER BY i.class, i.id, i.field, i.n;

-- name: sizes(records, fields)
-- How many bytes the values of some fields have, record by record.
SELECT f.class, f.id, sum(f.size)::bigint
FROM jsonb_to_recordset(:records::jsonb) AS w (class text, id text)
CROSS JOIN jsonb_array_elements_text(:fields::jsonb) AS named (field)
JOIN record_fields f ON f.class = w.class AND f.id = w.id AND f.field = named.field
GROUP BY f.class, f.id;

-- name: write(rows)!
-- Fields as they are now; their records are locked.
INSERT INTO record_fields (class, id, field, version, value, items, size, author, updated_at)
SELECT class, id, field, version, value, items, size, author, updated_at
FROM jsonb_to_recordset(:rows::jsonb) AS n (
    class text, id text, field text, version bigint, value text, items bigint, size bigint, author text,
    updated_at bigint
)
ON CONFLICT (class, id, field) DO UPDATE SET
    version = excluded.version, value = excluded.value, items = excluded.items, size = excluded.size,
    author = excluded.author, updated_at = excluded.updated_at;

-- name: add_items(rows)!
-- Further items of appends, whose records are locked.
INSERT INTO record_items (class, id, field, n, value, author, at)
SELECT class, id, field, n, value, author, at
FROM jsonb_to_recordset(:rows::jsonb) AS n (
    class text, id text, field text, n bigint, value text, author text, at bigint
);

-- name: empty(record_class, id)!
-- Take the values of a deleted record away. Versions rise and stay, so that none is ever given twice (D32).
UPDATE record_fields SET version = version + 1, value = NULL, items = 0, size = 0, author = NULL, updated_at = NULL
WHERE class = :record_class::text AND id = :id::text;

-- name: remove_items(record_class, id)!
-- And its items.
DELETE FROM record_items WHERE class = :record_class::text AND id = :id::text;
