-- name: structure(most)
-- What the database itself finds wrong with its pages and indexes: where, and what.
SELECT 'file', replace(replace(integrity_check, '*** in database main ***' || char(10), ''), char(10), '; ')
FROM pragma_integrity_check(:most)
WHERE integrity_check <> 'ok'
LIMIT :most;

-- name: foreign_keys(most)
-- Rows whose foreign key points at nothing: the table, and which row.
SELECT "table", 'row ' || coalesce(rowid, '?') || ' points at no row of ' || parent FROM pragma_foreign_key_check LIMIT :most;

-- name: probes()
-- A statement a table or index that compares it with what it should be. SQLite's own integrity check has done that.
SELECT NULL, NULL WHERE false;

-- name: lease_rows(claimable, most)
-- Nodes that can be claimed and have no row to lock.
SELECT n.id FROM nodes n
WHERE n.type IN (SELECT value FROM json_each(:claimable)) AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.resource = n.id)
ORDER BY n.id
LIMIT :most;

-- name: lease_shape(most)
-- Lease rows that are neither free nor held: a holder without an end, an end without a holder, a tenure without an epoch.
SELECT resource, kind, holder, epoch FROM leases
WHERE (kind = 'none') <> (holder IS NULL)
   OR (kind = 'none') <> (expires_at IS NULL)
   OR (kind <> 'none' AND (epoch < 1 OR granted_at IS NULL OR granted_at > expires_at))
   OR (kind <> 'claim' AND run_token IS NOT NULL)
ORDER BY resource
LIMIT :most;

-- name: event_epochs(most)
-- Nodes, and tasks of records, of which an event tells a later epoch than the lease row has.
SELECT e.resource, max(e.epoch), coalesce(l.epoch, 0) FROM (
    SELECT node AS resource, epoch FROM events WHERE node IS NOT NULL
    UNION ALL
    SELECT 'record:' || record || '#' || field, epoch FROM events WHERE record IS NOT NULL AND field IS NOT NULL
) AS e
LEFT JOIN leases l ON l.resource = e.resource
WHERE e.epoch > coalesce(l.epoch, 0)
GROUP BY e.resource, l.epoch
ORDER BY e.resource
LIMIT :most;

-- name: fence_epochs(most)
-- Nonces and working sets that name a later epoch than the lease row has.
SELECT f.resource, max(f.epoch), coalesce(l.epoch, 0) FROM (
    SELECT resource, epoch FROM lease_nonces
    UNION ALL
    SELECT resource, epoch FROM run_tenures
) AS f
LEFT JOIN leases l ON l.resource = f.resource
WHERE f.epoch > coalesce(l.epoch, 0)
GROUP BY f.resource, l.epoch
ORDER BY f.resource
LIMIT :most;

-- name: run_tokens(most)
-- Leases whose run token is not a token of that very tenure.
SELECT l.resource, l.epoch, substr(l.run_token, 1, 12) FROM leases l
WHERE l.run_token IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.hash = l.run_token AND t.resource = l.resource AND t.epoch = l.epoch)
ORDER BY l.resource
LIMIT :most;

-- name: edge_sources(most)
-- Edges out of nodes that are not there.
SELECT e.src, e.type, e.dst FROM edges e
WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = e.src)
ORDER BY e.src, e.type, e.dst
LIMIT :most;

-- name: search_rows(most)
-- Nodes without an entry in the index of words, and entries without a node.
SELECT n.id, 'no entry in the index of words' FROM nodes n
WHERE NOT EXISTS (SELECT 1 FROM search_nodes s WHERE s.node = n.id)
UNION ALL
SELECT s.node, 'an entry in the index of words and is no node' FROM search_nodes s
WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = s.node)
ORDER BY 1
LIMIT :most;

-- name: history_numbers(most)
-- Nodes whose history is not numbered 1, 2, 3, …
SELECT node, count(*), max(n) FROM node_history
GROUP BY node
HAVING count(*) <> max(n) OR min(n) <> 1
ORDER BY node
LIMIT :most;

