"""The lease routes: exact bodies in, exact bodies out (leases specification)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.errors import BatonError, Conflict, Invalid
from batonpass.core.ids import HolderId, NodeId, Resource, parse_label, parse_node_id
from batonpass.core.leases import Kind, Request, Verb, view
from batonpass.core.nodes import parse_slug
from batonpass.server.http.bodies import Body
from batonpass.server.http.call import Call, reply
from batonpass.server.services.engine import Done
from batonpass.server.services.leases import Bulk
from batonpass.server.services.policy import REASON_CHARS_MAX
from batonpass.wire import leases as wire
from batonpass.wire.errors import error_body

EXTEND_MS_MAX: Final = 10**12
"""Beyond thirty years there is nothing to tell apart; the policy's maximum caps far below."""
LIMIT_DEFAULT: Final = 100
NUMBER_DIGITS_MAX: Final = 9
STATES: Final = ("live", "lapsed", "reserved")

S = TypeVar("S", bound=msgspec.Struct)


async def claim(call: Call) -> Response:
    """Take the lease on a node, or renew one's own."""
    node, body = call.node_id(), await call.body(wire.ClaimRequest)
    asked = body.value
    if asked.take and asked.if_epoch is not None:
        raise Invalid("take: ends the tenure that stands, so it takes no if_epoch", field="take")
    request = Request(
        call.principal,
        Verb.CLAIM,
        Resource(node),
        session=_label(asked.session, "session"),
        dispatch=_label(asked.dispatch, "dispatch"),
        if_epoch=asked.if_epoch,
        force=asked.force,
        take=asked.take,
        reason=_reason(asked.reason),
    )
    return await _single(call, request, body)


async def renew(call: Call) -> Response:
    """Move the end of a lease away; a free node is claimed."""
    return await _hold(call, Verb.RENEW)


async def reserve(call: Call) -> Response:
    """Park a node for its holder: the queue keeps it from others until the grace window ends."""
    return await _hold(call, Verb.RESERVE)


async def extend(call: Call) -> Response:
    """Stretch a lease to the time asked for, at most to the policy's maximum."""
    node, body = call.node_id(), await call.body(wire.ExtendRequest)
    asked = body.value
    if not asked.ms > 0:
        raise Invalid("ms: must be a positive number of milliseconds", field="ms")
    request = Request(
        call.principal,
        Verb.EXTEND,
        Resource(node),
        session=_label(asked.session, "session"),
        if_epoch=asked.if_epoch,
        reclaim=asked.reclaim,
        extend_us=max(1, int(min(asked.ms, EXTEND_MS_MAX) * MICROS_PER_MS)),
    )
    return await _single(call, request, body)


async def release(call: Call) -> Response:
    """Give a node back."""
    node, body = call.node_id(), await call.body(wire.ReleaseRequest)
    asked = body.value
    request = Request(
        call.principal,
        Verb.RELEASE,
        Resource(node),
        session=_label(asked.session, "session"),
        if_epoch=asked.if_epoch,
        reason=_reason(asked.reason),
    )
    outcome = await call.services.leases.one(call.caller(), request)
    released = wire.ReleaseReply(node, outcome.granted.edge, warnings=list(body.notices) or UNSET)
    return reply(released)


async def claim_many(call: Call) -> Response:
    """Claim a working set; each node is claimed or refused on its own."""
    body = await call.body(wire.BulkClaimRequest)
    if not body.value.ids:
        raise Invalid("ids: name at least one node to claim", field="ids")
    ids = [parse_node_id(item, field=f"ids[{i}]") for i, item in enumerate(body.value.ids)]
    bulk = await call.services.leases.claim_many(call.caller(), ids, session=_label(body.value.session, "session"))
    done, failed = _sorted_out(bulk)
    return reply(
        wire.BulkClaimReply(
            ok=True,
            status="refused" if not done else "partial" if failed else "claimed",
            count=len(done),
            claimed=[one.granted.lease.resource for one in done],
            leases=[wire.lease_body_of(one.granted.lease, one.now) for one in done],
            failed=failed,
            expires_in_ms=_soonest(done),
        ),
        ignored=body.ignored,
    )


async def renew_many(call: Call) -> Response:
    """Renew exactly these leases, or all that the caller holds."""
    body = await call.body(wire.BulkRenewRequest)
    asked, caller = body.value, call.caller()
    session = _label(asked.session, "session")
    explicit = asked.ids is not None or asked.leases is not None
    if explicit:
        tenures = _tenures(asked)
        bulk = await call.services.leases.renew_many(caller, tenures, session=session, reclaim=asked.reclaim)
    else:
        bulk = await call.services.leases.renew_held(caller, session=session)
    done, failed = _sorted_out(bulk)
    reclaimed: list[str] = [one.granted.lease.resource for one in done if one.granted.reclaimed]
    return reply(
        wire.BulkRenewReply(
            ok=True,
            status="partial" if done and failed else "refused" if failed else "renewed",
            count=len(done),
            renewed=[one.granted.lease.resource for one in done],
            leases=[wire.lease_body_of(one.granted.lease, one.now) for one in done],
            failed=failed,
            expires_in_ms=_soonest(done),
            reclaimed=reclaimed if explicit else None,
            skipped_other_session=None if explicit else bulk.skipped_other_session,
            skipped_reserved=None if explicit else bulk.skipped_reserved,
        ),
        ignored=body.ignored,
    )


