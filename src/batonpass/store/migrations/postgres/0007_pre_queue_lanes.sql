-- The queue is read in the order of its index since there is one, and not in that of its nodes any more: what each of
-- their writes paid for is read by nothing.
DROP INDEX nodes_queue;
DROP INDEX nodes_queue_project;

-- A lane is read and counted from its index alone.
DROP INDEX queue_items_lane;
DROP INDEX queue_items_project;
DROP INDEX queue_items_type;
CREATE INDEX queue_items_lane ON queue_items (lane, place, born, node) INCLUDE (type, project, turns, stale) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_project ON queue_items (project, lane, place, born, node) INCLUDE (type, turns, stale) WHERE lane IS NOT NULL AND NOT busy;
CREATE INDEX queue_items_type ON queue_items (type, lane, place, born, node) INCLUDE (project, turns, stale) WHERE lane IS NOT NULL AND NOT busy;
