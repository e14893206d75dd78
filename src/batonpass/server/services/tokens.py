"""Minting, listing and ending tokens: a secret leaves once, in the reply to its mint (companion 6, D2a, D11, D39).

                         personal            session, standing         run
    mint                 the person, admins  the agent's owner, admins  also the agent itself, if it holds the lease
    list, revoke         the person, admins  the agent's owner, admins  also the agent itself
    under a run token    never               never                      never

A run token is minted and ended with its lease's row locked for update: a mint
sees the tenure as it is, and a revocation is answered only when every write in
flight under the token is over.

With an Idempotency-Key the *hash* of what was minted is kept, so that a
repetition can end that token, whose secret may be lost, and mint anew.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeVar

import msgspec

from batonpass.core.clock import iso
from batonpass.core.errors import Conflict, Forbidden, NotFound
from batonpass.core.identity import Agent, Person, Principal
from batonpass.core.ids import AgentId, Fence, Instant, PersonId, Resource, TokenHash
from batonpass.core.leases import Refused
from batonpass.core.records import is_of_record
from batonpass.core.tokens import (
    SECRET_BYTES,
    Kind,
    RunMint,
    Scope,
    Secret,
    Token,
    bind_refusal,
    decide_run_mint,
    expiry_of,
    hash_of,
    kind_asked,
    may_manage,
    may_manage_runs,
    require_minter,
    secret_of,
    without_run_token,
)
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.principals import Principals, require_admin, require_current
from batonpass.store import identity, leases, tokens
from batonpass.store.base import Reader, Store, Tx, retried
from batonpass.store.tokens import ListedToken
from batonpass.wire import tokens as wire
from batonpass.wire.identity import tenure

PAGE_MAX: Final = 500

Entropy = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a mint asks for beside whom it is for. `expires` is as it was sent: a duration, a date, or None."""

    expires: object = None
    label: str | None = None
    scope: Scope = Scope.WRITE


@dataclass(frozen=True, slots=True)
class AgentWish(Wish):
    """What the mint of an agent's token asks for; with `lease` it is the run token of that tenure."""

    session: str | None = None
    standing: bool = False
    lease: Fence | None = None
    replace: bool = False

    def kind(self) -> Kind:
        """Return the kind of token described; `Invalid` when the parts contradict each other."""
        return kind_asked(standing=self.standing, session=self.session, lease=self.lease, replace=self.replace)


