"""The calls about tokens; `client.calls` says what a call is.

A repeated mint ends the token whose answer was lost, and makes a new one (D11).
"""

from __future__ import annotations

from typing import Literal

from batonpass.client.calls import Call, change, query_of
from batonpass.core.ids import AgentId, Fence, PersonId
from batonpass.wire import paths, tokens


def mint_session_token(
    agent: AgentId, *, session: str | None = None, expires: tokens.Expires = None
) -> Call[tokens.SessionTokenReply]:
    """Mint a token for one session of an agent, to be bound later when `session` is not known yet."""
    request = tokens.AgentTokenRequest(session=session, expires=expires)
    return change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.SessionTokenReply)


def mint_run_token(
    agent: AgentId, tenure: Fence, *, session: str | None = None, replace: bool = False
) -> Call[tokens.SessionTokenReply]:
    """Mint the one token of a tenure: it dies with it (D2a). `replace` ends the one there may be."""
    lease = tokens.NamedLease(epoch=tenure.epoch, **_named(tenure))
    request = tokens.AgentTokenRequest(session=session, lease=lease, replace=replace)
    return change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.SessionTokenReply)


def mint_standing_token(
    agent: AgentId, *, label: str | None = None, expires: tokens.Expires = None
) -> Call[tokens.StandingTokenReply]:
    """Mint a token for a service that runs as an agent."""
    request = tokens.AgentTokenRequest(standing=True, label=label, expires=expires)
    return change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.StandingTokenReply)


def agent_tokens(agent: AgentId, *, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List an agent's tokens."""
    path = paths.fill(paths.AGENT_TOKENS, id=agent)
    return Call("GET", path, tokens.TokensReply, query_of(limit=limit, after=after))


def revoke_agent_token(agent: AgentId, prefix: str) -> Call[tokens.RevokeReply]:
    """End the agent's token whose hash begins with `prefix`."""
    return Call("DELETE", paths.fill(paths.AGENT_TOKEN_OF, id=agent, prefix=prefix), tokens.RevokeReply)


def mint_token(
    *,
    label: str | None = None,
    expires: tokens.Expires = None,
    read_only: bool = False,
    person: PersonId | None = None,
) -> Call[tokens.PersonalTokenReply]:
    """Mint a personal token for oneself, or as an admin for `person`."""
    scope: Literal["read", "write"] = "read" if read_only else "write"
    if person is None:
        mine = tokens.PersonalTokenRequest(label=label, expires=expires, scope=scope)
        return change("POST", paths.MY_TOKENS, mine, tokens.PersonalTokenReply)
    theirs = tokens.AdminTokenRequest(label=label, expires=expires, scope=scope, person=person)
    return change("POST", paths.ADMIN_TOKENS, theirs, tokens.PersonalTokenReply)


def my_tokens(*, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List one's own tokens."""
    return Call("GET", paths.MY_TOKENS, tokens.TokensReply, query_of(limit=limit, after=after))


def tokens_of(person: PersonId, *, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List somebody's tokens; admins only."""
    query = query_of(person=person, limit=limit, after=after)
    return Call("GET", paths.ADMIN_TOKENS, tokens.TokensReply, query)


def revoke_token(prefix: str, *, as_admin: bool = False) -> Call[tokens.RevokeReply]:
    """End one's own token whose hash begins with `prefix`, or as an admin anybody's."""
    template = paths.ADMIN_TOKEN if as_admin else paths.MY_TOKEN
    return Call("DELETE", paths.fill(template, prefix=prefix), tokens.RevokeReply)


def _named(tenure: Fence) -> dict[str, str]:
    """Return a tenure's resource as a mint names it: a node, or a record and its field."""
    kind, _, rest = tenure.resource.partition(":")
    if kind != "record" or not rest:
        return {"node": tenure.resource}
    record, _, field = rest.partition("#")
    return {"record": record, "field": field}