-- name: history_ends(most)
-- Nodes whose revision is not the last of their history.
SELECT n.id, n.revision, coalesce(h.revision, 'no history') FROM nodes n
LEFT JOIN node_history h ON h.node = n.id AND h.n = (SELECT max(x.n) FROM node_history x WHERE x.node = n.id)
WHERE h.revision IS NULL OR h.revision <> n.revision
ORDER BY n.id
LIMIT :most;

-- name: redactions(most)
-- Entries whose text was taken away by an act that is not in the history.
SELECT h.node, h.n FROM node_history h
WHERE h.redaction IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM node_history a WHERE a.node = h.node AND a.n = h.redaction AND a.verb = 'redact')
ORDER BY h.node, h.n
LIMIT :most;

-- name: tombstones(most)
-- Deleted nodes that are there again.
SELECT t.id FROM tombstones t
JOIN nodes n ON n.id = t.id
ORDER BY t.id
LIMIT :most;

-- name: commits(most)
-- Commits that only the node has, or only the table by which they are found.
WITH noted AS (
    SELECT n.id AS node, c.value AS commit_text FROM nodes n, json_each(n.extra, '$.commits') AS c
), kept AS (
    SELECT node, repo || '@' || sha AS commit_text FROM node_commits
), apart AS (
    SELECT node, commit_text, 'is carried, and not found by its hash' AS how
    FROM (SELECT node, commit_text FROM noted EXCEPT SELECT node, commit_text FROM kept) AS missing
    UNION ALL
    SELECT node, commit_text, 'is found by its hash, and not carried'
    FROM (SELECT node, commit_text FROM kept EXCEPT SELECT node, commit_text FROM noted) AS extra
)
SELECT node, commit_text, how FROM apart
ORDER BY node, commit_text
LIMIT :most;

-- name: token_secrets(most)
-- Tokens of which more than a hash is kept; the last column is how many characters were kept in the hash's place.
SELECT person, created_at, length(hash) FROM tokens
WHERE length(hash) <> 64 OR hash GLOB '*[^0-9a-f]*'
   OR coalesce(label, '') || ' ' || coalesce(session, '') GLOB '*bat_[pak][agk][tey]_' || replace(hex(zeroblob(43)), '00', '[A-Za-z0-9_-]') || '*'
ORDER BY person, created_at
LIMIT :most;

-- name: key_secrets(most)
-- API keys of which more than a hash is kept; the last column is how many characters were kept in the hash's place.
SELECT 'apikey:' || name, created_at, length(hash) FROM api_keys
WHERE length(hash) <> 64 OR hash GLOB '*[^0-9a-f]*'
   OR name GLOB '*bat_[pak][agk][tey]_' || replace(hex(zeroblob(43)), '00', '[A-Za-z0-9_-]') || '*'
ORDER BY name, created_at
LIMIT :most;

-- name: key_names(most)
-- Two keys of one name whose lives overlap, neither of them revoked.
SELECT 'apikey:' || a.name, substr(a.hash, 1, 12), substr(b.hash, 1, 12)
FROM api_keys a
JOIN api_keys b ON b.name = a.name AND b.hash > a.hash
WHERE a.revoked_at IS NULL AND b.revoked_at IS NULL AND a.created_at < b.expires_at AND b.created_at < a.expires_at
ORDER BY a.name, a.hash, b.hash
LIMIT :most;

-- name: reply_secrets(most)
-- Replies kept for repetition, and events, that hold the text of a token (D11).
SELECT place FROM (
    SELECT 'reply to ' || method || ' ' || path || ' of ' || principal AS place, reply AS text FROM idempotency_keys
    UNION ALL
    SELECT 'event ' || seq, data FROM events
) AS kept
WHERE text GLOB '*bat_[pak][agk][tey]_' || replace(hex(zeroblob(43)), '00', '[A-Za-z0-9_-]') || '*'
ORDER BY place
LIMIT :most;

