-- name: tables()
-- Our tables by name, what each takes up if that is known, and the statement that counts its rows.
SELECT name, NULL, 'SELECT count(*) FROM "' || replace(name, '"', '""') || '"'
FROM pragma_table_list
WHERE schema = 'main' AND type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND name <> 'schema_migrations'
ORDER BY name;

-- name: size()
-- What the whole database takes up, in bytes, without its write-ahead log.
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size;

-- name: as_writers()!
-- The setting that each of our writers' connections has, so that what is told is theirs and not the library's default.
PRAGMA synchronous = FULL;

-- name: settings()
-- What decides whether a commit survives a power cut.
SELECT 'journal_mode', journal_mode FROM pragma_journal_mode
UNION ALL
SELECT 'synchronous', CASE synchronous WHEN 0 THEN 'off' WHEN 1 THEN 'normal' WHEN 2 THEN 'full' ELSE 'extra' END
FROM pragma_synchronous;

-- name: is_empty()
-- Whether there is nothing at all in this database.
SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema);

-- name: quick_check()
-- What is wrong with the pages of the file, without comparing indexes with their tables: where, and what.
SELECT 'file', replace(replace(quick_check, '*** in database main ***' || char(10), ''), char(10), '; ')
FROM pragma_quick_check
WHERE quick_check <> 'ok';

-- name: copies()
-- How each table is written out and read in. A SQLite file is copied by page, never by table.
SELECT NULL, NULL, NULL, NULL, NULL WHERE false;

-- name: sequences()
-- Where each sequence stands. They travel within the file.
SELECT NULL, NULL WHERE false;

-- name: set_sequence(name, value)
-- A sequence, put where it stood. They travel within the file.
SELECT :name, :value;

-- name: end_tenures(jump)!
-- Every tenure's end, at a restore: all resources free, their epochs and versions beyond any that lost history may have
-- given out (D46, H12).
UPDATE leases SET
    kind = 'none', holder = NULL, holder_name = NULL, owner = NULL, session = NULL, dispatch = NULL,
    epoch = epoch + :jump, version = version + :jump, claimed_at = NULL, granted_at = NULL, expires_at = NULL,
    run_token = NULL, acquired_under = NULL, taken_from = NULL, provisional = 0;

-- name: jump_records(jump)!
-- The versions of records beyond any that lost history may have given out, as those of their tasks (D32, D46).
UPDATE records SET version = version + :jump;

-- name: jump_fields(jump)!
-- And those of their registers and appends.
UPDATE record_fields SET version = version + :jump;

-- name: forget_working_sets()!
-- No run has acquired anything in this incarnation yet (D2b).
DELETE FROM run_tenures;

-- name: forget_replies()!
-- No reply of another incarnation is a reply of this one (D11).
DELETE FROM idempotency_keys;
