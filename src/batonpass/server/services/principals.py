"""From a token's text to who is asking, with a short memory (D2a).

    text ─ SHA-256 ─▶ remembered, at most 5 s ago ──────────────▶ Principal
                  ├─▶ row of the hash, its person, its agent ──▶ Principal, or Unauthorized
                  ├─▶ row of the hash among API keys ──────────▶ Principal, or Unauthorized
                  └─▶ a JWT of the configured issuer's ────────▶ Principal, or Unauthorized

A revocation is heard of at once in the process that made it, and within 5 s
in the others. Two kinds of write do not rest on that memory. Under a run token
every one looks at the lease row, which names the token. And what outlives the
request, a token, a person, an agent, is made or ended by the caller as
`require_current` reads it anew: a stolen token that was revoked elsewhere a
second ago mints no successor, and ends nobody else's.

Requests that miss together share one look-up. One that began before a
revocation was committed may have read the row as it was; `forget` cuts it off
from the memory and from later requests.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.errors import Forbidden, Unauthorized
from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import Instant, TokenHash
from batonpass.core.keys import ApiKey
from batonpass.core.service_accounts import ServiceAccount, is_jwt
from batonpass.core.tokens import Scope, Secret, hash_of, is_of_key, well_formed
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.store import keys, tokens
from batonpass.store.base import Store, Tx, now_asked, retrieved
from batonpass.store.tokens import KnownToken

REMEMBERED_S_MAX: Final = 5.0
REMEMBERED_MOST: Final = 10_000
"""About 10 MB; above it the longest remembered goes first."""
UNKNOWN: Final = (
    "this token is unknown, expired or revoked, and will not do later either;"
    " ask its owner or an admin for a new one and send that"
)
"""One sentence for every reason, so that a guess learns nothing from it."""


@dataclass(frozen=True, slots=True)
class Found:
    """Who stands behind a token that opens something, and for how many microseconds more it does."""

    principal: Principal
    left: int


Find = Callable[[TokenHash], Awaitable[Found | None]]
"""Says who stands behind a token of one kind, None when it opens nothing (any more)."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until_s: float