-- name: record_classes(most)
-- Records written under a version of a class that is not there.
SELECT r.class || '/' || r.id, r.class, r.class_version FROM records r
WHERE r.version > 0 AND NOT EXISTS (SELECT 1 FROM classes c WHERE c.name = r.class AND c.version = r.class_version)
ORDER BY 1
LIMIT :most;

-- name: record_parts(most)
-- Fields, items, entries of history and claimed tasks of which there is no record.
SELECT DISTINCT path, what FROM (
    SELECT f.class || '/' || f.id AS path, 'the field ' || f.field AS what FROM record_fields f
    WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.class = f.class AND r.id = f.id)
    UNION ALL
    SELECT i.class || '/' || i.id, 'items of ' || i.field FROM record_items i
    WHERE NOT EXISTS (SELECT 1 FROM record_fields f WHERE f.class = i.class AND f.id = i.id AND f.field = i.field)
    UNION ALL
    SELECT h.class || '/' || h.id, 'history' FROM record_log h
    WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.class = h.class AND r.id = h.id)
    UNION ALL
    SELECT l.path, 'a task that was claimed' FROM (
        SELECT substr(resource, 8, instr(resource, '#') - 8) AS path FROM leases
        WHERE version > 0 AND resource >= 'record:' AND resource < 'record;'
    ) AS l
    WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.class = substr(l.path, 1, instr(l.path, '/') - 1) AND r.id = substr(l.path, instr(l.path, '/') + 1))
) AS parts
ORDER BY path, what
LIMIT :most;

-- name: record_items(most)
-- Appends that do not have as many items as they say, numbered from 0.
SELECT f.class || '/' || f.id || '#' || f.field, f.items, count(i.n), coalesce(max(i.n), -1) FROM record_fields f
LEFT JOIN record_items i ON i.class = f.class AND i.id = f.id AND i.field = f.field
GROUP BY f.class, f.id, f.field, f.items
HAVING f.items <> count(i.n) OR f.items <> coalesce(max(i.n), -1) + 1
ORDER BY 1
LIMIT :most;

-- name: record_sizes(most)
-- Fields that do not hold as many bytes as they say.
SELECT path, says, has FROM (
    SELECT f.class || '/' || f.id || '#' || f.field AS path, f.size AS says,
        coalesce(length(CAST(f.value AS BLOB)), 0) + coalesce((
            SELECT sum(length(CAST(i.value AS BLOB))) FROM record_items i
            WHERE i.class = f.class AND i.id = f.id AND i.field = f.field
        ), 0) AS has
    FROM record_fields f
) AS held
WHERE says <> has
ORDER BY path
LIMIT :most;

-- name: record_versions(most)
-- Records, and fields of them, of which history tells a later version or entry than they have.
SELECT path, what, told, has FROM (
    SELECT r.class || '/' || r.id AS path, 'a version' AS what, max(h.record_version) AS told, r.version AS has
    FROM records r JOIN record_log h ON h.class = r.class AND h.id = r.id
    GROUP BY r.class, r.id, r.version
    UNION ALL
    SELECT r.class || '/' || r.id, 'an entry', max(h.n), r.history_n
    FROM records r JOIN record_log h ON h.class = r.class AND h.id = r.id
    GROUP BY r.class, r.id, r.history_n
    UNION ALL
    SELECT f.class || '/' || f.id || '#' || f.field, 'a version', max(h.version), f.version
    FROM record_fields f JOIN record_log h ON h.class = f.class AND h.id = f.id AND h.field = f.field
    GROUP BY f.class, f.id, f.field, f.version
    UNION ALL
    SELECT h.class || '/' || h.id || '#' || h.field, 'a version', max(h.version), l.version
    FROM record_log h JOIN leases l ON l.resource = 'record:' || h.class || '/' || h.id || '#' || h.field
    GROUP BY h.class, h.id, h.field, l.version
) AS versions
WHERE told > has
ORDER BY path, what
LIMIT :most;

-- name: verdicts(after, most)
-- Nodes by id, with what was kept of core's verdicts on them when they were written.
SELECT id, dead, resolving, queueable, rank FROM nodes WHERE id > :after ORDER BY id LIMIT :most;
