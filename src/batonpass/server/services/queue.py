"""The queue: pages for people and pollers, and `next`, which chooses and claims in one transaction (D13 to D16)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import points
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
from batonpass.core.ids import Instant, NodeId, PersonId, Resource
from batonpass.core.leases import Request, Verb
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.queue import Accept, Candidate, Hidden, Item, Scope, judge, may_take, order
from batonpass.core.readiness import Ready
from batonpass.server.services.change import Caller, require_writer
from batonpass.server.services.engine import Ask, Done, decide_within
from batonpass.store import queue
from batonpass.store.base import Fences, Store, Tx, retried
from batonpass.store.queue import Narrow

SCANNED_MAX: Final = 1000
"""How many nodes a page reads for its counts; it reads on for its items only, and says that the counts are capped."""
LIMIT_MAX: Final = 100
CANDIDATES_MAX: Final = 50
EXCLUDED_MAX: Final = 200
NEVER_TAKEN: Final = tuple(
    kind.name for kind in NODE_TYPES.values() if kind.queueable and (kind.name == "question" or not kind.claimable)
)
"""What `next` need not read: the law would take none of it."""


@dataclass(frozen=True, slots=True)
class View:
    """What a page is about: whose view, which scope, which filters."""

    project: str | None = None
    types: tuple[str, ...] | None = None
    exclude_types: tuple[str, ...] = ()
    readiness: Ready | None = None
    assignee: PersonId | None = None
    include_blocked: bool = False
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the queue.

    `ranked` is the filtered ranking as far as it was read, always beyond this
    page of it, the `items`; `capped` when not all of it was.
    """

    items: tuple[Item, ...]
    ranked: tuple[Item, ...]
    hidden: dict[Hidden, int]
    capped: bool
    now: Instant


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


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that was chosen and claimed in one transaction."""

    item: Item
    done: Done


class Queue:
    """The queue of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, viewer: Principal, asked: View) -> Page:
        """Return a page as `viewer` sees it, with what it hides counted.

        The queue is read until the page is full and one item more is known, or
        until there is no more; the counts alone are content with less.
        """
        wanted = asked.offset + min(asked.limit, LIMIT_MAX)
        narrow = Narrow(asked.project, asked.types, asked.exclude_types, asked.assignee)
        capped = False
        async with self._store.read() as tx:
            now = await tx.now()
            seen = _Seen(viewer, asked, now)
            own = await queue.reserved(tx, narrow, viewer, now)
            seen.add(await queue.candidates(tx, own))
            async for window in queue.windows(tx, narrow):
                seen.add(await queue.candidates(tx, [node for node in window.ids if node not in own]))
                if capped := not window.last and seen.read >= SCANNED_MAX and len(seen.items) > wanted:
                    break
        ranked = tuple(sorted(seen.items, key=lambda item: order(item, viewer)))
        return Page(ranked[asked.offset : wanted], ranked, seen.hidden, capped, now)

    async def next(self, caller: Caller, wish: Wish) -> Taken | None:
        """Choose the best item the caller may take and claim it, or return None when there is none.

        The same live `dispatch` gets the same claim again, so a lost answer is
        asked for once more and costs nothing; the grant's horizon is a minute
        until its first renewal. `Paused` when nothing but a pause is in the way.
        """
        require_writer(caller.principal)
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
        """Yield what looks takeable, best first, a window at a time; the last time perhaps nothing.

        Each window is a snapshot of its own, read before the write begins: no
        connection is held meanwhile, and the writer's turn is not spent on
        reading (D42). What is taken is judged again under its lock. Of what a
        pause alone keeps back the first comes last: the engine says why, or
        grants it if the pause is over by then.
        """
        async with self._store.read() as tx:
            look = _Look(taker, wish, await tx.now())
            known = wish.dispatch is not None and await queue.launched(tx, taker.id, wish.dispatch) is not None
            narrow = Narrow(wish.project, wish.types, exclude_types=NEVER_TAKEN, unclaimed_at=look.now)
            first = wish.candidates
            if first is None:
                first = await queue.reserved(tx, narrow, taker, look.now)
            ids = look.free(await queue.candidates(tx, first))
        if known:
            yield ()
        if wish.candidates is not None:
            yield [*ids, *look.kept[:1]]
            return
        after = queue.START
        for size in queue.sizes():
            async with self._store.read() as tx:
                window = await queue.window(tx, narrow, after, size)
                ids += look.free(await queue.candidates(tx, [node for node in window.ids if node not in first]))
            if window.last:
                yield [*ids, *look.kept[:1]]
                return
            if ids:
                yield ids
            ids, after = [], window.end

    @retried
    async def _take(self, caller: Caller, wish: Wish, ids: Sequence[NodeId]) -> Taken | Paused | None:
        """Return the launch's claim, else claim the first of `ids` that may be; else the pause in the way, if any."""
        taker = caller.principal
        async with self._store.write(taker, Fences(named=caller.fences)) as tx:
            if wish.dispatch is not None:
                launched = await queue.lock_launch(tx, taker.id, wish.dispatch)
                if launched is not None:
                    return await _again(tx, taker, wish, launched.resource)
            picker = _Picker(tx, taker, wish)
            return await picker.pick(ids) or picker.pause


