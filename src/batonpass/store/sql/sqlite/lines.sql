-- name: routed(holders)
-- Which of these holders has anything assigned to it by hand.
SELECT h.value FROM json_each(:holders) AS h
WHERE EXISTS (SELECT 1 FROM edges e WHERE e.dst = h.value AND e.type = 'assigned');
