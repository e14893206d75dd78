-- The queue's index: a row for each node that can be an item, made with it and kept as long, so that there is always a
-- row to lock; `lane` is NULL while it is none. Everything in it is derived, and what is shown or taken is judged again
-- on the facts (D16). See core/ranking.py for lanes, places and turns; `born` is as on the node, `base` in units.
CREATE TABLE queue_items (
    node text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    type text COLLATE "C" NOT NULL,
    project text COLLATE "C",
    readiness text,
    live_blockers integer NOT NULL,
    base bigint NOT NULL,
    born bigint NOT NULL,
    lane integer,
    place bigint NOT NULL,
    turns integer NOT NULL,
    stale boolean NOT NULL DEFAULT false,
    busy boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);
CREATE INDEX queue_items_lane ON queue_items (lane, place, born, node) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_project ON queue_items (project, lane, place, born, node) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_type ON queue_items (type, lane, place, born, node) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_turns ON queue_items (turns, place, node) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_busy ON queue_items (node) WHERE lane IS NOT NULL AND busy;
CREATE INDEX queue_items_of_project ON queue_items (project, node);

-- What may have to be derived anew, noted by whoever changed it. Nothing in it is unique: writers never wait here.
CREATE TABLE queue_dirty (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    what text NOT NULL CHECK (what IN ('item', 'change', 'project'))
);

-- Whoever did what to a node lately, filing it aside: the front of a person's queue.
CREATE INDEX node_history_author ON node_history (author, at) WHERE n > 1 AND authored_by_agent IS NULL;

-- Every row has turned already, so pages judge it by its facts until it has been derived.
INSERT INTO queue_items (node, type, project, live_blockers, base, born, lane, place, turns, busy)
SELECT n.id, n.type, n.project, 0, 0, n.born, CASE WHEN n.queueable AND NOT n.dead THEN 0 END, n.rank, 0,
    coalesce(l.kind <> 'none', false)
FROM nodes n
LEFT JOIN leases l ON l.resource = n.id
WHERE n.type IN ('task', 'issue', 'incident', 'question', 'capture-pending', 'finding', 'workflow', 'workflow-run', 'schema');

INSERT INTO queue_dirty (name, what) SELECT node, 'item' FROM queue_items;
