"""The look-up of a commit (companion 1.8)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from batonpass.core.nodes import parse_sha
from batonpass.server.http.call import Call, reply
from batonpass.server.http.leases import whole_number
from batonpass.wire import commits as wire

LIMIT_DEFAULT: Final = 100


async def carriers(call: Call) -> Response:
    """List the nodes that carry a commit, given by 7 to 40 of its digits, in order of their ids."""
    sha = parse_sha(call.request.path_params["sha"])
    page = await call.services.commits.nodes_with(
        sha,
        repo=call.query.get("repo"),
        after=call.query.get("after", ""),
        limit=whole_number(call.query.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    nodes = [
        wire.CarrierBody(node.id, node.type, node.title, node.status, node.project, list(node.commits))
        for node in page.nodes
    ]
    return reply(wire.CommitReply(sha, nodes, len(nodes), page.next))
