-- name: hold(names)
-- Keep these classes as they are until the transaction ends. The class may have no row yet, so there is none to lock.
-- Taken after lease rows, in the order of the locks themselves.
SELECT pg_advisory_xact_lock_shared(key)
FROM (
    SELECT hashtextextended('class:' || name, 0) AS key
    FROM jsonb_array_elements_text(:names::jsonb) AS name
    ORDER BY 1
) AS keys;

-- name: lock(names)
-- Let nobody else write under these classes, or apply them: what a new version takes away is counted next.
SELECT pg_advisory_xact_lock(key)
FROM (
    SELECT hashtextextended('class:' || name, 0) AS key
    FROM jsonb_array_elements_text(:names::jsonb) AS name
    ORDER BY 1
) AS keys;

-- name: versions(names)
-- The newest version of each class. It is in force for as long as the class is held or locked.
SELECT newest.name, newest.version, newest.applied_at
FROM jsonb_array_elements_text(:names::jsonb) AS wanted (name)
CROSS JOIN LATERAL (
    SELECT c.name, c.version, c.applied_at FROM classes c WHERE c.name = wanted.name ORDER BY c.version DESC LIMIT 1
) AS newest;

-- name: documents(wanted)
-- These versions of classes, as they were applied.
SELECT c.name, c.version, c.document, c.applied_by, c.applied_at
FROM jsonb_to_recordset(:wanted::jsonb) AS w (name text, version bigint)
JOIN classes c ON c.name = w.name AND c.version = w.version;

-- name: insert(name, version, document, applied_by, applied_at)!
-- A version nobody has applied yet; the class is locked.
INSERT INTO classes (name, version, document, applied_by, applied_at)
VALUES (:name::text, :version::bigint, :document::text, :applied_by::text, :applied_at::bigint);

-- name: uses(name, low, high)
-- By field: how many records hold data in it, have it claimed, and ever had it as a register or append, or as a task.
SELECT field, sum(holding)::bigint, sum(held)::bigint, sum(stored_ever)::bigint, sum(claimed_ever)::bigint
FROM (
    SELECT f.field, count(*) FILTER (WHERE f.value IS NOT NULL OR f.items > 0) AS holding, 0 AS held,
        count(*) AS stored_ever, 0 AS claimed_ever
    FROM record_fields f
    WHERE f.class = :name::text
    GROUP BY f.field
    UNION ALL
    SELECT split_part(l.resource, '#', 2), 0, count(*) FILTER (WHERE l.holder IS NOT NULL),
        0, count(*) FILTER (WHERE l.version > 0)
    FROM leases l
    WHERE l.resource >= :low::text AND l.resource < :high::text
    GROUP BY 1
) AS counted
GROUP BY field;

-- name: page(after, most)
-- Classes as they are in force, by name; without their documents, for they may be long.
SELECT DISTINCT ON (c.name) c.name, c.version, '' AS document, c.applied_by, c.applied_at
FROM classes c
WHERE c.name > :after::text COLLATE "C"
ORDER BY c.name, c.version DESC
LIMIT :most::bigint;

-- name: get(name, version)
-- One version of a class, the newest without a number, and the number of the newest.
SELECT c.name, c.version, c.document, c.applied_by, c.applied_at,
    (SELECT max(n.version) FROM classes n WHERE n.name = c.name) AS latest
FROM classes c
WHERE c.name = :name::text AND (:version::bigint IS NULL OR c.version = :version::bigint)
ORDER BY c.version DESC
LIMIT 1;
