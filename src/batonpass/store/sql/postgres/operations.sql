-- name: tables()
-- Our tables by name, what each takes up if that is known, and the statement that counts its rows.
SELECT c.relname, pg_total_relation_size(c.oid), 'SELECT count(*) FROM ' || quote_ident(c.relname)
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> 'schema_migrations'
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname COLLATE "C";

-- name: size()
-- What the whole database takes up, in bytes.
SELECT pg_database_size(current_database());

-- name: as_writers()!
-- The setting that each of our writers' connections has. They take the server's.
SELECT 1;

-- name: settings()
-- What decides whether a commit survives a power cut, and whether this is the primary (D47).
SELECT name, setting FROM pg_settings
WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'data_checksums', 'in_hot_standby')
ORDER BY name;

-- name: is_empty()
-- Whether there is nothing at all in this schema but what extensions brought.
SELECT NOT EXISTS (
    SELECT 1 FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
);

-- name: quick_check()
-- What is wrong with the pages of the file, without comparing indexes with their tables. PostgreSQL's are its own affair.
SELECT NULL, NULL WHERE false;

-- name: copies()
-- How each table is written out and read in: name, columns, and the statements to lock it, to copy it out, to copy it in.
-- A table comes after those its foreign keys point to, so that reading them in this order breaks no constraint.
WITH RECURSIVE ours AS (
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> 'schema_migrations'
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
), layers (oid, depth) AS (
    SELECT oid, 0 FROM ours
    UNION
    SELECT k.conrelid, l.depth + 1
    FROM layers l JOIN pg_constraint k ON k.confrelid = l.oid AND k.contype = 'f' AND k.conrelid <> k.confrelid
    WHERE l.depth < 100
), columns AS (
    SELECT a.attrelid AS oid, array_agg(a.attname::text ORDER BY a.attnum) AS names,
        string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS quoted
    FROM pg_attribute a
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    GROUP BY a.attrelid
)
SELECT o.relname::text, c.names,
    'LOCK TABLE ' || quote_ident(o.relname) || ' IN ACCESS SHARE MODE',
    'COPY ' || quote_ident(o.relname) || ' (' || c.quoted || ') TO STDOUT (FORMAT text, ENCODING ''UTF8'')',
    'COPY ' || quote_ident(o.relname) || ' (' || c.quoted || ') FROM STDIN (FORMAT text, ENCODING ''UTF8'')'
FROM ours o
JOIN columns c ON c.oid = o.oid
JOIN (SELECT oid, max(depth) AS depth FROM layers GROUP BY oid) l ON l.oid = o.oid
ORDER BY l.depth, o.relname COLLATE "C";

-- name: sequences()
-- Where each sequence stands.
SELECT sequencename::text, last_value FROM pg_sequences
WHERE schemaname = current_schema() AND last_value IS NOT NULL
ORDER BY 1;

-- name: set_sequence(name, value)
-- A sequence, put where it stood.
SELECT setval(quote_ident(:name::text)::regclass, :value::bigint);

-- name: end_tenures(jump)!
-- Every tenure's end, at a restore: all resources free, their epochs and versions beyond any that lost history may have
-- given out (D46, H12).
UPDATE leases SET
    kind = 'none', holder = NULL, holder_name = NULL, owner = NULL, session = NULL, dispatch = NULL,
    epoch = epoch + :jump::bigint, version = version + :jump::bigint, claimed_at = NULL, granted_at = NULL,
    expires_at = NULL, run_token = NULL, acquired_under = NULL, taken_from = NULL, provisional = false;

-- name: jump_records(jump)!
-- The versions of records beyond any that lost history may have given out, as those of their tasks (D32, D46).
UPDATE records SET version = version + :jump::bigint;

-- name: jump_fields(jump)!
-- And those of their registers and appends.
UPDATE record_fields SET version = version + :jump::bigint;

-- name: forget_working_sets()!
-- No run has acquired anything in this incarnation yet (D2b).
DELETE FROM run_tenures;

-- name: forget_replies()!
-- No reply of another incarnation is a reply of this one (D11).
DELETE FROM idempotency_keys;
