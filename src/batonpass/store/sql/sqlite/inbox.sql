-- name: put(rows)!
-- New entries of a node that is locked.
INSERT INTO inbox (box, person, at, node)
SELECT value ->> 'box', value ->> 'person', value ->> 'at', value ->> 'node' FROM json_each(:rows);

-- name: remove(rows)!
-- Entries that do not follow from their node any more.
DELETE FROM inbox
WHERE (box, person, at, node) IN (
    SELECT value ->> 'box', value ->> 'person', value ->> 'at', value ->> 'node' FROM json_each(:rows)
);

-- name: window(box, person, at, node, most)
-- The next entries of a box, oldest first: to whom each goes, and whether it still waits, a review whatever resolved
-- its node, another entry until something has. LIMIT 1 and not EXISTS, of which PostgreSQL may make a plan that reads
-- every resolver there is.
SELECT i.node, i.at, n.title, n.project, n.author, n.authored_by_agent,
    CASE WHEN i.box = 'asked' THEN (
        SELECT min(e.dst) FROM edges e
        WHERE e.src = i.node AND e.type = 'routed-to' AND e.dst BETWEEN 'person-' AND 'person-~'
    ) ELSE nullif(i.person, '') END,
    NOT n.dead
    AND (SELECT 1 FROM edges s WHERE s.dst = i.node AND s.type = 'supersedes' LIMIT 1) IS NULL
    AND (i.box = 'reviews' OR (SELECT 1 FROM live_resolutions r WHERE r.target = i.node LIMIT 1) IS NULL)
FROM inbox i
JOIN nodes n ON n.id = i.node
WHERE i.box = :box AND i.person = :person AND (i.at, i.node) > (:at, :node)
ORDER BY i.at, i.node
LIMIT :most;
