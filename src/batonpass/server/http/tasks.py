"""The route of a record's task: exact bodies in, exact bodies out (task-fields specification)."""

from __future__ import annotations

from msgspec import UNSET
from starlette.responses import Response

from batonpass.core.clock import iso
from batonpass.core.errors import Invalid
from batonpass.core.ids import json_type
from batonpass.core.premises import parse_premises
from batonpass.core.records import (
    LEASE_S_MAX,
    RecordPath,
    identity_of,
    parse_class_name,
    parse_field_name,
    parse_record_id,
)
from batonpass.server.http.call import Call, reply
from batonpass.server.http.leases import expires_in_ms
from batonpass.server.services.engine import Done
from batonpass.server.services.tasks import Wish
from batonpass.wire import records as wire


async def claim(call: Call) -> Response:
    """Claim a record's task, renew it, or release it."""
    named = call.request.path_params
    record = RecordPath(parse_class_name(named["record_class"]), parse_record_id(named["id"]))
    field = parse_field_name(named["field"])
    body = await call.body(wire.TaskRequest)
    wish = Wish(
        record,
        field,
        lease_s=_lease_s(body.value.lease_seconds),
        renew=_renew(body.value.renew),
        premises=parse_premises(body.value.based_on),
    )
    answer = await call.services.tasks.carry_out(call.caller(), wish)
    return reply(task_reply(wish, answer), ignored=body.ignored)


def task_reply(wish: Wish, answer: Done) -> wire.TaskReply:
    """Return the reply to a wish that was granted."""
    granted = answer.granted
    lease = granted.lease
    held = lease.holder is not None and lease.expires_at is not None
    return wire.TaskReply(
        record=str(wish.record),
        field=wish.field,
        version=lease.version,
        record_version=answer.record_version,
        epoch=lease.epoch,
        owner=identity_of(lease.holder) if lease.holder is not None else None,
        lease_expires_at=iso(lease.expires_at) if lease.expires_at is not None else None,
        expires_in_ms=expires_in_ms(answer) if held else None,
        took_over_from=identity_of(granted.displaced) if granted.displaced is not None else None,
        reclaimed=granted.reclaimed and not granted.acquired,
    )


def _lease_s(value: object) -> int | None:
    """Return how long is asked for in seconds, None when nothing is said of it (D34)."""
    if value is UNSET:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(
            f"lease_seconds: must be a whole number of seconds, not {json_type(value)}; left out, it is the class's",
            field="lease_seconds",
        )
    if not 0 <= value <= LEASE_S_MAX:
        raise Invalid(f"lease_seconds: must be from 0, which releases, to {LEASE_S_MAX} seconds", field="lease_seconds")
    return value


def _renew(value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"renew: must be true or false, not {json_type(value)}", field="renew")
    return value
