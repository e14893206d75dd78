"""GET and POST /v1/corrections (companion 5.1)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from batonpass.core.corrections import parse_target
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.leases import whole_number
from batonpass.wire import corrections as wire
from batonpass.wire.nodes import fences

LIMIT_DEFAULT: Final = 100


async def file(call: Call) -> Response:
    """Correct what is said of a node, of a project, or everywhere; it stands until its status is applied."""
    body = await call.body(wire.CorrectionRequest)
    value = body.value
    stands_on = fences(None, if_epoch=None, based_on=value.based_on)
    caller = call.caller(body.raw, warnings=body.notices).standing_on(*stands_on)
    target = parse_target(value.target)
    return changed(await call.services.corrections.file(caller, target, value.text, title=value.title))


async def listed(call: Call) -> Response:
    """List the corrections that stand, of one target or all, in order of id."""
    asked = call.query
    page = await call.services.corrections.standing(
        parse_target(asked["target"]) if "target" in asked else None,
        after=asked.get("after", ""),
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    return reply(wire.corrections_reply(page.nodes, page.next))
