"""Calls of `next` that arrive together: one look at the queue's head, one transaction for all (D15, D16).

    look at the head: every call is shown another item                    hints only, two round trips
    lock their lease rows, but none that somebody holds locked          ┐
    then launches, clock, policies, nonces, claim counts                │ one round trip
    then the facts of all of them again, under the locks                ┘
    judge each anew, decide by `core.leases`, write, COMMIT               one round trip

The head is the index's word, which tells neither who an item is routed to nor
what has just changed. So a call may miss its item: it is then asked for again
in the next set, and what it is shown there has been judged by its facts. What
a set cannot answer is answered alone (`services.choosing`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import points
from batonpass.core.clock import moment
from batonpass.core.errors import BatonError, Paused
from batonpass.core.ids import HolderId, Instant, NodeId, Resource
from batonpass.core.queue import Candidate, Item
from batonpass.core.ranking import day_number, lanes
from batonpass.server.services.change import Caller
from batonpass.server.services.choosing import (
    AGAINST_THE_ITEM,
    NEVER_TAKEN,
    TAKEN_FROM,
    Choice,
    Chooser,
    Part,
    Taken,
    Wish,
    ask_for,
    item_for,
)
from batonpass.server.services.coalesce import ALONE, Alone, Coalescer
from batonpass.server.services.engine import Done, along, decide_in, read_at
from batonpass.store import fences, leases, queue, ranking, taking
from batonpass.store.base import Fences, Reader, Store, Tx, Writer, now_asked, retried
from batonpass.store.leases import Policies
from batonpass.store.ranking import Narrow
from batonpass.store.taking import Launch

MISSES_MAX: Final = 4
"""How often a call is shown an item in vain before it is answered alone."""
SHOWN_FIRST: Final = 8
"""How many items are looked at first, at least: the best are mostly free."""
SHOWN_AT_ONCE: Final = 32
"""How many items are judged by their facts at a time."""


@dataclass(slots=True, eq=False)
class Want:
    """A call that waits for its item. `seen` are those it was shown in vain."""

    caller: Caller
    wish: Wish
    seen: set[NodeId] = field(default_factory=set)
    pause: Paused | None = None
    at_last: bool = False
    """Whether it was shown what a pause keeps back: there is nothing else for it."""
    rest: bool = True
    """Whether the last look may have left something in its part of the queue."""

    @property
    def key(self) -> Hashable:
        """Return what only one call of a set may have: a launch has one claim."""
        return self if self.wish.dispatch is None else self.launch

    @property
    def launch(self) -> Launch:
        """Return which launch it is of."""
        return self.wish.launch_of(self.caller.principal)

    def takes(self, candidate: Candidate, now: Instant) -> bool:
        """Whether it may have this item, as far as its facts are known."""
        return self.wish.allows(candidate, self.caller.principal, now)


@dataclass(frozen=True, slots=True)
class Missed:
    """What a call was shown and could not take, and the pause in the way if there is one.

    Without a node it was shown nothing, but another was shown in vain what this one may take.
    """

    node: NodeId | None
    pause: Paused | None = None


Answer = Taken | Missed | BatonError | None


class Taking:
    """Answers calls of `next` in sets."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offered: set[NodeId] = set()
        """What a set of this process is about to take: two sets at a time do not meet at one item."""
        self._chooser = Chooser(store, self._offered)
        self._queue: Coalescer[Want, Answer] = Coalescer(
            self._run_set, self._run_alone, key=_key, sets_max=store.writes_at_once
        )

    @property
    def waiting(self) -> int:
        """Return how many calls wait for the next set."""
        return self._queue.waiting

    async def take(self, caller: Caller, wish: Wish) -> Choice:
        """Return what the caller took, or that there was nothing; `Paused` when only a pause is in the way."""
        want = Want(caller, wish)
        for _ in range(MISSES_MAX):
            (answer,) = await self._queue.submit([want])
            match answer:
                case Missed(_, Paused() as pause) if want.at_last:
                    raise pause
                case Missed(node, pause):
                    want.seen |= {node} if node is not None else set()
                    want.pause = pause or want.pause
                case BatonError():
                    raise answer
                case Taken():
                    return Choice(answer, want.rest)
                case None if want.pause is not None:
                    raise want.pause
                case None:
                    return Choice(None, want.rest)
        return Choice(await self._chooser.choose(caller, wish))

    async def _run_alone(self, want: Want) -> Taken | None:
        want.rest = True
        return await self._chooser.choose(want.caller, want.wish)

    async def _run_set(self, wants: Sequence[Want]) -> list[Answer | Alone]:
        """Return the answer of each; those that nothing was found for are not part of the write."""
        async with self._offering(wants) as shown:
            answers: dict[Want, Answer | Alone] = dict(shown.alone)
            await points.areach("next.chosen")
            if shown.nodes:
                answers |= await self._taken(shown.nodes, shown.now)
        left = {want.wish.part for want in shown.nodes if not isinstance(answers[want], Taken)}
        for want in wants:
            if want.wish.part in left:
                want.rest = True
                answers.setdefault(want, Missed(None))
        return [answers.get(want) for want in wants]

    @asynccontextmanager
    async def _offering(self, wants: Sequence[Want]) -> AsyncIterator[_Shown]:
        """Yield what each is shown, and offer it to nobody else meanwhile."""
        async with self._store.glance() as tx:
            shown = await _Look.at(tx, wants, self._offered)
        mine = frozenset(shown.nodes.values())
        self._offered |= mine
        try:
            yield shown
        finally:
            self._offered -= mine

    @retried
    async def _taken(self, shown: dict[Want, NodeId], looked: Instant) -> dict[Want, Answer | Alone]:
        """Claim what each was shown, where that may be under the locks."""
        writers = [_writer(want, node) for want, node in shown.items()]
        asks = {want: ask_for(want.caller.principal, want.wish, Resource(node)) for want, node in shown.items()}
        launches = [want.launch for want in shown if want.wish.dispatch is not None]
        nodes = list(shown.values())
        first = [taking.launches_locked(launches), taking.launched_asked(launches)] if launches else []
        engines = along(self._store.clock, list(asks.values()))
        last = queue.candidates_asked(nodes, looked)
        async with self._store.write_set(writers, along=[*first, *engines, *last], skip_locked=True) as tx:
            await points.areach("next.picked")
            await points.areach("next.relocked")
            known = taking.launched(tx.along[1]) if launches else {}
            facts = {one.id: one for one in queue.candidates_of(nodes, tx.along[-len(last) :])}
            tx.along = tx.along[len(first) : -len(last)]
            now = read_at(tx)
            bench = _Bench(tx, now, known, facts)
            answers: dict[Want, Answer | Alone] = {}
            items: dict[Want, Item] = {}
            for position, ((want, node), writer) in enumerate(zip(shown.items(), writers, strict=True)):
                judged = bench.judged(position, want, node, writer)
                if isinstance(judged, Item):
                    items[want] = judged
                else:
                    answers[want] = judged
            tx.broken.clear()  # whoever stands on a broken fence has its answer; positions are others from here on
            if items:
                outcomes = await decide_in(tx, [asks[want] for want in items])
                for (want, item), outcome in zip(items.items(), outcomes, strict=True):
                    answers[want] = _answer(item, outcome)
            return answers


