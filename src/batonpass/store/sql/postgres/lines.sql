-- name: routed(holders)
-- Which of these holders has anything assigned to it by hand.
-- One look each: a join over many would read every such edge there is.
SELECT h.id FROM jsonb_array_elements_text(:holders::jsonb) AS h (id)
WHERE (SELECT 1 FROM edges e WHERE e.dst = h.id AND e.type = 'assigned' LIMIT 1) IS NOT NULL;

-- name: reserving(holders)
-- Which of these holders has anything reserved, itself or by one of its agents, in force or not.
SELECT h.id FROM jsonb_array_elements_text(:holders::jsonb) AS h (id)
WHERE (SELECT 1 FROM leases l WHERE l.holder = h.id AND l.kind = 'reservation' LIMIT 1) IS NOT NULL
   OR (SELECT 1 FROM leases l WHERE l.owner = h.id AND l.kind = 'reservation' LIMIT 1) IS NOT NULL;
