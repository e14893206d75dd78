"""GET /v1/nodes/{id}/why (D41)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.core.queue import Accept
from batonpass.server.http.call import Call, reply
from batonpass.wire import why as wire
from batonpass.wire.queue import item_body


async def get(call: Call) -> Response:
    """Say why an item is or isn't taken: every reason, and what would change it."""
    node = call.node_id()
    found = await call.services.queue.why(call.principal, node)
    return reply(
        wire.WhyReply(
            node,
            wire.TakesBody(ready=found.takes[Accept.READY], open=found.takes[Accept.OPEN]),
            [wire.ReasonBody(reason.code, reason.says, reason.way_out) for reason in found.reasons],
            item_body(found.item) if found.item is not None else None,
        )
    )
