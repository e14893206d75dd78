-- Records with task fields: classes, the records of each, what was done to them, and the API keys that write them.

-- Every version of a class that was ever applied; the highest is in force, and a record names the one it was written
-- under.
CREATE TABLE classes (
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    document text NOT NULL,
    applied_by text COLLATE "C" NOT NULL,
    applied_at bigint NOT NULL,
    PRIMARY KEY (name, version)
);

-- `version` rises with whatever happens to the record. A record that was deleted keeps its row, and its versions (D32).
CREATE TABLE records (
    class text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    class_version bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    history_n bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint,
    PRIMARY KEY (class, id)
);

-- Registers and appends; a task field is a row of `leases`. `value` is the JSON of a register, `items` the length of an
-- append, `size` the bytes of either. A field of a deleted record keeps its version, and nothing else.
CREATE TABLE record_fields (
    class text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value text,
    items bigint NOT NULL DEFAULT 0,
    size bigint NOT NULL DEFAULT 0,
    author text COLLATE "C",
    updated_at bigint,
    PRIMARY KEY (class, id, field)
);

CREATE TABLE record_items (
    class text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    value text NOT NULL,
    author text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (class, id, field, n)
);

-- Append-only: every put, append, claim, release, takeover and deletion. Renewals are not in it.
CREATE TABLE record_log (
    class text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    at bigint NOT NULL,
    author text COLLATE "C" NOT NULL,
    verb text NOT NULL,
    field text COLLATE "C",
    version bigint,
    record_version bigint NOT NULL,
    class_version bigint NOT NULL,
    value text,
    based_on text,
    took_over_from text COLLATE "C",
    PRIMARY KEY (class, id, n)
);
CREATE INDEX record_log_at ON record_log (at);

-- Only the SHA-256 of a key's secret is kept. One live key a name; a name may have another once that was revoked.
CREATE TABLE api_keys (
    hash text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    scope text NOT NULL DEFAULT 'write' CHECK (scope IN ('read', 'write')),
    created_by text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint
);
CREATE INDEX api_keys_name ON api_keys (name, created_at);

-- What happens to a record is in the feed as well.
ALTER TABLE events ADD COLUMN record text COLLATE "C";
ALTER TABLE events ADD COLUMN field text COLLATE "C";
ALTER TABLE events ADD COLUMN version bigint;
