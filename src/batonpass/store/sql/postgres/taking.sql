-- name: lock_launches(launches)
-- One `next` at a time of each launch, to COMMIT, in one order; whoever waits then sees what the other claimed.
SELECT pg_advisory_xact_lock(holder, dispatch)
FROM (
    SELECT DISTINCT hashtext('batonpass.launch ' || l.holder) AS holder, hashtext(l.dispatch) AS dispatch
    FROM jsonb_to_recordset(:launches::jsonb) AS l (holder text, dispatch text)
    ORDER BY 1, 2
) AS keys;

-- name: launched(launches)
-- What these launches have claimed. The array leads to the index: of a set's size the planner knows nothing.
SELECT l.holder, l.dispatch, l.resource FROM leases l
JOIN jsonb_to_recordset(:launches::jsonb) AS n (holder text, dispatch text) ON n.holder = l.holder AND n.dispatch = l.dispatch
WHERE l.kind = 'claim' AND l.holder = ANY (ARRAY(SELECT jsonb_array_elements(:launches::jsonb) ->> 'holder'))
ORDER BY l.resource;

-- name: reserving(holders, owners)
-- Who has reservations, among holders and the owners of holders, and until when.
SELECT DISTINCT holder, owner, expires_at FROM leases
WHERE kind = 'reservation'
  AND (holder = ANY (ARRAY(SELECT jsonb_array_elements_text(:holders::jsonb)))
       OR owner = ANY (ARRAY(SELECT jsonb_array_elements_text(:owners::jsonb))));