async def release_many(call: Call) -> Response:
    """Give back all that the caller holds."""
    body = await call.body(wire.BulkReleaseRequest)
    bulk = await call.services.leases.release_held(
        call.caller(),
        session=_label(body.value.session, "session"),
        reservations=body.value.reservations,
    )
    released = [one.granted.lease.resource for one in _sorted_out(bulk)[0] if one.granted.happened is not None]
    return reply(wire.BulkReleaseReply(list(released), len(released)), ignored=body.ignored)


async def listed(call: Call) -> Response:
    """List leases, in order of their nodes."""
    asked = call.query
    state = asked.get("state")
    if state is not None and state not in STATES:
        raise Invalid(f"state: {state[:40]} is none of {', '.join(STATES)}", field="state")
    holder = asked.get("holder")
    page = await call.services.leases.listed(
        holder=call.principal.id if holder == "me" else HolderId(holder) if holder is not None else None,
        project=parse_slug(asked["project"], name="project") if "project" in asked else None,
        state=state,
        after=asked.get("after", ""),
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    rows = []
    for row in page.leases:
        seen = view(row.lease, page.now)
        assert seen is not None, row
        left = seen.expires_at - page.now
        rows.append(
            wire.LeaseListed(
                wire.lease_body(seen),
                state="lapsed" if left <= 0 else "reserved" if row.lease.kind is Kind.RESERVATION else "live",
                expires_in_ms=max(0, left // MICROS_PER_MS),
                project=row.project,
                title=row.title,
            )
        )
    return reply(wire.LeasesReply(rows, len(rows), page.next))


# --- shared ----------------------------------------------------------------------------------------------------------


async def _hold(call: Call, verb: Verb) -> Response:
    node, body = call.node_id(), await call.body(wire.RenewRequest)
    asked = body.value
    request = Request(
        call.principal,
        verb,
        Resource(node),
        session=_label(asked.session, "session"),
        if_epoch=asked.if_epoch,
        reclaim=asked.reclaim,
    )
    return await _single(call, request, body)


async def _single(call: Call, request: Request, body: Body[S]) -> Response:
    outcome = await call.services.leases.one(call.caller(), request)
    return reply(lease_reply(outcome, warnings=body.notices))


def lease_reply(done: Done, *, warnings: Sequence[str] = ()) -> wire.LeaseReply:
    """Return the reply of a single claim, renew, extend or reserve."""
    granted = done.granted
    reserve = granted.verb is Verb.RESERVE
    return wire.LeaseReply(
        ok=True,
        status=granted.verb,
        lease=wire.lease_body_of(granted.lease, done.now),
        expires_in_ms=expires_in_ms(done),
        edge=granted.edge if granted.verb is Verb.CLAIM or granted.acquired else None,
        reclaimed=granted.reclaimed,
        capped_to_max=granted.capped,
        claim_ttl_max_ms=done.policy.ttl_max // MICROS_PER_MS if granted.capped else None,
        grace_window_ms=done.policy.grace // MICROS_PER_MS if reserve else None,
        took_over_from=granted.displaced,
        warnings=list(warnings),
    )


def expires_in_ms(done: Done) -> int:
    """Return the renewal horizon from when the call ran; never zero on a grant."""
    expires_at = done.granted.lease.expires_at
    assert expires_at is not None, done
    assert expires_at > done.now, done
    return max(1, (expires_at - done.now) // MICROS_PER_MS)


def _soonest(done: list[Done]) -> int | None:
    return min((expires_in_ms(one) for one in done), default=None)


def _sorted_out(bulk: Bulk) -> tuple[list[Done], list[wire.Failed]]:
    done, failed = [], []
    for resource, outcome in bulk.outcomes:
        if isinstance(outcome, BatonError):
            failed.append(_failed(resource, outcome))
        else:
            done.append(outcome)
    return done, failed


def _failed(resource: Resource, error: BatonError) -> wire.Failed:
    body = error_body(error)
    holder = body.holder if isinstance(error, Conflict) else None
    return wire.Failed(resource, body.error.code, body.error.message, holder=holder)


def _tenures(asked: wire.BulkRenewRequest) -> list[tuple[NodeId, int | None]]:
    if asked.ids is not None and asked.leases is not None:
        raise Invalid("leases: give ids or leases, not both", field="leases")
    if asked.ids is not None:
        return [(parse_node_id(item, field=f"ids[{i}]"), None) for i, item in enumerate(asked.ids)]
    return [
        (parse_node_id(item.node_id, field=f"leases[{i}].node_id"), item.epoch)
        for i, item in enumerate(asked.leases or ())
    ]


def _label(value: str | None, field: str) -> str | None:
    return None if value is None else parse_label(value, field=field)


def _reason(value: str | None) -> str | None:
    if value is not None and len(value) > REASON_CHARS_MAX:
        raise Invalid(f"reason: {len(value)} code points; the limit is {REASON_CHARS_MAX} code points", field="reason")
    return value


def whole_number(text: str | None, field: str, *, default: int, least: int = 1) -> int:
    """Return a query parameter as a whole number of at least `least`."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > NUMBER_DIGITS_MAX or int(text) < least:
        raise Invalid(f"{field}: must be a whole number of at least {least}", field=field)
    return int(text)
