"""GET /v1/inbox (companion 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from batonpass.core.clock import MICROS_PER_S, iso
from batonpass.core.ids import Instant
from batonpass.core.inbox import Box
from batonpass.server.http.call import Call, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.services.inbox import LIMIT_DEFAULT, Inbox
from batonpass.store.inbox import Waiting
from batonpass.wire import inbox as wire

_DAY = 86_400 * MICROS_PER_S


async def show(call: Call) -> Response:
    """List what waits for the caller's person: questions, findings and captures, reviews, and what they have asked."""
    limit = whole_number(call.query.get("limit"), "limit", default=LIMIT_DEFAULT)
    found = await call.services.inboxes.of(call.principal, limit=limit)
    return reply(
        wire.InboxReply(
            **lists(found),
            truncated=[box.value for box in found.truncated],
            generated_at=iso(found.now),
        )
    )


def lists(found: Inbox) -> dict[str, list[wire.WaitingBody]]:
    """Return the five lists by their names on the wire."""
    return {box.value: _bodies(found.boxes[box], found.now) for box in Box}


def _bodies(waiting: Sequence[Waiting], now: Instant) -> list[wire.WaitingBody]:
    return [
        wire.WaitingBody(
            id=each.id,
            title=each.title,
            project=each.project,
            by=each.by,
            at=iso(each.at),
            age_days=max(0, (now - each.at) // _DAY),
            routed_to=each.routed_to,
        )
        for each in waiting
    ]
