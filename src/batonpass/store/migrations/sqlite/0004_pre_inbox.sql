-- Who waits for whose word: one row for each box that a node is in, written with the node (core/inbox.py says which).
-- `person` is '' in the boxes of what is routed to nobody; `at` is the node's creation.
CREATE TABLE inbox (
    box TEXT NOT NULL,
    person TEXT NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    PRIMARY KEY (box, person, at, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_node ON inbox (node);

INSERT INTO inbox (box, person, at, node)
SELECT CASE n.type WHEN 'question' THEN 'questions' WHEN 'finding' THEN 'findings' ELSE 'pending' END,
    coalesce(e.dst, ''), n.created_at, n.id
FROM nodes n
LEFT JOIN edges e ON e.src = n.id AND e.type = 'routed-to' AND e.dst LIKE 'person-%'
WHERE n.type IN ('question', 'finding', 'capture-pending') AND NOT n.dead;

INSERT INTO inbox (box, person, at, node)
SELECT 'asked', author, created_at, id FROM nodes WHERE type = 'question' AND NOT dead AND author IS NOT NULL;

INSERT INTO inbox (box, person, at, node)
SELECT 'reviews', e.dst, n.created_at, n.id FROM edges e
JOIN nodes n ON n.id = e.src AND NOT n.dead
WHERE e.type = 'review-requested' AND e.dst LIKE 'person-%';

-- Corrections that stand.
CREATE INDEX nodes_corrections ON nodes (id) WHERE type = 'correction' AND NOT dead;
