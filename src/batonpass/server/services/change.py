"""A caller and its change: fences, idempotency and attribution, the same for every write (D2a, D11)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Final, Protocol, TypeVar

import msgspec

from batonpass.core import points
from batonpass.core.clock import micros
from batonpass.core.errors import Forbidden, Invalid
from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import Fence, Instant, Resource
from batonpass.server.services import ranking
from batonpass.store import idempotency
from batonpass.store.base import Fences, Store, Tx

R = TypeVar("R", bound="Reply")

REPLIES_KEPT: Final = timedelta(hours=24)
"""How long a stored reply is replayed (D11)."""


class Reply(Protocol):
    """What a change answers: a wire struct that knows the HTTP status of its success."""

    http_status: ClassVar[int]
    """200, 201 or 207."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The stored reply of an earlier, identical request."""

    body: bytes
    http_status: int


@dataclass(frozen=True, slots=True)
class Repeatable:
    """An Idempotency-Key with what it belongs to: the request's method, path and body."""

    key: str
    method: str
    path: str
    body_hash: str

    @staticmethod
    def of(key: str, *, method: str, path: str, body: bytes) -> Repeatable:
        """Return the identity of a request."""
        return Repeatable(key, method, path, hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, what it stands on, and how: made by `http.auth`, never from a body.

    `fences` are those of the If-Lease header. `door` is where the request came
    in: `rest`, `cli` or `mcp`; it is stamped on what the caller writes.
    `warnings` say what of the request was overlooked or replaced; its reply
    repeats them.
    """

    principal: Principal
    fences: tuple[Fence, ...] = ()
    repeatable: Repeatable | None = None
    door: str = "rest"
    warnings: tuple[str, ...] = ()

    def standing_on(self, *more: Fence) -> Caller:
        """Return this caller with further fences, those of the request's `if_epoch` or `based_on`."""
        return replace(self, fences=(*self.fences, *more))

    def fences_for(self, *, onto: frozenset[Resource], changing: frozenset[Resource] = frozenset()) -> Fences:
        """Return the fences of a write onto `onto` that changes the lease rows `changing`."""
        return Fences(named=self.fences, onto=onto, changing=changing)


@dataclass(slots=True)
class Change:
    """A write transaction of one caller. When `replayed` is set, this very request was answered before: return that."""

    tx: Tx
    caller: Caller
    now: Instant
    replayed: Replayed | None = None
    stirred: bool = False
    """Whether the queue's index is to be refreshed after COMMIT, see `ranking`."""

    def answer(self, reply: R) -> R:
        """Return `reply`, stored with the change if the caller gave an Idempotency-Key."""
        return answered(self.tx, self.caller, reply)


@asynccontextmanager
async def change(
    store: Store, caller: Caller, *, onto: frozenset[Resource], changing: frozenset[Resource] = frozenset()
) -> AsyncIterator[Change]:
    """Open a change: fences locked and compared, the clock read, a repeated request recognized.

    `onto` are the nodes it writes, `changing` the lease rows it changes. Raises
    `Forbidden`, `LeaseLost`, or `Invalid` when the key was used for another body.
    """
    require_writer(caller.principal)
    async with store.write(caller.principal, caller.fences_for(onto=onto, changing=changing)) as tx:
        now = await tx.now()
        made = Change(tx, caller, now, await recognized(tx, caller, now))
        yield made
    if made.stirred:
        await points.areach("rank.noted")
        await ranking.refresh(store)
        await points.areach("rank.refreshed")


def answered(tx: Tx, caller: Caller, reply: R) -> R:
    """Return `reply`, stored in the transaction of its change if the caller gave an Idempotency-Key."""
    repeatable = caller.repeatable
    if repeatable is not None:
        idempotency.store_reply(
            tx,
            principal=caller.principal.id,
            method=repeatable.method,
            path=repeatable.path,
            key=repeatable.key,
            status=reply.http_status,
            reply=msgspec.json.encode(reply).decode(),
        )
    return reply


async def recognized(tx: Tx, caller: Caller, now: Instant) -> Replayed | None:
    """Insert the request's key, waiting for a twin in flight; return what the twin was answered.

    None for a first request, and for one without a key.
    """
    repeatable = caller.repeatable
    if repeatable is None:
        return None
    seen = await idempotency.insert_or_find(
        tx,
        principal=caller.principal.id,
        method=repeatable.method,
        path=repeatable.path,
        key=repeatable.key,
        body_hash=repeatable.body_hash,
        now=now,
        oldest=Instant(now - micros(REPLIES_KEPT)),
    )
    await points.areach("idem.inserted")
    if seen is None:
        return None
    if seen.body_hash != repeatable.body_hash:
        raise Invalid(
            f"Idempotency-Key: {repeatable.key} was used for another request to {repeatable.path}; use a new key",
            field="Idempotency-Key",
        )
    assert seen.reply is not None, "a committed row has its reply"
    return Replayed(seen.reply.encode(), seen.status)


def require_writer(principal: Principal) -> None:
    """Raise `Forbidden` for a read-only token, or for a principal that has no graph (D1, D40)."""
    require_record_writer(principal)
    if principal.kind in (Kind.KEY, Kind.SERVICE):
        raise Forbidden(f"{principal.id} may write records, not the graph; use an agent's or a person's token")


def require_record_writer(principal: Principal) -> None:
    """Raise `Forbidden` for a read-only token: what else anybody may do with a record, its class says."""
    if principal.read_only:
        raise Forbidden("this token may only read; use one with scope write")
