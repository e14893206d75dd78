-- What is left of a deleted node, what was taken out of histories, and which nodes carry which commit.

-- A deleted node's id is never used again; its history stays (D41).
CREATE TABLE tombstones (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    project TEXT,
    revision TEXT NOT NULL,
    deleted_at INTEGER NOT NULL,
    deleted_by TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `reason` is that of a deletion or redaction. `redaction` is the number of the entry that took this one's content away.
ALTER TABLE node_history ADD COLUMN reason TEXT;
ALTER TABLE node_history ADD COLUMN redaction INTEGER;
CREATE INDEX node_history_revision ON node_history (node, revision, n);

-- The commits of `nodes.extra`, one a row, so that a commit is found without reading nodes.
CREATE TABLE node_commits (
    node TEXT NOT NULL,
    repo TEXT NOT NULL,
    sha TEXT NOT NULL,
    PRIMARY KEY (node, repo, sha)
) STRICT, WITHOUT ROWID;
CREATE INDEX node_commits_sha ON node_commits (sha, node);

INSERT INTO node_commits (node, repo, sha)
SELECT DISTINCT n.id, substr(c.value, 1, instr(c.value, '@') - 1), substr(c.value, instr(c.value, '@') + 1)
FROM nodes n, json_each(n.extra, '$.commits') c;
