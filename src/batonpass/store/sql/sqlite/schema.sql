-- name: lock(key)
-- One upgrade at a time. BEGIN IMMEDIATE has taken the writer's turn already.
SELECT :key;

-- name: has_ledger()
-- Whether this database has ever been upgraded.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations');

-- name: make_ledger()!
-- The list of migrations applied.
CREATE TABLE IF NOT EXISTS schema_migrations (version integer NOT NULL PRIMARY KEY, name text NOT NULL);

-- name: applied()
-- The migrations applied, in order.
SELECT version FROM schema_migrations ORDER BY version;

-- name: note(version, name)!
-- A migration that has been applied now.
INSERT INTO schema_migrations (version, name) VALUES (:version, :name);

-- name: incarnation()
-- The database's present incarnation (D46).
SELECT id FROM incarnations ORDER BY n DESC LIMIT 1;

-- name: begin_incarnation(id, why, now)!
-- A new incarnation: at creation, and after a restore (D46).
INSERT INTO incarnations (n, id, at, why)
SELECT coalesce(max(n), 0) + 1, :id, coalesce(:now, CAST(strftime('%s', 'now') AS INTEGER) * 1000000), :why FROM incarnations;

-- name: node_count()
-- How many nodes there are.
SELECT count(*) FROM nodes;