@dataclass(frozen=True, slots=True)
class TokenPage:
    """Valid tokens in order of hash, and where the next page begins."""

    tokens: tuple[ListedToken, ...]
    next: TokenHash | None


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token's row, its secret, and whether its kind's longest life cut what was asked."""

    token: Token
    secret: Secret
    cut: bool


class Kept(msgspec.Struct):
    """What is stored for a repetition in place of the reply: which token was minted, and no secret."""

    http_status: ClassVar[int] = 201

    minted: str


class Tokens:
    """Every call of the API that makes or ends a token."""

    def __init__(self, store: Store, principals: Principals, *, entropy: Entropy = secrets.token_bytes) -> None:
        self._store = store
        self._principals = principals
        self._entropy = entropy

    # --- minting ------------------------------------------------------------------------------------------------

    async def mint_own(self, caller: Caller, wish: Wish) -> wire.PersonalTokenReply:
        """Mint a token for the person who asks."""
        return await self._mint_personal(caller, _own_person(caller.principal), wish, may=_own_person)

    async def mint_for(self, caller: Caller, person: PersonId, wish: Wish) -> wire.PersonalTokenReply:
        """Mint a token for `person`; an admin's."""
        require_admin(caller.principal)
        return await self._mint_personal(caller, person, wish, may=require_admin)

    @retried
    async def _mint_personal(
        self, caller: Caller, owner: PersonId, wish: Wish, *, may: Callable[[Principal], object]
    ) -> wire.PersonalTokenReply:
        async with change(self._store, caller, onto=frozenset()) as made:
            ends = minted_before(made)
            may(await require_current(made.tx, made.now, changing=ends))
            person = await require_person(made.tx, owner)
            minted = mint(Kind.PERSONAL, person, wish, now=made.now, entropy=self._entropy)
            self._put(made, minted, ends=ends)
        return personal_reply(person, minted)

    @retried
    async def mint_agents(
        self, caller: Caller, agent_id: AgentId, wish: AgentWish
    ) -> wire.SessionTokenReply | wire.StandingTokenReply:
        """Mint a token for an agent: for a session, standing, or the run token of a tenure."""
        require_minter(caller.principal)
        kind, lease = wish.kind(), wish.lease
        changing = frozenset({lease.resource}) if lease is not None else frozenset()
        async with change(self._store, caller, onto=frozenset(), changing=changing) as made:
            before = minted_before(made)
            ends = before | _named_in_lease(made, lease)
            principal = await require_current(made.tx, made.now, changing=ends)
            agent = await _require_managed(made.tx, agent_id, principal, runs=kind is Kind.RUN)
            minted = mint(kind, agent, wish, now=made.now, entropy=self._entropy)
            if lease is not None:
                repeats = next(iter(before), None)
                wanted = RunMint(lease, minted.token.hash, replace=wish.replace, repeats=repeats)
                _name_in_lease(made, wanted, principal)
            self._put(made, minted, ends=ends)
        return standing_reply(minted, agent) if kind is Kind.STANDING else session_reply(minted, agent)

    def _put(self, made: Change, minted: Minted, *, ends: frozenset[TokenHash]) -> None:
        """Write the new row, end those whose place it takes, and remember which it was."""
        if ends:
            tokens.revoke(made.tx, ends, now=made.now)
        tokens.add(made.tx, minted.token)
        made.answer(Kept(minted.token.hash))
        made.tx.after_commit(functools.partial(self._principals.forget, *ends))

    # --- listing ------------------------------------------------------------------------------------------------

    async def list_own(self, principal: Principal, *, after: str, limit: int) -> TokenPage:
        """Return the valid personal tokens of the person who asks."""
        return await self._list_personal(_own_person(principal), after=after, limit=limit)

    async def list_personal(
        self, principal: Principal, person: PersonId | None, *, after: str, limit: int
    ) -> TokenPage:
        """Return the valid personal tokens of `person` or of everybody; an admin's."""
        require_admin(principal)
        return await self._list_personal(person, after=after, limit=limit)

    async def _list_personal(self, person: PersonId | None, *, after: str, limit: int) -> TokenPage:
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            now = await tx.now()
            return _page(await tokens.of_person(tx, person, now=now, after=after, most=most + 1), most)

    async def list_agents(self, principal: Principal, agent_id: AgentId, *, after: str, limit: int) -> TokenPage:
        """Return the valid tokens of an agent; to the agent itself, only its runs'."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            agent = await _require_managed(tx, agent_id, principal, runs=True)
            runs_only, now = not may_manage(agent, principal), await tx.now()
            rows = await tokens.of_agent(tx, agent.id, runs_only=runs_only, now=now, after=after, most=most + 1)
        return _page(rows, most)

    # --- ending -------------------------------------------------------------------------------------------------

    async def revoke_own(self, caller: Caller, prefix: str) -> wire.RevokeReply | Replayed:
        """End a personal token of the person who asks."""
        return await self._revoke_personal(caller, _own_person(caller.principal), prefix, may=_own_person)

    async def revoke_personal(self, caller: Caller, prefix: str) -> wire.RevokeReply | Replayed:
        """End anybody's personal token; an admin's."""
        require_admin(caller.principal)
        return await self._revoke_personal(caller, None, prefix, may=require_admin)

    async def _revoke_personal(
        self, caller: Caller, person: PersonId | None, prefix: str, *, may: Callable[[Principal], object]
    ) -> wire.RevokeReply | Replayed:
        async with self._store.read() as tx:
            target = the_one(await tokens.persons_beginning(tx, person, prefix, most=2), prefix)
        return await self._revoke(caller, target, may=may)

    async def revoke_agents(self, caller: Caller, agent_id: AgentId, prefix: str) -> wire.RevokeReply | Replayed:
        """End a token of an agent; the agent itself ends only its runs'."""
        require_minter(caller.principal)
        async with self._store.read() as tx:
            agent = await _require_managed(tx, agent_id, caller.principal, runs=True)
            target = the_one(await tokens.agents_beginning(tx, agent.id, prefix, most=2), prefix)
        may = functools.partial(_require_may_end, agent, target)
        may(caller.principal)
        return await self._revoke(caller, target, may=may)

    @retried
    async def _revoke(
        self, caller: Caller, target: Token, *, may: Callable[[Principal], object]
    ) -> wire.RevokeReply | Replayed:
        """End `target`, once the writes in flight under it are over: its lease's row is locked for update first."""
        changing = frozenset({target.run.resource}) if target.run is not None else frozenset()
        async with change(self._store, caller, onto=frozenset(), changing=changing) as made:
            if made.replayed is not None:
                return made.replayed
            may(await require_current(made.tx, made.now, changing=[target.hash]))
            row = (await tokens.lock(made.tx, [target.hash]))[target.hash]
            if target.run is not None:
                _unname_in_lease(made.tx, target.run.resource, target.hash)
            tokens.revoke(made.tx, [target.hash], now=made.now)
            made.tx.after_commit(functools.partial(self._principals.forget, target.hash))
            return made.answer(
                wire.RevokeReply(
                    ok=True, status="revoked", hash_prefix=row.hash_prefix, unchanged=row.revoked_at is not None
                )
            )

    # --- sessions -----------------------------------------------------------------------------------------------

    @retried
    async def bind_session(self, caller: Caller, session: str) -> wire.SessionReply:
        """Write the session onto the very token that asks; once, and never another.

        It is repeatable by itself. Keys belong to the agent: by one, the
        answer to another of its tokens could be repeated.
        """
        principal = caller.principal
        assert caller.repeatable is None, caller
        if not principal.is_agent:
            raise Forbidden("only an agent's own token is bound to a session; send this under that token")
        async with change(self._store, caller, onto=frozenset()) as made:
            await require_current(made.tx, made.now)
            token = (await tokens.lock(made.tx, [principal.token]))[principal.token]
            if (refusal := bind_refusal(token, session)) is not None:
                raise refusal
            tokens.bind(made.tx, token.hash, session)
            made.tx.after_commit(functools.partial(self._principals.forget, token.hash))
            return wire.SessionReply(ok=True, agent=principal.id, session=session, unchanged=token.session == session)


