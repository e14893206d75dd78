"""Bodies and replies about who is who: the caller, people, agents (companion 6, D39, D40)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from batonpass.core.clock import iso
from batonpass.core.edges import ORG_ROOT
from batonpass.core.identity import Agent, Person, Principal
from batonpass.core.ids import Fence
from batonpass.core.records import identity_of
from batonpass.wire.schemas import AnyId, AnyIdOrNone, Email, Name, PublicKey


class Tenure(msgspec.Struct):
    """The tenure a run's token was minted for: a node id or ``record:<class>/<id>#<field>``, and its epoch."""

    resource: str
    epoch: int


class MeReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/me`. `bound` says whether a person stands behind the token: others own no agents.

    `identity` is who the caller is to the roles of a class: ``agent:<id>``,
    ``person:<id>``, ``apikey:<name>`` or ``sa:<namespace>/<name>`` (D35).
    """

    person: str | None
    name: str
    email: str
    bound: bool
    is_admin: bool
    org: str
    scope: str
    agent: str | None = None
    session: str | None = None
    run: Tenure | None = None
    identity: str = ""


class PersonRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/admin/people`."""

    name: Name
    email: Email
    id: AnyIdOrNone = None
    admin: bool = False


class PersonBody(msgspec.Struct):
    """A person in a list."""

    id: str
    name: str
    email: str
    is_admin: bool
    created_at: str


class PersonReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/admin/people`. `revision` is that of the person's node."""

    http_status: ClassVar[int] = 201

    id: str
    name: str
    email: str
    is_admin: bool
    status: str
    revision: str
    warnings: list[str] = []


class PeopleReply(msgspec.Struct):
    """Reply of `GET /v1/admin/people`; `next` is the `after` of the next page, null at the end."""

    people: list[PersonBody]
    next: str | None


class AgentRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/agents`."""

    label: Name
    id: AnyIdOrNone = None
    pubkey: PublicKey | None = None


class AdminAgentRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/admin/agents`: the same for another owner."""

    label: Name
    owner: AnyId
    id: AnyIdOrNone = None
    pubkey: PublicKey | None = None


class AgentBody(msgspec.Struct):
    """An agent in a list."""

    id: str
    owner: str
    label: str
    spiffe: str
    pubkey: str | None
    created_at: str


class AgentReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/agents`. `revision` is that of the agent's node."""

    http_status: ClassVar[int] = 201

    id: str
    owner: str
    label: str
    spiffe: str
    pubkey: str | None
    status: str
    revision: str
    warnings: list[str] = []


class AgentsReply(msgspec.Struct):
    """Reply of `GET /v1/agents`; `next` is the `after` of the next page, null at the end."""

    agents: list[AgentBody]
    next: str | None


def me_reply(principal: Principal) -> MeReply:
    """Return who `principal` is, as its token says."""
    return MeReply(
        person=principal.person,
        name=principal.person_name or principal.name,
        email=principal.email,
        bound=principal.person is not None,
        is_admin=principal.is_admin,
        org=ORG_ROOT,
        scope="read" if principal.read_only else "write",
        agent=principal.id if principal.is_agent else None,
        session=principal.session,
        run=tenure(principal.run),
        identity=identity_of(principal.id),
    )


def tenure(run: Fence | None) -> Tenure | None:
    """Return a run token's tenure as it goes over the wire."""
    return Tenure(run.resource, run.epoch) if run is not None else None


def person_body(person: Person) -> PersonBody:
    """Return `person` as it goes over the wire."""
    return PersonBody(person.id, person.name, person.email, person.is_admin, iso(person.created_at))


def agent_body(agent: Agent) -> AgentBody:
    """Return `agent` as it goes over the wire."""
    return AgentBody(agent.id, agent.owner, agent.label, agent.spiffe, agent.pubkey, iso(agent.created_at))
