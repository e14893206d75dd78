-- name: lock_launches(launches)
-- The writer's turn is the lock; nothing to do.
SELECT :launches;

-- name: launched(launches)
-- What these launches have claimed.
SELECT l.holder, l.dispatch, l.resource FROM json_each(:launches) AS n
JOIN leases l ON l.holder = n.value ->> 'holder' AND l.dispatch = n.value ->> 'dispatch'
WHERE l.kind = 'claim'
ORDER BY l.resource;

-- name: reserving(holders, owners)
-- Who has reservations, among holders and the owners of holders, and until when.
SELECT l.holder, l.owner, l.expires_at FROM json_each(:holders) AS h
JOIN leases l ON l.holder = h.value
WHERE l.kind = 'reservation'
UNION
SELECT l.holder, l.owner, l.expires_at FROM json_each(:owners) AS o
JOIN leases l ON l.owner = o.value
WHERE l.kind = 'reservation';
