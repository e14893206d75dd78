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

-- name: uses(name, low, high)
-- By field: how many records hold data in it, have it claimed, and ever had it as a register or append, or as a task.
SELECT field, sum(holding), sum(held), sum(stored_ever), sum(claimed_ever)
FROM (
    SELECT f.field, count(*) FILTER (WHERE f.value IS NOT NULL OR f.items > 0) AS holding, 0 AS held,
        count(*) AS stored_ever, 0 AS claimed_ever
    FROM record_fields f
    WHERE f.class = :name
    GROUP BY f.field
    UNION ALL
    SELECT substr(l.resource, instr(l.resource, '#') + 1), 0, count(*) FILTER (WHERE l.holder IS NOT NULL),
        0, count(*) FILTER (WHERE l.version > 0)
    FROM leases l
    WHERE l.resource >= :low AND l.resource < :high
    GROUP BY 1
) AS counted
GROUP BY field;

-- name: page(after, most)
-- Classes as they are in force, by name; without their documents, for they may be long.
SELECT c.name, c.version, '' AS document, c.applied_by, c.applied_at
FROM classes c
WHERE c.name > :after AND c.version = (SELECT max(n.version) FROM classes n WHERE n.name = c.name)
ORDER BY c.name
LIMIT :most;

-- name: get(name, version)
-- One version of a class, the newest without a number, and the number of the newest.
SELECT c.name, c.version, c.document, c.applied_by, c.applied_at,
    (SELECT max(n.version) FROM classes n WHERE n.name = c.name) AS latest
FROM classes c
WHERE c.name = :name AND (:version IS NULL OR c.version = :version)
ORDER BY c.version DESC
LIMIT 1;
