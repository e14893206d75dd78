"""The calls about people and agents; `client.calls` says what a call is."""

from __future__ import annotations

from batonpass.client.calls import Call, Repeat, change, post, query_of
from batonpass.core.ids import AgentId, PersonId
from batonpass.wire import identity, paths, tokens


def me() -> Call[identity.MeReply]:
    """Ask whose token this is."""
    return Call("GET", paths.ME, identity.MeReply)


def add_person(*, name: str, email: str, id_: str | None = None, admin: bool = False) -> Call[identity.PersonReply]:
    """Add a person; admins only."""
    request = identity.PersonRequest(name=name, email=email, id=id_, admin=admin)
    return change("POST", paths.ADMIN_PEOPLE, request, identity.PersonReply)


def people(*, limit: int | None = None, after: str | None = None) -> Call[identity.PeopleReply]:
    """List people; admins only."""
    return Call("GET", paths.ADMIN_PEOPLE, identity.PeopleReply, query_of(limit=limit, after=after))


def add_agent(
    *, label: str, id_: AgentId | None = None, pubkey: str | None = None, owner: PersonId | None = None
) -> Call[identity.AgentReply]:
    """Add an agent of one's own, or as an admin of `owner`."""
    if owner is None:
        mine = identity.AgentRequest(label=label, id=id_, pubkey=pubkey)
        return change("POST", paths.AGENTS, mine, identity.AgentReply)
    theirs = identity.AdminAgentRequest(label=label, id=id_, pubkey=pubkey, owner=owner)
    return change("POST", paths.ADMIN_AGENTS, theirs, identity.AgentReply)


def agents(
    *, everybodys: bool = False, limit: int | None = None, after: str | None = None
) -> Call[identity.AgentsReply]:
    """List one's own agents, or as an admin everybody's."""
    return Call("GET", paths.AGENTS, identity.AgentsReply, query_of(all=everybodys, limit=limit, after=after))


def bind_session(session: str) -> Call[tokens.SessionReply]:
    """Bind the agent token in use to `session`, once and for all; the same again changes nothing."""
    return post(paths.AGENT_SESSION, tokens.SessionRequest(session=session), tokens.SessionReply, Repeat.SAFE)
