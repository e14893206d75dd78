"""What a store promises, whichever database is behind it.

A `Store` is opened by URL (`store.open`) and offers two doors:

* `store.read()`: a consistent snapshot of what is committed, and nothing else;
  `store.glance()` has one for each fetch, and costs who asks once a single round trip;
  `store.read_aside()` is the same for a read that computes, and holds nobody up;
  `store.read_long()` for one that lasts, see `store.longreads`.
* `store.write(principal, fences)`: the only way to change anything. It locks
  the lease rows of all fences in one ordered statement, compares them (D2a),
  and only then runs the body; the locks are kept to COMMIT. A broken fence is
  `LeaseLost` and nothing has changed. Neither argument has a default, so a
  write that forgot to ask does not type-check.

`store.write_set(writers)` is the same door for requests of several principals
that travel in one transaction: a broken fence is then one writer's answer
(`tx.broken[i]`), and the others go on.

Within a transaction locks are taken in one total order (D44), so that no two
wait for each other: lease rows by resource, where those that are missing have been made before; the classes
written under (advisory); records by class and id, and with one all its fields; the launch
of `queue/next`, after which rows are only taken without waiting; holders whose
leases are counted (advisory); the request's idempotency key; tokens by hash,
the caller's and those that change in one statement; people; agents; names of API keys (advisory); a
run (advisory), with it its row and its log; what an item's runs count; what an agent can run; policies
(advisory); what the ids of filed texts begin with (advisory); the ids of new
nodes (advisory); nodes by id, or the tombstone of
one that was deleted; who adds `blocks`
edges (advisory); edges, which are their source's; entries of inboxes and of the index of
words, which are their node's; the rows of the queue's index by node; notes of
what is to be derived, history and events, which wait for nobody. Three
exceptions hold because they wait for nothing or lock one thing alone: the
first person takes the table of people, retention skips what is locked, and a
lease verb marks an item as held only if that row is free.

The time is read with `tx.now()` after the locks, never before (D5). `tx.put(…)` hands over
a change without waiting: it is sent with the next `fetch` or with COMMIT.
Leaving the block commits; an exception rolls back. An exception from the
block's end is `Unavailable` when nothing happened, `Unknown` when the COMMIT's
own answer was lost (D45).

Bodies await nothing but the store: on SQLite one writer runs at a time (D42).
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeVar

import msgspec

from batonpass.core.clock import Clock
from batonpass.core.errors import Unavailable
from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import Fence, HolderId, Instant, Resource, TokenHash
from batonpass.core.leases import LockedLease
from batonpass.core.premises import BasedOn
from batonpass.core.values import value
from batonpass.store.bell import Bell

P = ParamSpec("P")
T = TypeVar("T")

Row = Sequence[Any]
"""One result row, in the order of the statement's columns. It never leaves the store's room."""

TRIES_MAX: Final = 5
"""How often a body is run at most when serialization failures or deadlocks end it (D45)."""
RETRY_PAUSE_S: Final = 0.02
"""The longest pause before the second try; it grows with each."""

SYSTEM: Final = Principal(
    id=HolderId("system"),
    kind=Kind.SERVICE,
    name="system",
    token=TokenHash(""),
    is_admin=True,
)
"""The store's own hand: first set-up and migrations. No token maps to it."""


@value(frozen=True, slots=True)
class Statement:
    """A named statement of ``sql/<dialect>/<noun>.sql`` with its parameters."""

    name: str
    params: Mapping[str, object]


def q(name: str, /, **params: object) -> Statement:
    """Return the statement ``<noun>.<name>`` with `params`; a list is passed as a JSON array."""
    return Statement(name, params)


def now_asked(clock: Clock) -> Statement:
    """Return the statement that reads the database's time, or the moment `clock` has been set to."""
    return q("time.now", now=clock.moment())


def as_json(value: object) -> str:
    """Return `value` as JSON text: the one form in which sets of rows travel to both dialects."""
    return msgspec.json.encode(value).decode()


