-- name: of(agent)
-- What an agent's machine can run, as it was published last.
SELECT agent, document, published_at, published_by, session, last_seen FROM capabilities WHERE agent = :agent;

-- name: lock(agent)
-- The same for who will publish, locked if it is there.
SELECT agent, document, published_at, published_by, session, last_seen FROM capabilities WHERE agent = :agent FOR UPDATE;

-- name: publish(agent, document, published_by, session, now)!
-- What an agent's machine can run, in the place of what was published before.
INSERT INTO capabilities (agent, document, published_at, published_by, session, last_seen)
VALUES (:agent::text, :document::text, :now::bigint, :published_by::text, :session::text, :now::bigint)
ON CONFLICT (agent) DO UPDATE SET
    document = excluded.document, published_at = excluded.published_at, published_by = excluded.published_by,
    session = excluded.session, last_seen = greatest(capabilities.last_seen, excluded.last_seen);

-- name: beat(agent, now)
-- The machine is there: a row unless nothing was ever published.
UPDATE capabilities SET last_seen = greatest(last_seen, :now::bigint) WHERE agent = :agent RETURNING last_seen;

-- name: hosts(owner, since, most)
-- One person's machines that were seen since, the freshest first.
SELECT c.agent, c.document, c.published_at, c.published_by, c.session, c.last_seen
FROM capabilities c
JOIN agents a ON a.id = c.agent
WHERE a.owner = :owner::text AND c.last_seen >= :since::bigint
ORDER BY c.last_seen DESC, c.agent
LIMIT :most::bigint;

-- name: stale(owner, since)
-- How many of a person's machines were not seen since.
SELECT count(*) FROM capabilities c JOIN agents a ON a.id = c.agent WHERE a.owner = :owner::text AND c.last_seen < :since::bigint;
