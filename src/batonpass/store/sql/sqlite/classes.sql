-- name: hold(names)
-- The writer's turn is the lock here.
SELECT :names;

-- name: lock(names)
-- The writer's turn is the lock here.
SELECT :names;

-- name: versions(names)
-- The newest version of each class. It is in force for as long as the writer's turn lasts.
SELECT c.name, c.version, c.applied_at
FROM json_each(:names) AS wanted
JOIN classes c ON c.name = wanted.value
WHERE c.version = (SELECT max(version) FROM classes WHERE name = wanted.value);

-- name: documents(wanted)
-- These versions of classes, as they were applied.
SELECT c.name, c.version, c.document, c.applied_by, c.applied_at
FROM json_each(:wanted) AS w
JOIN classes c ON c.name = w.value ->> 'name' AND c.version = w.value ->> 'version';

-- name: insert(name, version, document, applied_by, applied_at)!
-- A version nobody has applied yet; the class is locked.
INSERT INTO classes (name, version, document, applied_by, applied_at)
VALUES (:name, :version, :document, :applied_by, :applied_at);
