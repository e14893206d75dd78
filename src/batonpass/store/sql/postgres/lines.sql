-- name: routed(holders)
-- Which of these holders has anything assigned to it by hand.
SELECT h.id FROM jsonb_array_elements_text(:holders::jsonb) AS h (id)
WHERE EXISTS (SELECT 1 FROM edges e WHERE e.dst = h.id AND e.type = 'assigned');
