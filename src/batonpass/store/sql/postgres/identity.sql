-- name: lock_people()!
-- Nobody else may add people before this transaction ends.
LOCK TABLE people IN SHARE ROW EXCLUSIVE MODE;

-- name: any_people()
-- Whether there is anybody yet.
SELECT EXISTS (SELECT 1 FROM people);

-- name: add_person(id, name, email, email_key, now)
-- A new person, or none when the id or the address is somebody's; a twin in flight is waited for.
INSERT INTO people (id, name, email, email_key, created_at)
VALUES (:id::text, :name::text, :email::text, :email_key::text, :now::bigint)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: people_like(id, email_key)
-- Whoever has this id or this address already.
SELECT id, email_key FROM people WHERE id = :id OR email_key = :email_key ORDER BY id;

-- name: person(id, org)
-- One person, and whether they steward the organization.
SELECT p.id, p.name, p.email, p.created_at,
    EXISTS (SELECT 1 FROM edges e WHERE e.src = p.id AND e.type = 'stewards' AND e.dst = :org)
FROM people p
WHERE p.id = :id;

-- name: people(org, after, most)
-- People by id, and whether each stewards the organization.
SELECT p.id, p.name, p.email, p.created_at,
    EXISTS (SELECT 1 FROM edges e WHERE e.src = p.id AND e.type = 'stewards' AND e.dst = :org)
FROM people p
WHERE p.id > :after
ORDER BY p.id
LIMIT :most;

-- name: first_admin(org)
-- The longest known person who stewards the organization.
SELECT p.id, p.name, p.email, p.created_at, true
FROM people p
JOIN edges e ON e.src = p.id AND e.type = 'stewards' AND e.dst = :org
ORDER BY p.created_at, p.id
LIMIT 1;

-- name: add_agent(id, owner, label, pubkey, now)
-- A new agent, or none when the id is taken; a twin in flight is waited for.
INSERT INTO agents (id, owner, label, pubkey, created_at)
VALUES (:id::text, :owner::text, :label::text, :pubkey::text, :now::bigint)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: agent(id)
-- One agent.
SELECT id, owner, label, pubkey, created_at FROM agents WHERE id = :id;

-- name: agents(owner, after, most)
-- Agents by id, of one owner or of everybody.
SELECT id, owner, label, pubkey, created_at FROM agents
WHERE id > :after AND (:owner::text IS NULL OR owner = :owner)
ORDER BY id
LIMIT :most;
