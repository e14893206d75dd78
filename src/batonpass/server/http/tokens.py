"""Tokens: those of the caller, of anybody for an admin, and of agents (companion 6.2, D2a, D39)."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from batonpass.core.identity import parse_name, parse_person_id
from batonpass.core.ids import parse_label
from batonpass.core.tokens import Scope, parse_hash_prefix
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.identity import agent_in_path, limit
from batonpass.server.services.tokens import AgentWish, TokenPage, Wish
from batonpass.wire import tokens as wire

Minted = wire.PersonalTokenReply | wire.AgentTokenReply


async def list_own(call: Call) -> Response:
    """List one's own personal tokens."""
    asked = call.query
    page = await call.services.tokens.list_own(call.principal, after=asked.get("after", ""), limit=limit(asked))
    return _listed(page)


async def mint_own(call: Call) -> Response:
    """Mint a personal token for oneself."""
    body = await call.body(wire.PersonalTokenRequest)
    made = await call.services.tokens.mint_own(call.caller(body.raw), _wish(body.value))
    return _minted(made, body.notices)


async def revoke_own(call: Call) -> Response:
    """End one of one's own personal tokens."""
    return changed(await call.services.tokens.revoke_own(call.caller(), _prefix(call)))


async def list_personal(call: Call) -> Response:
    """List everybody's personal tokens, or one person's; for admins."""
    asked = call.query
    person = parse_person_id(asked["person"], field="person") if "person" in asked else None
    page = await call.services.tokens.list_personal(
        call.principal, person, after=asked.get("after", ""), limit=limit(asked)
    )
    return _listed(page)


async def mint_for(call: Call) -> Response:
    """Mint a personal token for somebody; for admins."""
    body = await call.body(wire.AdminTokenRequest)
    person = parse_person_id(body.value.person, field="person")
    made = await call.services.tokens.mint_for(call.caller(body.raw), person, _wish(body.value))
    return _minted(made, body.notices)


async def revoke_personal(call: Call) -> Response:
    """End anybody's personal token; for admins."""
    return changed(await call.services.tokens.revoke_personal(call.caller(), _prefix(call)))


async def list_agents(call: Call) -> Response:
    """List the tokens of an agent."""
    agent, asked = agent_in_path(call), call.query
    page = await call.services.tokens.list_agents(
        call.principal, agent, after=asked.get("after", ""), limit=limit(asked)
    )
    return _listed(page)


async def mint_agents(call: Call) -> Response:
    """Mint a token for an agent: for a session, for the run of a tenure, or a standing one."""
    agent, body = agent_in_path(call), await call.body(wire.AgentTokenRequest)
    asked = body.value
    wish = AgentWish(
        expires=asked.expires,
        label=_label(asked.label),
        scope=Scope(asked.scope),
        session=parse_label(asked.session, field="session") if asked.session is not None else None,
        standing=asked.standing,
        lease=wire.fence_of(asked.lease) if asked.lease is not None else None,
        replace=asked.replace,
    )
    made = await call.services.tokens.mint_agents(call.caller(body.raw), agent, wish)
    return _minted(made, body.notices)


async def revoke_agents(call: Call) -> Response:
    """End one of an agent's tokens."""
    agent = agent_in_path(call)
    return changed(await call.services.tokens.revoke_agents(call.caller(), agent, _prefix(call)))


async def bind_session(call: Call) -> Response:
    """Bind the agent token in use to its session, once and for all."""
    body = await call.body(wire.SessionRequest)
    session = parse_label(body.value.session, field="session")
    bound = await call.services.tokens.bind_session(call.caller(), session)
    return reply(bound, ignored=body.ignored)


def _wish(asked: wire.PersonalTokenRequest | wire.AdminTokenRequest) -> Wish:
    return Wish(expires=asked.expires, label=_label(asked.label), scope=Scope(asked.scope))


def _label(text: str | None) -> str | None:
    return parse_name(text, field="label") if text is not None else None


def _prefix(call: Call) -> str:
    return parse_hash_prefix(call.request.path_params["prefix"])


def _minted(made: Minted, warnings: tuple[str, ...]) -> Response:
    """Return the reply of a mint, marked so that nothing on its way keeps it: the secret is shown only here."""
    response = reply(msgspec.structs.replace(made, warnings=list(warnings)), status=made.http_status)
    response.headers["Cache-Control"] = "no-store"
    return response


def _listed(page: TokenPage) -> Response:
    bodies = [wire.token_body(listed.token, ended=listed.ended) for listed in page.tokens]
    return reply(wire.TokensReply(bodies, page.next))
