-- name: ended(after, upto, most)
-- The projects in which a lease on an item has ended after one moment, up to another, and is still there. Read along the
-- items that are held: leases are renewed all the time, so an index on their ends would cost every heartbeat.
SELECT DISTINCT i.project FROM queue_items i INDEXED BY queue_items_busy JOIN leases l ON l.resource = i.node
WHERE i.lane IS NOT NULL AND i.busy AND l.expires_at > :after AND l.expires_at <= :upto
LIMIT :most;

-- name: next(after)
-- When the next of them ends.
SELECT min(l.expires_at) FROM queue_items i INDEXED BY queue_items_busy JOIN leases l ON l.resource = i.node
WHERE i.lane IS NOT NULL AND i.busy AND l.expires_at > :after;