class Principals:
    """Who stands behind each token, as this process last read it. Without `accounts` a JWT is an unknown token."""

    def __init__(
        self,
        store: Store,
        *,
        accounts: ServiceAccounts | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._monotonic_s = monotonic_s
        self._remembered: dict[TokenHash, _Remembered] = {}
        self._looking: dict[TokenHash, asyncio.Task[Principal]] = {}

    async def behind(self, text: str) -> Principal:
        """Return who stands behind the token `text`; raise `Unauthorized` for one that opens nothing (any more)."""
        secret = Secret(text)
        token = hash_of(secret)
        found = self._remembered.get(token)
        if found is not None and self._monotonic_s() < found.until_s:
            return found.principal
        if well_formed(secret):
            return await self._look_up_once(token, self._kept_key if is_of_key(secret) else self._kept_token)
        if self._accounts is not None and is_jwt(text):
            return await self._look_up_once(token, functools.partial(self._vouched, self._accounts, text))
        raise Unauthorized(UNKNOWN)

    def forget(self, *hashes: TokenHash) -> None:
        """Let the next request under each token read its row again."""
        for token in hashes:
            self._remembered.pop(token, None)
            self._looking.pop(token, None)

    async def _look_up_once(self, token: TokenHash, find: Find) -> Principal:
        looking = self._looking.get(token)
        if looking is None:
            looking = self._looking[token] = asyncio.create_task(self._look_up(token, find), name="look up a token")
            looking.add_done_callback(retrieved)
        # Shielded: one caller that hangs up must not fail the others.
        return await asyncio.shield(looking)

    async def _look_up(self, token: TokenHash, find: Find) -> Principal:
        looked_s = self._monotonic_s()
        try:
            found = await find(token)
            if found is None or not hmac.compare_digest(found.principal.token, token):
                raise Unauthorized(UNKNOWN)
            self._remember(found, looked_s=looked_s)
            return found.principal
        finally:
            if self._looking.get(token) is asyncio.current_task():
                del self._looking[token]

    async def _kept_token(self, token: TokenHash) -> Found | None:
        async with self._store.glance() as tx:
            rows, ((now,),) = await tx.fetch(tokens.known_asked(token), now_asked(self._store.clock))
        known = tokens.known(rows)
        if known is None or not known.token.valid(now):
            return None
        return Found(principal_of(known), left=known.token.expires_at - now)

    async def _kept_key(self, token: TokenHash) -> Found | None:
        async with self._store.glance() as tx:
            rows, ((now,),) = await tx.fetch(keys.known_asked(token), now_asked(self._store.clock))
        key = keys.known(rows)
        if key is None or not key.valid(now):
            return None
        return Found(principal_of_key(key), left=key.expires_at - now)

    async def _vouched(self, accounts: ServiceAccounts, text: str, token: TokenHash) -> Found | None:
        vouched = await accounts.vouched(text, self._now)
        return Found(principal_of_account(vouched.account, token), vouched.left) if vouched is not None else None

    async def _now(self) -> Instant:
        async with self._store.glance() as tx:
            return await tx.now()

    def _remember(self, found: Found, *, looked_s: float) -> None:
        """Keep the answer from when its question was sent, never beyond the token's own end."""
        token = found.principal.token
        if self._looking.get(token) is not asyncio.current_task():
            return
        self._remembered.pop(token, None)
        if len(self._remembered) >= REMEMBERED_MOST:
            del self._remembered[next(iter(self._remembered))]
        left_s = found.left / MICROS_PER_S
        self._remembered[token] = _Remembered(found.principal, looked_s + min(REMEMBERED_S_MAX, left_s))


def principal_of(known: KnownToken) -> Principal:
    """Return the principal of a token: the agent of an agent's, else the person (D1).

    An agent of an admin is no admin: what an admin may do, a person does.
    """
    token = known.token
    person = Principal(
        id=token.person,
        kind=Kind.PERSON,
        name=known.person_name,
        token=token.hash,
        person=token.person,
        person_name=known.person_name,
        email=known.email,
        read_only=token.scope is Scope.READ,
        is_admin=known.steward,
    )
    if token.agent is None:
        return person
    return Principal(
        id=token.agent,
        kind=Kind.AGENT,
        name=known.agent_label or token.agent,
        token=token.hash,
        person=token.person,
        person_name=known.person_name,
        email=known.email,
        session=token.session,
        run=token.run,
        read_only=token.scope is Scope.READ,
    )


def principal_of_key(key: ApiKey) -> Principal:
    """Return the principal of an API key. No person stands behind it."""
    return Principal(id=key.identity, kind=Kind.KEY, name=key.name, token=key.hash, read_only=key.scope is Scope.READ)


def principal_of_account(account: ServiceAccount, token: TokenHash) -> Principal:
    """Return the principal of a service account. No person stands behind it."""
    return Principal(id=account.identity, kind=Kind.SERVICE, name=f"{account.namespace}/{account.name}", token=token)


def require_admin(principal: Principal) -> None:
    """Raise `Forbidden` unless an admin's own token asks (D40)."""
    if not (principal.is_person and principal.is_admin):
        raise Forbidden("this is an admin's: a person who stewards org-root, under a token of their own")


async def current(store: Store, principal: Principal) -> Principal:
    """Return `principal` as its token reads now, in a snapshot of its own; `Unauthorized` if it has ended."""
    async with store.read() as tx:
        rows, ((now,),) = await tx.fetch(tokens.known_asked(principal.token), now_asked(store.clock))
    known = tokens.known(rows)
    if known is None or not known.token.valid(now):
        raise Unauthorized(UNKNOWN)
    return principal_of(known)


async def require_current(tx: Tx, now: Instant, *, changing: Iterable[TokenHash] = ()) -> Principal:
    """Return the transaction's caller as its token reads now, locked to the end; `Unauthorized` if it has ended.

    The tokens that it is `changing` are locked with it, in one order: two
    callers may be about to end each other's.
    """
    token = tx.principal.token
    await tokens.lock(tx, {token, *changing})
    (rows,) = await tx.fetch(tokens.known_asked(token))
    known = tokens.known(rows)
    if known is None or not known.token.valid(now):
        raise Unauthorized(UNKNOWN)
    return principal_of(known)