def mint(kind: Kind, owner: Person | Agent, wish: Wish, *, now: Instant, entropy: Entropy) -> Minted:
    """Return a new token for `owner`, not yet stored; `Invalid` when its life is longer than its kind allows."""
    expires_at, cut = expiry_of(kind, wish.expires, now)
    secret = secret_of(kind, entropy(SECRET_BYTES))
    token = Token(
        hash=hash_of(secret),
        kind=kind,
        person=owner.owner if isinstance(owner, Agent) else owner.id,
        agent=owner.id if isinstance(owner, Agent) else None,
        session=wish.session if isinstance(wish, AgentWish) else None,
        run=wish.lease if isinstance(wish, AgentWish) else None,
        scope=wish.scope,
        label=wish.label,
        created_at=now,
        expires_at=expires_at,
    )
    return Minted(token, secret, cut)


# --- replies ---------------------------------------------------------------------------------------------------------


def personal_reply(person: Person, minted: Minted) -> wire.PersonalTokenReply:
    """Return the reply of a personal token's mint, the secret in it."""
    token = minted.token
    return wire.PersonalTokenReply(
        token=minted.secret.reveal(),
        hash_prefix=token.hash_prefix,
        person=person.id,
        name=person.name,
        email=person.email,
        label=token.label,
        expires=iso(token.expires_at),
        scope=token.scope,
    )


def session_reply(minted: Minted, agent: Agent) -> wire.SessionTokenReply:
    """Return the reply of a session's or a run's token, the secret in it."""
    token = minted.token
    return wire.SessionTokenReply(
        token=minted.secret.reveal(),
        hash_prefix=token.hash_prefix,
        expires_at=iso(token.expires_at),
        agent=agent.id,
        session=token.session,
        lease=tenure(token.run),
        capped_to_max=minted.cut,
    )


def standing_reply(minted: Minted, agent: Agent) -> wire.StandingTokenReply:
    """Return the reply of a standing token, the secret in it."""
    token = minted.token
    return wire.StandingTokenReply(
        token=minted.secret.reveal(),
        hash_prefix=token.hash_prefix,
        agent=agent.id,
        owner=agent.owner,
        label=token.label,
        expires=iso(token.expires_at),
        standing=True,
    )


