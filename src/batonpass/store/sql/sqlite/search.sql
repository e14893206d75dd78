-- name: texts(most)
-- The newest nodes with what they say, newest first.
SELECT id, title, summary, body FROM nodes ORDER BY created_at DESC, id LIMIT :most;
