"""One call of `next` by itself: it looks at the queue's head and takes the first item that may be taken (D15).

Calls that come together are answered in sets (`services.taking`). Here are
those that a set can't answer: a launch that has its claim already, a taker
with reservations of its own, a row that somebody holds locked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import points
from batonpass.core.clock import moment
from batonpass.core.eligibility import Hidden, Scope
from batonpass.core.errors import (
    AlreadyClaimed,
    BatonError,
    Invalid,
    InvalidNode,
    LeaseLost,
    NotFound,
    NotReady,
    Paused,
)
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId, Resource
from batonpass.core.leases import Request, Verb
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.queue import Accept, Candidate, Item, judge, may_take
from batonpass.core.ranking import day_number, lanes
from batonpass.core.readiness import Ready
from batonpass.server.services.asks import Ask
from batonpass.server.services.change import Caller
from batonpass.server.services.engine import Done, decide_within
from batonpass.store import queue, ranking, taking
from batonpass.store.base import Fences, Reader, Store, Tx, retried
from batonpass.store.ranking import Narrow
from batonpass.store.taking import Launch

CANDIDATES_MAX: Final = 50
EXCLUDED_MAX: Final = 200
JUDGED_FIRST: Final = 8
JUDGED_MAX: Final = 64
"""How many items `next` judges at a time before it locks any: few, since the best is mostly free."""
NEVER_TAKEN: Final = tuple(
    kind.name for kind in NODE_TYPES.values() if kind.queueable and (kind.name == "question" or not kind.claimable)
)
"""What `next` need not read: the law would take none of it."""
AGAINST_THE_ITEM: Final = (InvalidNode, NotReady, NotFound, AlreadyClaimed, LeaseLost)
"""Refusals of a claim after which a call of `next` looks at another item; any other speaks against the taker."""
TAKEN_FROM: Final = {Accept.READY: (Ready.AGENT,), Accept.OPEN: (Ready.AGENT, Ready.UNTRIAGED)}


Part = tuple[str | None, Accept, tuple[str, ...] | None]
"""Which part of the queue a wish is about: project, acceptance and types."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker would take. With `candidates` it takes the first of those still free, in their order."""

    project: str | None = None
    accept: Accept = Accept.READY
    types: tuple[str, ...] | None = None
    exclude: frozenset[NodeId] = frozenset()
    candidates: tuple[NodeId, ...] | None = None
    session: str | None = None
    dispatch: str | None = None

    @property
    def part(self) -> Part:
        """Return the part of the queue it is about."""
        return self.project, self.accept, self.types

    def launch_of(self, taker: Principal) -> Launch:
        """Return the holder and its launch's nonce, empty without one."""
        return taker.id, self.dispatch or ""

    def allows(self, candidate: Candidate, taker: Principal, now: Instant) -> bool:
        """Whether it is of a wanted type, and the law lets `taker` have it, as far as its facts are known."""
        return (self.types is None or candidate.type in self.types) and may_take(
            candidate, taker, self.accept, now
        ) is None


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that was chosen and claimed in one transaction."""

    item: Item
    done: Done


@dataclass(frozen=True, slots=True)
class Choice:
    """What a call of `next` took, if anything, and whether it left something.

    Without `rest` there was nothing else in its part of the queue, for
    anybody: nor for those who would take other items, or have some routed to
    them. Only what is reserved, which is for its holder alone, isn't counted.
    """

    taken: Taken | None
    rest: bool = True


class Chooser:
    """Answers one call of `next` with transactions of its own."""

    def __init__(self, store: Store, offered: Collection[NodeId]) -> None:
        self._store = store
        self._offered = offered
        """What another call of this process is about to take; it comes last here."""

    async def choose(self, caller: Caller, wish: Wish) -> Taken | None:
        """Take the best item the caller may take, None when there is none; `Paused` when only a pause is in the way."""
        pause: Paused | None = None
        async for ids in self._hints(caller.principal, wish):
            await points.areach("next.chosen")
            match await self._take(caller, wish, ids):
                case Taken() as taken:
                    return taken
                case Paused() as refusal:
                    pause = refusal
                case None:
                    pass
        if pause is not None:
            raise pause
        return None

    async def _hints(self, taker: Principal, wish: Wish) -> AsyncIterator[Sequence[NodeId]]:
        """Yield what looks takeable, best first, a few at a time; the last time perhaps nothing.

        Each few are of a snapshot of their own, read before the write begins:
        no connection is held meanwhile, and the writer's turn is not spent on
        reading (D42). What is taken is judged again under its lock. Of what a
        pause alone keeps back the first comes last: the engine says why, or
        grants it if the pause is over by then.
        """
        search = _Search(taker, wish)
        async with self._store.read() as tx:
            (rows,) = await tx.fetch(taking.launched_asked([wish.launch_of(taker)]))
            if wish.candidates is not None:
                await search.begin(tx)
                ids = await search.free(tx, wish.candidates)
            else:
                ids = await search.few(tx, self._offered)
        if taking.launched(rows):
            yield ()
        while ids and wish.candidates is None:
            yield ids
            async with self._store.read() as tx:
                ids = await search.few(tx, self._offered)
        yield [*ids, *search.kept[:1]]

    @retried
    async def _take(self, caller: Caller, wish: Wish, ids: Sequence[NodeId]) -> Taken | Paused | None:
        """Return the launch's claim, else claim the first of `ids` that may be; else the pause in the way, if any."""
        taker = caller.principal
        async with self._store.write(taker, Fences(named=caller.fences)) as tx:
            if wish.dispatch is not None:
                launched = await taking.lock_launch(tx, wish.launch_of(taker))
                if launched is not None:
                    return await _again(tx, taker, wish, launched.resource)
            picker = _Picker(tx, taker, wish)
            return await picker.pick(ids) or picker.pause


