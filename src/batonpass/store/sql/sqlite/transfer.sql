-- name: count(project)
-- How many nodes an export holds: those of one project, or all.
SELECT count(*) FROM nodes WHERE :project IS NULL OR project = :project;
