"""Deleting a node (D41)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.core.history import parse_reason
from batonpass.server.http.call import Call, changed
from batonpass.wire.tombstones import DeleteRequest


async def delete(call: Call) -> Response:
    """Delete a node: its edges and lease go, its history stays, and its id is never used again."""
    node = call.node_id()
    body = await call.body(DeleteRequest)
    reason = parse_reason(body.value.reason)
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.tombstones.delete(caller, node, reason=reason, force=body.value.force))
