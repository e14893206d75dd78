"""Making, listing and ending API keys: an admin's, or whoever's hands the database is in (D1, D11).

As with tokens, a secret leaves once, in the reply to its mint, and what is
stored for a repetition is only which key was minted. Every change of a key
locks its name first, so that a name has one live key whoever asks at once.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core.clock import iso
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, TokenHash
from batonpass.core.keys import ApiKey, KeyName, parse_key_name, prefix_unless_named, replaced_by_mint
from batonpass.core.tokens import (
    PREFIX_HEX_SHOWN,
    SECRET_BYTES,
    Kind,
    Scope,
    Secret,
    expiry_of,
    hash_of,
    secret_of,
)
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.server.services.principals import Principals, require_admin, require_current
from batonpass.server.services.tokens import Entropy, Kept, minted_before, the_one
from batonpass.store import keys
from batonpass.store.base import SYSTEM, Fences, Reader, Store, Tx, retried
from batonpass.wire import keys as wire

PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class KeyWish:
    """What the mint of a key asks for. `expires` is as it was sent: a duration, a date, or None for a year."""

    name: KeyName
    expires: object = None
    scope: Scope = Scope.WRITE
    replace: bool = False


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Valid keys in order of name, and where the next page begins."""

    keys: tuple[ApiKey, ...]
    next: KeyName | None


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key's row and its secret, and which keys of the name have ended for it."""

    key: ApiKey
    secret: Secret
    ended: frozenset[TokenHash]


class Keys:
    """Every call of the API that makes or ends a key."""

    def __init__(self, store: Store, principals: Principals, *, entropy: Entropy = secrets.token_bytes) -> None:
        self._store = store
        self._principals = principals
        self._entropy = entropy

    @retried
    async def mint(self, caller: Caller, wish: KeyWish) -> wire.KeyReply:
        """Mint the key of a name that has none, or with `replace` another one in its place; an admin's."""
        require_admin(caller.principal)
        async with change(self._store, caller, onto=frozenset()) as made:
            repeats = next(iter(minted_before(made)), None)
            require_admin(await require_current(made.tx, made.now))
            minted = await _mint(made.tx, wish, now=made.now, repeats=repeats, entropy=self._entropy)
            made.answer(Kept(minted.key.hash))
            made.tx.after_commit(functools.partial(self._principals.forget, *minted.ended))
        return key_reply(minted)

    async def listed(self, principal: Principal, name: KeyName | None, *, after: str, limit: int) -> KeyPage:
        """Return the valid keys in order of name, of one name or of all; an admin's."""
        require_admin(principal)
        async with self._store.read() as tx:
            return await _page(tx, name, after=after, limit=limit)

    @retried
    async def revoke(self, caller: Caller, prefix: str) -> wire.KeyRevokeReply | Replayed:
        """End the key whose hash begins with `prefix`; an admin's."""
        require_admin(caller.principal)
        async with self._store.read() as tx:
            target = _the_one(await keys.beginning(tx, prefix, most=2), prefix)
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            require_admin(await require_current(made.tx, made.now))
            unchanged = await _end(made.tx, target, now=made.now)
            made.tx.after_commit(functools.partial(self._principals.forget, target.hash))
            return made.answer(revoke_reply(target, unchanged=unchanged))


# --- at the database itself ------------------------------------------------------------------------------------------


@retried
async def issue(store: Store, wish: KeyWish, *, entropy: Entropy = secrets.token_bytes) -> MintedKey:
    """Mint a key for whoever can open the database anyway (`baton key create --db`); servers know it at once."""
    async with store.write(SYSTEM, Fences()) as tx:
        return await _mint(tx, wish, now=await tx.now(), repeats=None, entropy=entropy)


async def issued(store: Store, *, after: str, limit: int) -> KeyPage:
    """Return the valid keys of a database."""
    async with store.read() as tx:
        return await _page(tx, None, after=after, limit=limit)


@retried
async def withdraw(store: Store, which: str) -> wire.KeyRevokeReply:
    """End the key of a name, or whose hash begins so; running servers refuse it within 5 seconds (D2a)."""
    async with store.read() as tx:
        target = await _named(tx, which)
    async with store.write(SYSTEM, Fences()) as tx:
        return revoke_reply(target, unchanged=await _end(tx, target, now=await tx.now()))


# --- shared ----------------------------------------------------------------------------------------------------------


async def _mint(tx: Tx, wish: KeyWish, *, now: Instant, repeats: TokenHash | None, entropy: Entropy) -> MintedKey:
    """Insert a new key, and end the one whose place it takes; `Conflict` when there is one to stay."""
    expires_at, _ = expiry_of(Kind.KEY, wish.expires, now)
    live = next((key for key in await keys.lock(tx, wish.name) if key.valid(now)), None)
    ended = replaced_by_mint(live, replace=wish.replace, repeats=repeats)
    secret = secret_of(Kind.KEY, entropy(SECRET_BYTES))
    key = ApiKey(hash_of(secret), wish.name, wish.scope, tx.principal.id, now, expires_at)
    if ended:
        keys.revoke(tx, ended, now=now)
    keys.add(tx, key)
    return MintedKey(key, secret, ended)


async def _end(tx: Tx, target: ApiKey, *, now: Instant) -> bool:
    """Revoke `target`, and return whether it had been revoked before."""
    standing = await keys.lock(tx, target.name)
    keys.revoke(tx, [target.hash], now=now)
    return all(key.hash != target.hash for key in standing)


async def _page(tx: Reader, name: KeyName | None, *, after: str, limit: int) -> KeyPage:
    most = min(limit, PAGE_MAX)
    rows = await keys.listed(tx, name=name, now=await tx.now(), after=after, most=most + 1)
    page = tuple(rows[:most])
    return KeyPage(page, page[-1].name if len(rows) > most else None)


async def _named(tx: Reader, which: str) -> ApiKey:
    """Return the live key of the name `which`, else the one whose hash begins so; a name goes before a prefix."""
    live = await keys.listed(tx, name=parse_key_name(which), now=await tx.now(), after="", most=1)
    return live[0] if live else _the_one(await keys.beginning(tx, prefix_unless_named(which), most=2), which)


def _the_one(found: Sequence[ApiKey], prefix: str) -> ApiKey:
    return the_one(found, prefix, what="key", field="key")


def key_reply(minted: MintedKey) -> wire.KeyReply:
    """Return the reply of a mint, the secret in it."""
    key = minted.key
    return wire.KeyReply(
        identity=key.identity,
        name=key.name,
        token=minted.secret.reveal(),
        hash_prefix=key.hash_prefix,
        expires=iso(key.expires_at),
        scope=key.scope,
        replaced=next((ended[:PREFIX_HEX_SHOWN] for ended in minted.ended), None),
    )


def revoke_reply(target: ApiKey, *, unchanged: bool) -> wire.KeyRevokeReply:
    """Return the reply of a revocation."""
    return wire.KeyRevokeReply(
        ok=True, status="revoked", identity=target.identity, hash_prefix=target.hash_prefix, unchanged=unchanged
    )