NEVER: Final = Instant(0)


@dataclass(slots=True)
class _Search:
    """Looks for what may be taken before anything is locked. `kept` are those that only a pause keeps back."""

    taker: Principal
    wish: Wish
    now: Instant = NEVER
    projects: tuple[str, ...] | None = None
    seen: set[NodeId] = field(default_factory=set)
    kept: list[NodeId] = field(default_factory=list)
    size: int = JUDGED_FIRST

    async def begin(self, tx: Reader) -> None:
        """Read the clock and the scope of this snapshot."""
        self.now = await tx.now()
        if self.wish.project is not None and self.projects is None:
            self.projects = await ranking.scope(tx, self.wish.project)

    async def few(self, tx: Reader, offered: Collection[NodeId]) -> list[NodeId]:
        """Return the next items that seem to be takeable now, best first; none when there are no more.

        The taker's own reservations come first (D14), and what others are
        about to take comes last.
        """
        await self.begin(tx)
        narrow = Narrow(self.projects, self.wish.types, NEVER_TAKEN)
        today = day_number(moment(self.now).date())
        own = await ranking.reserved(tx, narrow, self.taker, self.now)
        if ids := await self.free(tx, own):
            return ids
        walk = await ranking.free_walk(tx, narrow, lanes(TAKEN_FROM[self.wish.accept]), self.now, today=today)
        later: list[NodeId] = []
        while rows := await walk.take(self.size):
            fresh = [row.id for row in rows if row.id not in self.seen]
            later += [node for node in fresh if node in offered]
            if fresh := [node for node in fresh if node not in offered]:
                self.size = min(2 * self.size, JUDGED_MAX)
            if ids := await self.free(tx, fresh):
                return ids
        return await self.free(tx, later)

    async def free(self, tx: Reader, ids: Sequence[NodeId]) -> list[NodeId]:
        """Return which of these may be taken, as far as can be told without a lock, in their order."""
        fresh = [node for node in ids if node not in self.seen]
        self.seen.update(fresh)
        takeable = [one for one in await queue.candidates(tx, fresh, self.now) if self._wanted(one)]
        self.kept += [candidate.id for candidate in takeable if candidate.paused]
        return [candidate.id for candidate in takeable if not candidate.paused]

    def _wanted(self, candidate: Candidate) -> bool:
        return (
            candidate.id not in self.wish.exclude
            and (self.projects is None or candidate.project in self.projects)
            and self.wish.allows(candidate, self.taker, self.now)
        )


