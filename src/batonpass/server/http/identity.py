"""The caller, people and agents (companion 6, D39)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from batonpass.core.identity import parse_agent_id, parse_email, parse_name, parse_person_id, parse_pubkey
from batonpass.core.ids import AgentId
from batonpass.server.http.call import Call, changed, flag, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.services.identity import NewAgent, NewPerson
from batonpass.wire import identity as wire

LIMIT_DEFAULT: Final = 100


async def me(call: Call) -> Response:
    """Say whose token this is."""
    return reply(wire.me_reply(call.principal))


async def list_people(call: Call) -> Response:
    """List people; for admins."""
    asked = call.query
    page = await call.services.identity.list_people(call.principal, after=asked.get("after", ""), limit=limit(asked))
    return reply(wire.PeopleReply([wire.person_body(person) for person in page.items], page.next))


async def create_person(call: Call) -> Response:
    """Add a person; for admins."""
    body = await call.body(wire.PersonRequest)
    asked = body.value
    new = NewPerson(
        name=parse_name(asked.name, field="name"),
        email=parse_email(asked.email),
        id=parse_person_id(asked.id) if asked.id is not None else None,
        is_admin=asked.admin,
    )
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.identity.create_person(caller, new))


async def list_agents(call: Call) -> Response:
    """List one's own agents, or as an admin everybody's."""
    asked = call.query
    page = await call.services.identity.list_agents(
        call.principal, everybody=flag(asked, "all"), after=asked.get("after", ""), limit=limit(asked)
    )
    return reply(wire.AgentsReply([wire.agent_body(agent) for agent in page.items], page.next))


async def create_agent(call: Call) -> Response:
    """Add an agent of one's own."""
    body = await call.body(wire.AgentRequest)
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.identity.create_agent(caller, _new_agent(body.value)))


async def create_agent_for(call: Call) -> Response:
    """Add an agent of somebody else's; for admins."""
    body = await call.body(wire.AdminAgentRequest)
    owner = parse_person_id(body.value.owner, field="owner")
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.identity.create_agent_for(caller, owner, _new_agent(body.value)))


def _new_agent(asked: wire.AgentRequest | wire.AdminAgentRequest) -> NewAgent:
    return NewAgent(
        label=parse_name(asked.label, field="label"),
        id=parse_agent_id(asked.id) if asked.id is not None else None,
        pubkey=parse_pubkey(asked.pubkey) if asked.pubkey is not None else None,
    )


def agent_in_path(call: Call) -> AgentId:
    """Return the agent's id in the path; a label or another node's id is refused by name."""
    text: Any = call.request.path_params["id"]
    return parse_agent_id(text)


def limit(asked: Mapping[str, str]) -> int:
    """Return how many entries a page is to have at most."""
    return whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT)
