-- name: stands(wanted)
-- What the fields that somebody waits for are at: of records that are there, registers and appends by their own rows,
-- tasks by their leases. A field that nobody has written has neither.
SELECT w.class, w.id, w.field, f.version, l.version, l.epoch, l.kind = 'claim', l.granted_at, l.expires_at
FROM jsonb_to_recordset(:wanted::jsonb) AS w (class text, id text, field text)
JOIN records r ON r.class = w.class AND r.id = w.id AND r.version > 0 AND r.deleted_at IS NULL
LEFT JOIN record_fields f ON f.class = w.class AND f.id = w.id AND f.field = w.field
LEFT JOIN leases l ON l.resource = 'record:' || w.class || '/' || w.id || '#' || w.field;
