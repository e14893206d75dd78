"""GET and PUT /v1/classes (D38)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.core.records import ClassName, parse_class_name
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.identity import limit
from batonpass.server.http.leases import whole_number
from batonpass.wire.classes import ClassRequest, checked_class


async def put(call: Call) -> Response:
    """Apply a version of a class of records; for admins."""
    name, body = _name(call), await call.body(ClassRequest)
    caller = call.caller(body.raw, warnings=body.notices)
    wanted = checked_class(body.value.document(), name=name)
    return changed(await call.services.classes.apply(caller, wanted))


async def listed(call: Call) -> Response:
    """List the classes of records, by name."""
    asked = call.query
    return reply(await call.services.classes.page(after=asked.get("after", ""), limit=limit(asked)))


async def get(call: Call) -> Response:
    """Read a class as it was applied: the version in force, or an earlier one."""
    version = call.query.get("version")
    number = None if version is None else whole_number(version, "version", default=1)
    return reply(await call.services.classes.get(_name(call), version=number))


def _name(call: Call) -> ClassName:
    return parse_class_name(call.request.path_params["name"], field="name")
