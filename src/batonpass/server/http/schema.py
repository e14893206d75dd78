"""The vocabulary of the graph (companion 1.8, D10a)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.server.http.call import Call, reply
from batonpass.wire.schema import schema


async def get(call: Call) -> Response:
    """Say what may be written: node types, statuses, edge types, keys, limits, and every other vocabulary."""
    del call  # it is the same for everybody
    return reply(schema())
