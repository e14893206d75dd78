-- name: routed(holders)
-- Which of these holders has anything assigned to it by hand.
-- One look each: a join over many would read every such edge there is.
SELECT h.id FROM jsonb_array_elements_text(:holders::jsonb) AS h (id)
WHERE (SELECT 1 FROM edges e WHERE e.dst = h.id AND e.type = 'assigned' LIMIT 1) IS NOT NULL;
