-- What is left of a deleted node, what was taken out of histories, and which nodes carry which commit.

-- A deleted node's id is never used again; its history stays (D41).
CREATE TABLE tombstones (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    type text NOT NULL,
    project text COLLATE "C",
    revision text NOT NULL,
    deleted_at bigint NOT NULL,
    deleted_by text COLLATE "C" NOT NULL,
    reason text NOT NULL
);

-- `reason` is that of a deletion or redaction. `redaction` is the number of the entry that took this one's content away.
ALTER TABLE node_history ADD COLUMN reason text;
ALTER TABLE node_history ADD COLUMN redaction integer;
CREATE INDEX node_history_revision ON node_history (node, revision COLLATE "C", n);

-- The commits of `nodes.extra`, one a row, so that a commit is found without reading nodes.
CREATE TABLE node_commits (
    node text COLLATE "C" NOT NULL,
    repo text COLLATE "C" NOT NULL,
    sha text COLLATE "C" NOT NULL,
    PRIMARY KEY (node, repo, sha)
);
CREATE INDEX node_commits_sha ON node_commits (sha, node);

INSERT INTO node_commits (node, repo, sha)
SELECT DISTINCT n.id, split_part(c.value, '@', 1), split_part(c.value, '@', 2)
FROM nodes n, jsonb_array_elements_text(n.extra::jsonb -> 'commits') AS c (value);
