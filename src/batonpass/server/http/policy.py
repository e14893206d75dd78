"""GET and PUT /v1/policy/{project} (D39)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from batonpass.core.nodes import parse_slug
from batonpass.core.policy import EVERY_PROJECT
from batonpass.server.http.call import Call, changed, reply
from batonpass.wire.policy import PolicyRequest, policy_reply


async def get(call: Call) -> Response:
    """Read the policy in force for a project."""
    project = _project(call)
    return reply(policy_reply(project, await call.services.policies.get(project)))


async def put(call: Call) -> Response:
    """Change the policy of a project where the body says something; for admins."""
    project, body = _project(call), await call.body(PolicyRequest)
    given = {name: value for name, value in msgspec.structs.asdict(body.value).items() if value is not UNSET}
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.policies.put(caller, project, given))


def _project(call: Call) -> str:
    text: str = call.request.path_params["project"]
    return text if text == EVERY_PROJECT else parse_slug(text, name="project")
