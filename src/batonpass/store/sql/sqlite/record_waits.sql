-- name: stands(wanted)
-- What the fields that somebody waits for are at: of records that are there, registers and appends by their own rows,
-- tasks by their leases. A field that nobody has written has neither.
SELECT r.class, r.id, w.value ->> 'field', f.version, l.version, l.epoch, l.kind = 'claim', l.granted_at, l.expires_at
FROM json_each(:wanted) AS w
JOIN records r ON r.class = w.value ->> 'class' AND r.id = w.value ->> 'id' AND r.version > 0 AND r.deleted_at IS NULL
LEFT JOIN record_fields f ON f.class = r.class AND f.id = r.id AND f.field = w.value ->> 'field'
LEFT JOIN leases l ON l.resource = 'record:' || r.class || '/' || r.id || '#' || (w.value ->> 'field');
