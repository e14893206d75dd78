-- name: of(ids)
-- What is left of those among some ids whose nodes were deleted.
SELECT id, type, project, revision, deleted_at, deleted_by, reason FROM tombstones
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: lock(id)
-- What is left of a deleted node, locked: its history may still be redacted.
SELECT id, type, project, revision, deleted_at, deleted_by, reason FROM tombstones
WHERE id = :id::text
FOR UPDATE;

-- name: raise(row)!
-- A tombstone in the place of a locked node.
INSERT INTO tombstones (id, type, project, revision, deleted_at, deleted_by, reason)
SELECT id, type, project, revision, deleted_at, deleted_by, reason
FROM jsonb_to_record(:row::jsonb) AS t (
    id text, type text, project text, revision text, deleted_at bigint, deleted_by text, reason text
);

-- name: remove_edges(id)!
-- The edges out of a node that is going. Those onto it stay, and lead nowhere.
DELETE FROM edges WHERE src = :id::text;

-- name: remove_commits(id)!
-- A node that is going carries no commit any more.
DELETE FROM node_commits WHERE node = :id::text;

-- name: remove_node(id)!
-- A locked node, with nothing of its own left that points at it.
DELETE FROM nodes WHERE id = :id::text;