# --- shared ----------------------------------------------------------------------------------------------------------


async def require_person(tx: Reader, person: PersonId) -> Person:
    """Return the person, or raise `NotFound`."""
    found = await identity.get_person(tx, person)
    if found is None:
        raise NotFound(f"there is no person {person}")
    return found


async def require_agent(tx: Reader, agent_id: AgentId) -> Agent:
    """Return the agent, or raise `NotFound`."""
    found = await identity.get_agent(tx, agent_id)
    if found is None:
        raise NotFound(f"there is no agent {agent_id}; `POST /v1/agents` makes one")
    return found


async def _require_managed(tx: Reader, agent_id: AgentId, principal: Principal, *, runs: bool) -> Agent:
    """Return the agent, or raise `NotFound`, or `Forbidden` for whoever may not see to its tokens (its `runs`')."""
    agent = await require_agent(tx, agent_id)
    if not (may_manage(agent, principal) or (runs and may_manage_runs(agent, principal))):
        raise Forbidden(f"{agent.id} is {agent.owner}'s; its tokens are for its owner or an admin to mint, see and end")
    return agent


def _require_may_end(agent: Agent, target: Token, principal: Principal) -> None:
    """Raise `Forbidden` unless `principal` may end a token of `agent`; the agent itself ends its runs'."""
    if may_manage(agent, principal) or (target.kind is Kind.RUN and may_manage_runs(agent, principal)):
        return
    raise Forbidden(f"{agent.id} may end its runs' tokens; this {target.kind} token is {agent.owner}'s to end")


def _own_person(principal: Principal) -> PersonId:
    """Return the person who asks; an agent's token, or a run's, mints and ends none of its person's."""
    if not principal.is_person or principal.person is None:
        raise Forbidden("personal tokens are for the person to mint, see and end, under a personal token")
    return principal.person


def _named_in_lease(made: Change, lease: Fence | None) -> frozenset[TokenHash]:
    """Return the run token that the lease of a mint names at present, if there is one: the new one takes its place."""
    row = made.tx.locked.get(lease.resource) if lease is not None else None
    return frozenset({row.run_token} if row is not None and row.run_token is not None else ())


def _name_in_lease(made: Change, wanted: RunMint, principal: Principal) -> None:
    """Make the token the one run token of its tenure, or raise the refusal."""
    row = made.tx.locked.get(wanted.fence.resource)
    if row is None and is_of_record(wanted.fence.resource):
        row = leases.unclaimed(wanted.fence.resource)
    if row is None:
        raise NotFound(f"there is no {wanted.fence.resource} to hold a lease on")
    decided = decide_run_mint(row, wanted, principal, made.now)
    if isinstance(decided, Refused):
        raise decided.raised(made.now)
    assert decided.ends == row.run_token, decided
    leases.write(made.tx, [(row, decided.lease)])


def _unname_in_lease(tx: Tx, resource: Resource, token: TokenHash) -> None:
    row = tx.locked.get(resource)
    after = without_run_token(row, token) if row is not None else None
    if row is not None and after is not None:
        leases.write(tx, [(row, after)])


def minted_before(made: Change) -> frozenset[TokenHash]:
    """Return what this very request minted if it was sent before."""
    if made.replayed is None:
        return frozenset()
    return frozenset({TokenHash(msgspec.json.decode(made.replayed.body, type=Kept).minted)})


class Ending(Protocol):
    """What is named by the beginning of its hash, to be ended."""

    @property
    def revoked_at(self) -> Instant | None:
        """When it was, if it was."""
        ...


E = TypeVar("E", bound=Ending)


def the_one(found: Sequence[E], prefix: str, *, what: str = "token", field: str | None = None) -> E:
    """Return what a prefix names: one not revoked, else one revoked before; raise when it names none or two."""
    if not found:
        raise NotFound(f"there is no such {what} {prefix}", field=field)
    if len(found) > 1 and found[1].revoked_at is None:
        raise Conflict(f"{prefix} begins more than one {what}'s hash; give more of its digits")
    return found[0]


def _page(rows: list[ListedToken], most: int) -> TokenPage:
    page = tuple(rows[:most])
    return TokenPage(page, page[-1].token.hash if len(rows) > most else None)