@value(frozen=True, slots=True)
class Fences:
    """What a write stands on.

    `named` must hold, all of them. `onto` are the nodes the write is onto: for
    a run token its working set is checked on them (D2b), others need no lease
    row for them. `changing` are the lease rows the body will change, of which
    those in `creating` are made if they are not there: the rows of a record's
    tasks, at their first claim. `based_on` are the premises of a write to a
    record, which the body compares (D33): it locks the record, whose registers they may name. A run token's own fence
    is always added. All of these rows are locked.
    """

    named: tuple[Fence, ...] = ()
    onto: frozenset[Resource] = frozenset()
    changing: frozenset[Resource] = frozenset()
    creating: frozenset[Resource] = frozenset()
    based_on: BasedOn | None = None

    def resources(self, principal: Principal) -> frozenset[Resource]:
        """Return every lease row to lock for `principal`."""
        of_run = self.onto | {principal.run.resource} if principal.run is not None else frozenset()
        read = self.based_on.resources if self.based_on is not None else frozenset[Resource]()
        return self.changing.union(of_run, read, (fence.resource for fence in self.named))


@value(frozen=True, slots=True)
class Writer:
    """One principal and the fences of its request, among the several of a set."""

    principal: Principal
    fences: Fences


class Reader(Protocol):
    """A transaction that reads."""

    clock: Clock

    async def fetch(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement, all sent in one round trip."""
        ...

    async def now(self) -> Instant:
        """Return the database's time, read by a statement of its own."""
        ...


class Tx(Reader, Protocol):
    """A transaction that writes, opened by `Store.write` with its fences locked and compared."""

    principal: Principal
    locked: dict[Resource, LockedLease]
    broken: dict[int, str]
    skipped: frozenset[Resource]
    along: list[list[Row]]
    bell: Bell

    def put(self, statement: Statement) -> None:
        """Hand over a change; it is sent, in order, with the next fetch or with COMMIT."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` once COMMIT has returned, and only then: forget cached tokens, wake waiters."""
        ...


class Store(Protocol):
    """One database. See the module's page for what a transaction guarantees."""

    dialect: str
    incarnation: str
    clock: Clock
    writes_at_once: int
    """How many write transactions go on side by side; 1 where there is one writer (D42)."""
    bell: Bell
    """Rings when events have been committed, here or by another process."""

    def read(self) -> AbstractAsyncContextManager[Reader]:
        """Open a snapshot of what is committed."""
        ...

    def glance(self) -> AbstractAsyncContextManager[Reader]:
        """Open what reads like a snapshot, but may be another one at each fetch: for one question, or for hints."""
        ...

    def read_aside(self) -> AbstractAsyncContextManager[Reader]:
        """Open a snapshot for a read of some milliseconds, of which few go on at once: who comes too many waits."""
        ...

    def read_long(self) -> AbstractAsyncContextManager[Reader]:
        """Open a snapshot that may last as long as its reader goes on; `Unavailable` when too many do."""
        ...

    def write(self, principal: Principal, fences: Fences) -> AbstractAsyncContextManager[Tx]:
        """Open a write transaction once every fence is locked and holds; else raise `LeaseLost`."""
        ...

    def write_set(
        self, writers: Sequence[Writer], *, along: Sequence[Statement] = (), skip_locked: bool = False
    ) -> AbstractAsyncContextManager[Tx]:
        """Open one transaction for several writers; broken fences are in `tx.broken` by position.

        The statements `along` run after the locks and in the same round trip;
        their rows are in `tx.along`. With `skip_locked`, rows that somebody
        else holds locked are not waited for: they are in `tx.skipped`, and the
        caller asks for them alone.
        """
        ...

    async def empty_log(self) -> bool:
        """Take what was committed out of the log beside a SQLite file, and return whether the log is empty now.

        It is not while somebody reads an older state; another call may do. Nothing is to be done on PostgreSQL, whose
        log is its administrator's.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and files; safe twice."""
        ...


class Retry(Unavailable):
    """A body lost a race inside the database and may simply be run again (40001, 40P01)."""

    code = "unavailable"
    tries_max: ClassVar[int] = TRIES_MAX


class LockTimeout(Retry):
    """A lock was waited for in vain (55P03). Another try waits as long again, so there is only one."""

    tries_max = 2


def retried(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Run a whole transaction again, a bounded number of times, when the database asks for it (D45)."""

    @functools.wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                return await method(*args, **kwargs)
            except Retry as error:
                if tries >= error.tries_max:
                    raise
            # Apart by chance, so that two that met do not meet again.
            await asyncio.sleep(random.uniform(0, RETRY_PAUSE_S * tries))  # noqa: S311 — no secret

    return run


def retrieved(future: asyncio.Future[Any]) -> None:
    """Mark a failure as seen even when all who waited for it have gone: the callback of a future that is shared."""
    if not future.cancelled():
        future.exception()