@dataclass(frozen=True, slots=True)
class _Shown:
    """What each call is shown; `alone` are those that a set can't answer."""

    now: Instant
    nodes: dict[Want, NodeId] = field(default_factory=dict)
    alone: dict[Want, Alone] = field(default_factory=dict)


@dataclass(slots=True)
class _Look:
    """One look at the head of the queue."""

    tx: Reader
    now: Instant
    policies: Policies
    scopes: Mapping[str | None, tuple[str, ...] | None]
    """The projects that each project's name stands for."""
    taken: set[NodeId]
    """What is offered already, here or by another set."""

    @classmethod
    async def at(cls, tx: Reader, wants: Sequence[Want], offered: Iterable[NodeId]) -> _Shown:
        """Return what each is shown: in order of arrival the best that is left of its part of the queue."""
        callers = [want.caller.principal for want in wants]
        asked = {name: ranking.scope_asked(name) for name in {want.wish.project for want in wants}}
        ((now,),), pausing, claimed, reserved, *members = await tx.fetch(
            now_asked(tx.clock),
            leases.policies_asked(),
            taking.launched_asked([want.launch for want in wants]),
            taking.reserving_asked(callers),
            *itertools.chain.from_iterable(asked.values()),
        )
        answers = iter(members)
        scopes = {
            name: ranking.scope_of(name, list(itertools.islice(answers, len(few)))) if name is not None else None
            for name, few in asked.items()
        }
        look = cls(tx, Instant(now), leases.policies(pausing), scopes, set(offered))
        return await look.show(wants, taking.launched(claimed), taking.reserving(reserved, callers, look.now))

    async def show(
        self, wants: Sequence[Want], launched: Collection[Launch], reserving: Collection[HolderId]
    ) -> _Shown:
        """Return what each is shown, but for those whose launch has its claim, and who reserve: they are alone."""
        shown = _Shown(self.now)
        parts: dict[Part, list[Want]] = defaultdict(list)
        for want in wants:
            if want.launch in launched or want.caller.principal.id in reserving:
                shown.alone[want] = ALONE
            elif want.wish.candidates is not None:
                await self._show_named(want, shown)
            else:
                parts[want.wish.part].append(want)
        for part, some in parts.items():
            await self._show_part(part, some, shown)
        return shown

    async def _show_named(self, want: Want, shown: _Shown) -> None:
        """Show the first of the candidates it names that is free."""
        assert want.wish.candidates is not None
        projects = self.scopes[want.wish.project]
        found = await queue.candidates(self.tx, want.wish.candidates, self.now, in_force=self.policies)
        free = [
            one
            for one in found
            if (projects is None or one.project in projects)
            and one.id not in self.taken | want.seen | want.wish.exclude
            and want.takes(one, self.now)
        ]
        if (node := next((one.id for one in free if not one.paused), None)) is not None:
            self._give(want, node, shown)
        else:
            self._give_last(want, [one.id for one in free], shown)

    async def _show_part(self, part: Part, wants: Sequence[Want], shown: _Shown) -> None:
        """Show each of `wants`, who look at one part of the queue, the best that is left of it."""
        project, accept, types = part
        narrow = Narrow(self.scopes[project], types, NEVER_TAKEN)
        today = day_number(moment(self.now).date())
        waiting = list(wants)
        size = max(len(waiting), SHOWN_FIRST)
        walk = await ranking.free_walk(self.tx, narrow, lanes(TAKEN_FROM[accept]), self.now, today=today, window=size)
        kept: list[NodeId] = []
        ended, read, given = False, 0, 0
        while waiting and not ended:
            rows = await walk.take(size)
            ended, read = len(rows) < size, read + len(rows)
            size = max(len(waiting), SHOWN_AT_ONCE)
            rows = [row for row in rows if row.id not in self.taken]
            kept += [row.id for row in rows if self._paused(row.project)]
            free = [row.id for row in rows if not self._paused(row.project)]
            facts = await self._facts(free, waiting)
            for node in free:
                want = next((one for one in waiting if self._suits(one, node, facts)), None)
                if want is not None:
                    self._give(want, node, shown)
                    waiting.remove(want)
                    given += 1
        for want in wants:
            want.rest = not ended or read > given
        for want in waiting:
            self._give_last(want, kept, shown)

    async def _facts(self, ids: Sequence[NodeId], waiting: Sequence[Want]) -> dict[NodeId, Candidate]:
        """Return the facts of items, where anybody is to be shown only what has been judged by them."""
        if not any(want.seen for want in waiting):
            return {}
        return {one.id: one for one in await queue.candidates(self.tx, ids, self.now, in_force=self.policies)}

    def _suits(self, want: Want, node: NodeId, facts: dict[NodeId, Candidate]) -> bool:
        if node in want.wish.exclude or node in want.seen:
            return False
        return not want.seen or (node in facts and want.takes(facts[node], self.now))

    def _paused(self, project: str | None) -> bool:
        return self.policies.for_project(project).paused is not None

    def _give(self, want: Want, node: NodeId, shown: _Shown) -> None:
        shown.nodes[want] = node
        self.taken.add(node)

    def _give_last(self, want: Want, kept: Sequence[NodeId], shown: _Shown) -> None:
        """Show what a pause keeps back when there is nothing else: the engine says why, or grants it if it is over."""
        node = next((one for one in kept if one not in want.wish.exclude and one not in want.seen), None)
        if node is not None:
            want.at_last = True
            shown.nodes[want] = node


