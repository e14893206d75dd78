"""GET /v1/status: what is running here, for people and for load balancers."""

from __future__ import annotations

from starlette.responses import Response

from batonpass import __version__
from batonpass.core.clock import iso
from batonpass.server.http.call import Call, reply
from batonpass.wire.status import StatusReply


async def status(call: Call) -> Response:
    """Say what is running here, for people and for load balancers."""
    facts = await call.services.status()
    return reply(
        StatusReply(
            ok=True,
            version=__version__,
            schema=facts.schema,
            node_count=facts.node_count,
            time=iso(facts.now),
            database=facts.dialect,
            incarnation=facts.incarnation,
        )
    )
