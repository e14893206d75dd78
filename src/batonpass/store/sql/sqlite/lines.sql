-- name: routed(holders)
-- Which of these holders has anything assigned to it by hand.
SELECT h.value FROM json_each(:holders) AS h
WHERE EXISTS (SELECT 1 FROM edges e WHERE e.dst = h.value AND e.type = 'assigned');

-- name: reserving(holders)
-- Which of these holders has anything reserved, itself or by one of its agents, in force or not.
SELECT h.value FROM json_each(:holders) AS h
WHERE EXISTS (SELECT 1 FROM leases l WHERE l.holder = h.value AND l.kind = 'reservation')
   OR EXISTS (SELECT 1 FROM leases l WHERE l.owner = h.value AND l.kind = 'reservation');
