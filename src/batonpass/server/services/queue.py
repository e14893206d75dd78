"""The queue: pages for people and pollers, and `next`, which chooses and claims in one transaction (D13 to D16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import points
from batonpass.core.errors import AlreadyClaimed, BatonError, Invalid, LeaseLost
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId, PersonId, Resource
from batonpass.core.leases import Request, Verb
from batonpass.core.queue import Accept, Hidden, Item, Scope, judge, may_take, order
from batonpass.core.readiness import Ready
from batonpass.server.services.change import Caller, require_writer
from batonpass.server.services.engine import Ask, Done, decide_within
from batonpass.store import queue
from batonpass.store.base import Fences, Store, Tx, retried

SCANNED_MAX: Final = 1000
"""How many items a page ranks and counts at most; beyond, the counts say that they are capped."""
LIMIT_MAX: Final = 100
CANDIDATES_MAX: Final = 50
EXCLUDED_MAX: Final = 200
LOOKED_AT: Final = (32, SCANNED_MAX)
"""How many of the best free items `next` considers: mostly one of the first may be taken, and reading all is slow."""
PICKS_MAX: Final = 200
"""How many items `next` looks at under their locks before it says that there is nothing."""


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
    """One page of the queue. `ranked` is the whole filtered ranking, `items` this page of it."""

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
        """Return a page as `viewer` sees it, with what it hides counted."""
        async with self._store.read() as tx:
            now = await tx.now()
            ids = await queue.candidate_ids(
                tx,
                project=asked.project,
                types=asked.types,
                exclude_types=asked.exclude_types,
                assignee=asked.assignee,
                most=SCANNED_MAX + 1,
            )
            candidates = await queue.candidates(tx, ids[:SCANNED_MAX])
        scope = Scope(include_blocked=asked.include_blocked, everything=asked.assignee is not None)
        hidden: dict[Hidden, int] = {}
        items: list[Item] = []
        for candidate in candidates:
            shown = judge(candidate, viewer, now, scope)
            if isinstance(shown, Hidden):
                hidden[shown] = hidden.get(shown, 0) + 1
            elif asked.readiness is None or shown.readiness.value is asked.readiness:
                items.append(shown)
        ranked = tuple(sorted(items, key=order))
        page = ranked[asked.offset : asked.offset + min(asked.limit, LIMIT_MAX)]
        return Page(page, ranked, hidden, capped=len(ids) > SCANNED_MAX, now=now)

    @retried
    async def next(self, caller: Caller, wish: Wish) -> Taken | None:
        """Choose the best item the caller may take and claim it, or return None when there is none.

        The same live `dispatch` gets the same claim again, so a lost answer is
        asked for once more and costs nothing; the grant's horizon is a minute
        until its first renewal.
        """
        require_writer(caller.principal)
        if wish.dispatch is not None:
            async with self._store.read() as tx:
                launched = await queue.launched(tx, caller.principal.id, wish.dispatch)
            if launched is not None:
                return await self._again(caller, wish, launched)
        async with self._store.write(caller.principal, Fences(named=caller.fences)) as tx:
            picker = _Picker(tx, caller.principal, wish)
            if wish.candidates is not None:
                return await picker.pick(wish.candidates)
            for most in LOOKED_AT:
                ids = await picker.look(most)
                if (taken := await picker.pick(ids)) is not None or len(ids) < most:
                    return taken
            return None

    async def _again(self, caller: Caller, wish: Wish, launched: Resource) -> Taken:
        """Answer a repeated `next` with the claim its first sending made."""
        fences = Fences(named=caller.fences, changing=frozenset({launched}))
        async with self._store.write(caller.principal, fences) as tx:
            outcome = await decide_within(tx, _ask(caller.principal, wish, launched))
            if isinstance(outcome, BatonError):
                raise outcome
            (candidate,) = await queue.candidates(tx, [NodeId(launched)])
            item = judge(candidate, caller.principal, outcome.now, Scope(everything=True))
            assert isinstance(item, Item) or item is Hidden.DORMANT, item
            if isinstance(item, Hidden):
                raise LeaseLost(f"{launched} sleeps until {candidate.wake}; release it")
            return Taken(item, outcome)


@dataclass(slots=True)
class _Picker:
    """Looks at items under their locks, in rank order, until one may be taken (D15)."""

    tx: Tx
    taker: Principal
    wish: Wish
    seen: set[NodeId] = field(default_factory=set)

    async def look(self, most: int) -> list[NodeId]:
        """Return the best items that seem free, own reservations first: `most` of them unless there are fewer."""
        wish, now = self.wish, await self.tx.now()
        return await queue.takeable_ids(self.tx, self.taker, project=wish.project, types=wish.types, now=now, most=most)

    async def pick(self, ids: Sequence[NodeId]) -> Taken | None:
        """Claim the first of `ids` that is free and may be taken, or return None. None is looked at twice."""
        left = await self._eligible([node for node in ids if node not in self.wish.exclude | self.seen])
        self.seen.update(ids)
        for _ in range(PICKS_MAX):
            lease = await queue.pick(self.tx, left) if left else None
            if lease is None:
                return None
            await points.areach("next.picked")
            node = NodeId(lease.resource)
            taken = await self._claim(node)
            if taken is not None:
                return taken
            left = left[left.index(node) + 1 :]
        return None

    async def _eligible(self, ids: Sequence[NodeId]) -> list[NodeId]:
        """Return the ids that look takeable; a hint, since nothing is locked yet."""
        now = await self.tx.now()
        candidates = await queue.candidates(self.tx, ids)
        own_first = sorted(
            (c for c in candidates if may_take(c, self.taker, self.wish.accept, now) is None),
            key=lambda c: not (c.lease is not None and c.lease.in_force(now)),
        )
        return [candidate.id for candidate in own_first if self._wanted(candidate.type, candidate.project)]

    def _wanted(self, kind: str, project: str | None) -> bool:
        wish = self.wish
        return (wish.types is None or kind in wish.types) and (wish.project is None or project == wish.project)

    async def _claim(self, node: NodeId) -> Taken | None:
        """Judge the item again under its lock, in statements of their own, and only then grant it."""
        (candidate,) = await queue.candidates(self.tx, [node])
        await points.areach("next.relocked")
        now = await self.tx.now()
        if may_take(candidate, self.taker, self.wish.accept, now) is not None:
            return None
        item = judge(candidate, self.taker, now, Scope())
        assert isinstance(item, Item), (node, item)
        outcome = await decide_within(self.tx, _ask(self.taker, self.wish, Resource(node)))
        if isinstance(outcome, BatonError):
            if isinstance(outcome, AlreadyClaimed | LeaseLost):
                return None
            raise outcome
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
