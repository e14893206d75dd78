-- A team fences writes to its own tables: whoever calls one of these in a transaction of its own has the task until
-- that ends, or an error.
--
-- The row is locked for update, as by every fence of the server: whoever comes meanwhile, to take the task over or to
-- renew it, waits for COMMIT. Locked for share, one transaction after the other would be let in past a takeover that
-- waits. A fence that lapsed holds until somebody uses the lapse, which nobody can while the row is locked.

-- What both do. `named` is the version or the epoch, as `what` says. Not STRICT: with a NULL it would return, and hold
-- nothing.
CREATE FUNCTION batonpass_lock_fence(record text, field text, what text, named bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    task text := record || '#' || field;
    found_kind text;
    found_holder text;
    found_version bigint;
    found_epoch bigint;
    actual bigint;
BEGIN
    IF record IS NULL OR field IS NULL OR named IS NULL THEN
        RAISE EXCEPTION 'a fence is a record, a field and its %; one of them is NULL', what
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT l.kind, l.holder, l.version, l.epoch INTO found_kind, found_holder, found_version, found_epoch
    FROM leases l WHERE l.resource = ('record:' || task) COLLATE "C" FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no fence on %: nobody has ever claimed it', task
            USING ERRCODE = 'SP409',
            HINT = 'A record is named <class>/<id>, and its field must be a task that was claimed.';
    END IF;
    actual := CASE what WHEN 'version' THEN found_version ELSE found_epoch END;
    IF actual = named AND found_kind = 'claim' THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'the fence on % is stale: it names % %, and the task is at %', task, what, named, actual
        USING ERRCODE = 'SP409',
        DETAIL = CASE found_kind WHEN 'claim'
            THEN format('The task is %s''s, at version %s and epoch %s.', found_holder, found_version, found_epoch)
            ELSE format('Nobody has the task. It is at version %s and epoch %s.', found_version, found_epoch) END,
        HINT = CASE WHEN what = 'version' AND found_kind = 'claim' AND actual > named
            THEN 'If it was you who renewed it, name the version that was answered last, or fence by epoch, which a '
                || 'renewal leaves as it is. Otherwise the task is lost: stop, and write nothing.'
            ELSE 'The task is lost: stop, and write nothing.' END;
END $$;

-- Raises SP409 unless the caller's claim of a task still stands, at the version that was answered last.
CREATE FUNCTION batonpass_require_fence(record text, field text, version bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    PERFORM batonpass_lock_fence(record, field, 'version', version);
END $$;

-- The same by epoch: renewals leave it as it is, so it is for whoever renews from another thread.
CREATE FUNCTION batonpass_require_fence_epoch(record text, field text, epoch bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    PERFORM batonpass_lock_fence(record, field, 'epoch', epoch);
END $$;

-- They run with their owner's rights, so that a team needs none on our tables: to lock a row takes the right to change
-- it. So nothing in them is looked up where a caller could have put something else, in its temporary tables for one.
-- Which schema is ours, only the database knows.
DO $$
DECLARE
    ours text := format('pg_catalog, %I, pg_temp', current_schema());
BEGIN
    EXECUTE format('ALTER FUNCTION batonpass_require_fence(text, text, bigint) SET search_path = %s', ours);
    EXECUTE format('ALTER FUNCTION batonpass_require_fence_epoch(text, text, bigint) SET search_path = %s', ours);
END $$;

-- Whoever may call them may hold up whoever has the task, and learns whose it is: that is for an administrator to
-- grant.
REVOKE ALL ON FUNCTION batonpass_lock_fence(text, text, text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION batonpass_require_fence(text, text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION batonpass_require_fence_epoch(text, text, bigint) FROM PUBLIC;