@dataclass(slots=True)
class _Picker:
    """Looks at items under their locks, in their order, until one may be taken (D15).

    What speaks against one item is no answer to the wish: the next one is
    tried. What speaks against the taker is, at once.
    """

    tx: Tx
    taker: Principal
    wish: Wish
    pause: Paused | None = None

    async def pick(self, ids: Sequence[NodeId]) -> Taken | None:
        """Claim the first of `ids` that is free and may be taken, or return None."""
        left = list(ids)
        while left:
            lease = await queue.pick(self.tx, left)
            if lease is None:
                return None
            await points.areach("next.picked")
            node = NodeId(lease.resource)
            if (taken := await self._claim(node)) is not None:
                return taken
            left = left[left.index(node) + 1 :]
        return None

    async def _claim(self, node: NodeId) -> Taken | None:
        """Judge the item again under its lock, in statements of their own, and only then grant it."""
        now = await self.tx.now()
        found = await queue.candidates(self.tx, [node], now)
        await points.areach("next.relocked")
        if not found:  # deleted since it was looked at; its lease row stays
            return None
        (candidate,) = found
        if (item := item_for(candidate, self.taker, self.wish, now)) is None:
            return None
        match await decide_within(self.tx, ask_for(self.taker, self.wish, Resource(node))):
            case Done() as done:
                return Taken(item, done)
            case Paused() as refusal:
                self.pause = refusal
            case refusal if isinstance(refusal, AGAINST_THE_ITEM):
                pass
            case refusal:
                raise refusal
        return None


async def _again(tx: Tx, taker: Principal, wish: Wish, launched: Resource) -> Taken:
    """Answer a repeated `next` with the claim its first sending made; its row is locked.

    `NotReady` when there is no work on that item any more: its claim stands until it is released or lapses.
    """
    outcome = await decide_within(tx, ask_for(taker, wish, launched))
    if isinstance(outcome, BatonError):
        raise outcome
    (candidate,) = await queue.candidates(tx, [NodeId(launched)], outcome.now)
    item = judge(candidate, taker, outcome.now, Scope(everything=True))
    if isinstance(item, Hidden):
        raise NotReady(f"{launched}, which this launch has claimed, {_no_work(candidate, item)}; release it")
    return Taken(item, outcome)


def _no_work(candidate: Candidate, why: Hidden) -> str:
    """Return what has become of an item that was claimed and that even its holder is not shown."""
    match why:
        case Hidden.GONE:
            return "is resolved or retired"
        case Hidden.ARCHIVED:
            return f"was archived with its project {candidate.project}"
        case _:
            return f"sleeps until {candidate.wake}"


def item_for(candidate: Candidate, taker: Principal, wish: Wish, now: Instant) -> Item | None:
    """Return the candidate as an item that `taker` may have, by the facts read under its lock, else None."""
    if not wish.allows(candidate, taker, now):
        return None
    item = judge(candidate, taker, now, Scope())
    assert isinstance(item, Item), (candidate.id, item)
    return item


def ask_for(taker: Principal, wish: Wish, resource: Resource) -> Ask:
    """Return the claim that a call of `next` makes of an item: its horizon is a minute until it is renewed (D15)."""
    return Ask(
        Request(taker, Verb.CLAIM, resource, session=wish.session, dispatch=wish.dispatch, provisional=True),
        Fences(),
    )


def require_few(items: Sequence[object], field_name: str, most: int) -> None:
    """Raise when a list of a request is longer than it may be."""
    if len(items) > most:
        raise Invalid(f"{field_name}: {len(items)} entries; the limit is {most}", field=field_name)