def _key(want: Want) -> Hashable:
    return want.key


def _writer(want: Want, node: NodeId) -> Writer:
    return Writer(want.caller.principal, Fences(named=want.caller.fences, changing=frozenset({Resource(node)})))


@dataclass(frozen=True, slots=True)
class _Bench:
    """One set under its locks, and what each of its items is judged by."""

    tx: Tx
    now: Instant
    launched: Collection[Launch]
    facts: dict[NodeId, Candidate]

    def judged(self, position: int, want: Want, node: NodeId, writer: Writer) -> Item | Answer | Alone:
        """Return the item if the call may have it, else its answer."""
        if want.launch in self.launched or self.tx.skipped & (_resources(writer) - {Resource(node)}):
            return ALONE
        if Resource(node) in self.tx.skipped:
            return Missed(node)
        if position in self.tx.broken:
            return fences.lost(self.tx, position, writer, self.now)
        candidate = self.facts.get(node)
        item = item_for(candidate, want.caller.principal, want.wish, self.now) if candidate is not None else None
        return item if item is not None else Missed(node)


def _resources(writer: Writer) -> frozenset[Resource]:
    return writer.fences.resources(writer.principal)


def _answer(item: Item, outcome: Done | BatonError | Alone) -> Answer | Alone:
    """Return what a decision means for a call: what speaks against the item is no answer, what against the taker is."""
    match outcome:
        case Done():
            return Taken(item, outcome)
        case Paused():
            return Missed(item.candidate.id, outcome)
        case refusal if isinstance(refusal, AGAINST_THE_ITEM):
            return Missed(item.candidate.id)
        case refusal:
            return refusal
