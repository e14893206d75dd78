-- name: of(ids)
-- What is left of those among some ids whose nodes were deleted.
SELECT id, type, project, revision, deleted_at, deleted_by, reason FROM tombstones
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: lock(id)
-- What is left of a deleted node, locked: its history may still be redacted. The writer's turn is the lock here.
SELECT id, type, project, revision, deleted_at, deleted_by, reason FROM tombstones WHERE id = :id;

-- name: raise(row)!
-- A tombstone in the place of a locked node.
INSERT INTO tombstones (id, type, project, revision, deleted_at, deleted_by, reason)
SELECT :row ->> 'id', :row ->> 'type', :row ->> 'project', :row ->> 'revision', :row ->> 'deleted_at',
    :row ->> 'deleted_by', :row ->> 'reason';

-- name: remove_edges(id)!
-- The edges out of a node that is going. Those onto it stay, and lead nowhere.
DELETE FROM edges WHERE src = :id;

-- name: remove_commits(id)!
-- A node that is going carries no commit any more.
DELETE FROM node_commits WHERE node = :id;

-- name: remove_node(id)!
-- A locked node, with nothing of its own left that points at it.
DELETE FROM nodes WHERE id = :id;
