"""Reading many nodes by their ids (companion 1.7)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.server.http.call import Call, reply
from batonpass.wire.batch import BatchRequest, asked


async def page(call: Call) -> Response:
    """Read up to 100 nodes as each is read alone, in pages of at most 48 KiB; a node is never split."""
    body = await call.body(BatchRequest)
    return reply(await call.services.batches.page(asked(body.value)), ignored=body.ignored)
