"""API keys, for admins: make, list and end them (D1, D35)."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from batonpass.core.keys import parse_key_name
from batonpass.core.tokens import Scope, parse_hash_prefix
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.identity import limit
from batonpass.server.services.keys import KeyWish
from batonpass.wire import keys as wire


async def mint(call: Call) -> Response:
    """Make the API key of a name, or with `replace` another one in its place; for admins."""
    body = await call.body(wire.KeyRequest)
    asked = body.value
    wish = KeyWish(parse_key_name(asked.name), asked.expires, Scope(asked.scope), replace=asked.replace)
    made = await call.services.keys.mint(call.caller(body.raw), wish)
    response = reply(msgspec.structs.replace(made, warnings=list(body.notices)), status=made.http_status)
    response.headers["Cache-Control"] = "no-store"
    return response


async def listed(call: Call) -> Response:
    """List the API keys that open something, without their secrets; for admins."""
    asked = call.query
    name = parse_key_name(asked["name"]) if "name" in asked else None
    page = await call.services.keys.listed(call.principal, name, after=asked.get("after", ""), limit=limit(asked))
    return reply(wire.KeysReply([wire.key_body(key) for key in page.keys], page.next))


async def revoke(call: Call) -> Response:
    """End an API key; for admins."""
    prefix = parse_hash_prefix(call.request.path_params["prefix"])
    return changed(await call.services.keys.revoke(call.caller(), prefix))
