"""POST /v1/capture (D16a)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.core.ids import parse_node_id
from batonpass.core.nodes import parse_slug
from batonpass.server.http.call import Call, changed
from batonpass.server.http.questions import ids
from batonpass.server.services.capture import Wish
from batonpass.wire import capture as wire
from batonpass.wire.nodes import fences


async def keep(call: Call) -> Response:
    """Keep a text, whatever it is, as a node that waits to be sorted."""
    body = await call.body(wire.CaptureRequest)
    value = body.value
    wish = Wish(
        text=value.text,
        title=value.title,
        project=parse_slug(value.project, name="project") if value.project is not None else None,
        during=parse_node_id(value.during, field="during") if value.during is not None else None,
        blocks=ids(value.blocks, "blocks"),
        date=value.date,
    )
    stands_on = fences(None, if_epoch=None, based_on=value.based_on)
    caller = call.caller(body.raw, warnings=body.notices).standing_on(*stands_on)
    return changed(await call.services.captures.keep(caller, wish))
