"""GET and POST /v1/corrections (companion 5.1)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from batonpass.core.corrections import parse_target
from batonpass.core.errors import Invalid
from batonpass.core.ids import parse_node_id
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.leases import whole_number
from batonpass.store.corrections import START, Place
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
    """List the corrections that stand, by what they are about; those of one target, or all."""
    asked = call.query
    page = await call.services.corrections.standing(
        parse_target(asked["target"]) if "target" in asked else None,
        after=_place(asked.get("after")),
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    return reply(wire.corrections_reply(page.nodes, "|".join(page.next) if page.next is not None else None))


def _place(text: str | None) -> Place:
    """Return where a page goes on: the `next` of the page before, given back as it was."""
    if text is None:
        return START
    target, separator, node = text.rpartition("|")
    if not separator:
        raise Invalid("after: is not the next of a page of corrections", field="after")
    return (target, parse_node_id(node, field="after"))
