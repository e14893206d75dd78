-- Records with task fields: classes, the records of each, what was done to them, and the API keys that write them.

-- Every version of a class that was ever applied; the highest is in force, and a record names the one it was written
-- under.
CREATE TABLE classes (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    document TEXT NOT NULL,
    applied_by TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

-- `version` rises with whatever happens to the record. A record that was deleted keeps its row, and its versions (D32).
CREATE TABLE records (
    class TEXT NOT NULL,
    id TEXT NOT NULL,
    class_version INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    history_n INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (class, id)
) STRICT, WITHOUT ROWID;

-- Registers and appends; a task field is a row of `leases`. `value` is the JSON of a register, `items` the length of an
-- append, `size` the bytes of either. A field of a deleted record keeps its version, and nothing else.
CREATE TABLE record_fields (
    class TEXT NOT NULL,
    id TEXT NOT NULL,
    field TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT,
    items INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    author TEXT,
    updated_at INTEGER,
    PRIMARY KEY (class, id, field)
) STRICT, WITHOUT ROWID;

CREATE TABLE record_items (
    class TEXT NOT NULL,
    id TEXT NOT NULL,
    field TEXT NOT NULL,
    n INTEGER NOT NULL,
    value TEXT NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (class, id, field, n)
) STRICT, WITHOUT ROWID;

-- Append-only: every put, append, claim, release, takeover and deletion. Renewals are not in it.
CREATE TABLE record_log (
    class TEXT NOT NULL,
    id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    author TEXT NOT NULL,
    verb TEXT NOT NULL,
    field TEXT,
    version INTEGER,
    record_version INTEGER NOT NULL,
    class_version INTEGER NOT NULL,
    value TEXT,
    based_on TEXT,
    took_over_from TEXT,
    PRIMARY KEY (class, id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_log_at ON record_log (at);

-- Only the SHA-256 of a key's secret is kept. One live key a name; a name may have another once that was revoked.
CREATE TABLE api_keys (
    hash TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL DEFAULT 'write' CHECK (scope IN ('read', 'write')),
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX api_keys_name ON api_keys (name, created_at);

-- What happens to a record is in the feed as well.
ALTER TABLE events ADD COLUMN record TEXT;
ALTER TABLE events ADD COLUMN field TEXT;
ALTER TABLE events ADD COLUMN version INTEGER;