@dataclass(slots=True)
class _Seen:
    """What a page has read so far, judged: its items in the order read, and what is hidden from them."""

    viewer: Principal
    asked: View
    now: Instant
    read: int = 0
    items: list[Item] = field(default_factory=list)
    hidden: dict[Hidden, int] = field(default_factory=dict)

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Judge more of the queue."""
        scope = Scope(include_blocked=self.asked.include_blocked, everything=self.asked.assignee is not None)
        self.read += len(candidates)
        for candidate in candidates:
            shown = judge(candidate, self.viewer, self.now, scope)
            if isinstance(shown, Hidden):
                self.hidden[shown] = self.hidden.get(shown, 0) + 1
            elif self.asked.readiness is None or shown.readiness.value is self.asked.readiness:
                self.items.append(shown)


@dataclass(slots=True)
class _Look:
    """Looks at candidates before anything is locked. `kept` are those that only a pause keeps from being taken."""

    taker: Principal
    wish: Wish
    now: Instant
    kept: list[NodeId] = field(default_factory=list)

    def free(self, candidates: Sequence[Candidate]) -> list[NodeId]:
        """Return which of `candidates` seem to be takeable now, in their order."""
        takeable = [candidate for candidate in candidates if self._wanted(candidate)]
        self.kept += [candidate.id for candidate in takeable if candidate.paused]
        return [candidate.id for candidate in takeable if not candidate.paused]

    def _wanted(self, candidate: Candidate) -> bool:
        wish = self.wish
        return (
            candidate.id not in wish.exclude
            and (wish.types is None or candidate.type in wish.types)
            and (wish.project is None or candidate.project == wish.project)
            and may_take(candidate, self.taker, wish.accept, self.now) is None
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
        (candidate,) = await queue.candidates(self.tx, [node])
        await points.areach("next.relocked")
        now = await self.tx.now()
        if may_take(candidate, self.taker, self.wish.accept, now) is not None:
            return None
        item = judge(candidate, self.taker, now, Scope())
        assert isinstance(item, Item), (node, item)
        match await decide_within(self.tx, _ask(self.taker, self.wish, Resource(node))):
            case Done() as done:
                return Taken(item, done)
            case Paused() as refusal:
                self.pause = refusal
            case InvalidNode() | NotReady() | NotFound() | AlreadyClaimed() | LeaseLost():
                pass
            case refusal:
                raise refusal
        return None


async def _again(tx: Tx, taker: Principal, wish: Wish, launched: Resource) -> Taken:
    """Answer a repeated `next` with the claim its first sending made; its row is locked."""
    outcome = await decide_within(tx, _ask(taker, wish, launched))
    if isinstance(outcome, BatonError):
        raise outcome
    (candidate,) = await queue.candidates(tx, [NodeId(launched)])
    item = judge(candidate, taker, outcome.now, Scope(everything=True))
    assert isinstance(item, Item) or item is Hidden.DORMANT, item
    if isinstance(item, Hidden):
        raise LeaseLost(f"{launched} sleeps until {candidate.wake}; release it")
    return Taken(item, outcome)


def _ask(taker: Principal, wish: Wish, resource: Resource) -> Ask:
    return Ask(
        Request(taker, Verb.CLAIM, resource, session=wish.session, dispatch=wish.dispatch, provisional=True),
        Fences(),
    )


def require_few(items: Sequence[object], field_name: str, most: int) -> None:
    """Raise when a list of a request is longer than it may be."""
    if len(items) > most:
        raise Invalid(f"{field_name}: {len(items)} entries; the limit is {most}", field=field_name)
