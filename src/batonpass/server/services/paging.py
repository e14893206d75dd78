"""A page of the queue: its items in their exact order, judged on the facts, and what else there is, counted (D16)."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

from batonpass.core import ranking
from batonpass.core.clock import moment
from batonpass.core.eligibility import Hidden, Scope
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId, PersonId
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.queue import HELD_ABOVE, Candidate, Item, judge, order, suggested
from batonpass.core.readiness import Ready
from batonpass.server.services.cuts import SPARE, Cuts
from batonpass.store import counting, leases, queue
from batonpass.store import ranking as stored
from batonpass.store.base import Reader, Row, Statement, now_asked
from batonpass.store.leases import Policies
from batonpass.store.ranking import Listed, Narrow, Place, Skimmed, Walk

JUDGED_MIN: Final = 8
JUDGED_AT_ONCE: Final = 32
"""How many items are judged at a time: as many as the page still lacks, within these bounds."""
COUNTED_MAX: Final = 1000
"""How many items the counts of a page cover; it says so when there are more."""
LIMIT_MAX: Final = 100
PASSES_MAX: Final = 10
"""How far up a chain of blockers a score is kept below theirs (companion 3.5)."""


@dataclass(frozen=True, slots=True)
class View:
    """What a page is about: whose view, which scope, which filters. With `count_all` the counts have no end."""

    project: str | None = None
    types: tuple[str, ...] | None = None
    exclude_types: tuple[str, ...] = ()
    readiness: Ready | None = None
    assignee: PersonId | None = None
    include_blocked: bool = False
    limit: int = 20
    offset: int = 0
    count_all: bool = False

    @property
    def end(self) -> int:
        """Return how many items there are up to the end of the page."""
        return self.offset + min(self.limit, LIMIT_MAX)


@dataclass(slots=True)
class Counts:
    """What the whole filtered ranking is made of, as far as it was counted."""

    total: int = 0
    by_type: Counter[str] = field(default_factory=Counter)
    by_project: Counter[str] = field(default_factory=Counter)
    by_suggest: Counter[str] = field(default_factory=Counter)
    by_readiness: Counter[str] = field(default_factory=Counter)
    """For whom they are; proposals are for nobody in particular."""
    capped: bool = False

    def add(self, kind: str, project: str | None, suggest: str, ready: Ready | None, *, times: int = 1) -> None:
        """Count an item, or several that are alike."""
        self.total += times
        self.by_type[kind] += times
        self.by_project[project or "none"] += times
        self.by_suggest[suggest] += times
        if ready is not None:
            self.by_readiness[ready] += times


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the queue: its items, whether more follow, and what was counted of the rest and of what is hidden.

    `cycles` are those of its items that block themselves, round about.
    """

    items: tuple[Item, ...]
    more: bool
    counts: Counts
    hidden: dict[Hidden, int]
    cycles: frozenset[NodeId]
    project_warning: str | None
    now: Instant


async def read_page(tx: Reader, viewer: Principal, asked: View, cuts: Cuts) -> Page:
    """Return a page as `viewer` sees it in this snapshot; `cuts` say where such pages were counted up to before."""
    reading = await _Reading.begin(tx, viewer, asked, cuts)
    ranked = await reading.ranked(asked.end + 1)
    page = tuple(ranked[asked.offset : asked.end])
    hidden = await reading.count_rest(len(ranked))
    warning = None
    if reading.projects is not None and not ranked and not hidden and not await stored.is_known(tx, reading.projects):
        warning = f"no repository, grouping or node goes by {asked.project}; is the name right?"
    return Page(
        page,
        len(ranked) > asked.end,
        reading.counts,
        hidden,
        await queue.in_cycles(tx, [item.candidate.id for item in page if item.candidate.blocked_by]),
        warning,
        reading.now,
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the database counted from one place up to a cut, and the walk that goes on behind it."""

    since: Place | None
    cut: Place
    behind: Walk
    tallies: Sequence[Row]
    first: Sequence[Row]
    """The answer to what the walk asks first."""


@dataclass(slots=True)
class _Reading:
    """A page as it is being read, in one snapshot."""

    tx: Reader
    viewer: Principal
    asked: View
    cuts: Cuts
    now: Instant
    projects: tuple[str, ...] | None
    narrow: Narrow
    scope: Scope
    lanes: list[int]
    policies: Policies
    walk: Walk = field(init=False)
    beside: list[Listed] = field(default_factory=list)
    members: frozenset[NodeId] | None = None
    stewarded: frozenset[str] = frozenset()
    unseen: dict[Hidden, int] = field(default_factory=dict)
    """What the index hides, counted; without an end only once everything is counted."""
    counts: Counts = field(default_factory=Counts)
    hidden: dict[Hidden, int] = field(default_factory=dict)
    judged: dict[NodeId, Item | None] = field(default_factory=dict)
    """Every node judged so far; None for one that is not in the list."""
    counted: _Counted | None = None

    @classmethod
    async def begin(cls, tx: Reader, viewer: Principal, asked: View, cuts: Cuts) -> _Reading:
        """Find out what the page is over, and read what is asked of every page, in two round trips."""
        muting, scoping = stored.muted_asked(viewer.person), stored.scope_asked(asked.project)
        ((clock,),), policies, *answers = await tx.fetch(
            now_asked(tx.clock), leases.policies_asked(), *muting, *scoping
        )
        now = Instant(clock)
        today = moment(now).date()
        projects = stored.scope_of(asked.project, answers[len(muting) :]) if asked.project is not None else None
        scope = Scope(
            include_blocked=asked.include_blocked,
            everything=asked.assignee is not None,
            front=await stored.front(tx, viewer, now),
            mutes=stored.muted_of(answers[: len(muting)], today),
        )
        reading = cls(
            tx,
            viewer,
            asked,
            cuts,
            now,
            projects,
            Narrow(projects, asked.types, asked.exclude_types),
            scope,
            stored.ready_lanes(asked.readiness, blocked=scope.include_blocked or scope.everything),
            leases.policies(policies),
        )
        await (reading.open() if asked.assignee is None else reading.open_for(asked.assignee))
        return reading

    async def open(self) -> None:
        """Read what is beside the lanes, the first of each, and how much is hidden; all of that is counted later."""
        tx, number = self.tx, ranking.day_number(self.today)
        walk = Walk(tx, self.narrow, self.lanes, today=number)
        beside = stored.beside_asked(self.narrow, self.viewer, self.now, today=number, front=self.scope.front)
        hidden: list[Statement] = []
        if not self.asked.count_all:
            blocked = not self.scope.include_blocked
            hidden = counting.hidden_asked(self.narrow, self.viewer, self.now, today=number, blocked=blocked)
            del beside[0]  # which comes along with what is hidden
        first, *answers = await tx.fetch(walk.ask(), *hidden, *beside)
        if hidden:
            by_reason, marked, *answers = answers
            self.unseen = counting.hidden([by_reason, marked])
            answers = [counting.lapsed(marked), *answers]
        self.beside = stored.beside(answers, today=number, front=self.scope.front)
        walk.put(self.beside)
        walk.answer(first)
        self.walk = walk

    async def open_for(self, assignee: PersonId) -> None:
        """Read what somebody is assigned, holds or stewards: nothing of it is hidden."""
        tx, number, projects = self.tx, ranking.day_number(self.today), self.projects
        self.members = await stored.assigned(tx, assignee)
        self.stewarded = frozenset(await stored.stewarded(tx, assignee)).intersection(*_given(projects))
        of = tuple(sorted(self.stewarded))
        self.lanes = [*self.lanes, ranking.GATING]
        self.walk = Walk(tx, replace(self.narrow, projects=of), self.lanes, today=number)
        self.beside = [
            *await stored.items(tx, self.members, self.narrow, today=number),
            *await stored.held_in(tx, of, today=number),
        ]
        self.walk.put(self.beside)

    @property
    def today(self) -> date:
        """The day on the database's clock."""
        return moment(self.now).date()

    async def ranked(self, most: int) -> list[Item]:
        """Return the first items in their exact order.

        More is read until nothing unread can come before the last of them: an
        item's place in the index is no worse than its place in the order.
        """
        found: list[Item] = []
        waiting: list[tuple[tuple[bool, int, Instant, NodeId], Item]] = []
        while len(found) < most:
            bound = await self.walk.bound()
            while waiting and len(found) < most and (bound is None or waiting[0][0] <= bound):
                found.append(heapq.heappop(waiting)[1])
            if bound is None or len(found) == most:
                break
            wanted = max(most - len(found) - len(waiting), JUDGED_MIN)
            rows = await self.walk.take(min(wanted, JUDGED_AT_ONCE))
            for item in await self._judge(rows, last=wanted <= JUDGED_AT_ONCE):
                heapq.heappush(waiting, (order(item, self.viewer), item))
        return found

    async def count_rest(self, ranked: int) -> dict[Hidden, int]:
        """Count what else there is, as the index has it, and what is hidden; return the latter."""
        if self.asked.count_all:
            await self._count_all()
            if self.members is None:
                blocked, number = not self.scope.include_blocked, ranking.day_number(self.today)
                self.unseen = await counting.all_hidden(
                    self.tx, self.narrow, self.viewer, self.now, today=number, blocked=blocked
                )
        else:
            await self._count_on(ranked)
        for why, count in self.unseen.items():
            self.hidden[why] = self.hidden.get(why, 0) + count
        return self.hidden

    async def _judge(self, rows: Sequence[Listed], *, last: bool) -> list[Item]:
        """Return which of these are in the list, with their exact scores; they are the `last`, if all of them are."""
        shown: list[Item] = []
        elsewhere = {row.id for row in rows if not row.beside and row.lane not in self.lanes}
        for candidate in await self._candidates([row.id for row in rows], last=last):
            self.judged[candidate.id] = None
            seen = judge(candidate, self.viewer, self.now, self.scope)
            if isinstance(seen, Hidden):
                # The index itself counts what stands in a lane that is not shown, and what is marked as held: of what
                # is judged that is only what the viewer worked on, as no lane shows it.
                held = seen in {Hidden.LEASED, Hidden.RESERVED} and candidate.id in self.scope.front
                if seen is not Hidden.GONE and not held and candidate.id not in elsewhere:
                    self.hidden[seen] = self.hidden.get(seen, 0) + 1
            elif self._belongs(candidate, seen):
                shown.append(seen)
        for item in shown:
            self.judged[item.candidate.id] = item
        return [await self._below_its_blockers(item) for item in shown]

    async def _candidates(self, ids: Sequence[NodeId], *, last: bool = False) -> list[Candidate]:
        # What comes to be judged on the way up counts wherever it stands, so there the count waits for it.
        if last and not self.scope.include_blocked and (cut := self._cut()) is not None:
            behind, count = self._count_asked(cut)
            candidates, (tallies, first) = await queue.candidates_along(
                self.tx, ids, self.now, [count, behind.ask()], in_force=self.policies
            )
            self.counted = _Counted(self.walk.last, cut, behind, tallies, first)
        else:
            candidates = await queue.candidates(self.tx, ids, self.now, in_force=self.policies)
        worked_on = [node for node in ids if self.scope.front.get(node, 0) > HELD_ABOVE]
        if not worked_on:
            return candidates
        outcomes = await queue.outcomes(self.tx, worked_on)
        return [replace(one, outcomes=tuple(outcomes.get(one.id, ()))) for one in candidates]

    def _belongs(self, candidate: Candidate, item: Item) -> bool:
        """Whether an item that the viewer sees is one that the page is about."""
        asked, mine = self.asked, self.members
        return (
            NODE_TYPES[candidate.type].queueable
            and (asked.types is None or candidate.type in asked.types)
            and candidate.type not in asked.exclude_types
            and (self.projects is None or candidate.project in self.projects)
            and (asked.readiness is None or item.ready is asked.readiness)
            and (mine is None or candidate.id in mine or candidate.project in self.stewarded)
        )

    async def _below_its_blockers(self, item: Item) -> Item:
        """Return the item with its score below that of every blocker in the list."""
        if not item.candidate.blocked_by:
            return item
        await self._judge_upwards(item.candidate.blocked_by)
        units = self._units(item, PASSES_MAX, {})
        return replace(item, units=units) if units != item.units else item

    async def _judge_upwards(self, ids: Iterable[NodeId]) -> None:
        """Judge nodes and those that block them, as far up as they can matter."""
        level: Collection[NodeId] = frozenset(ids)
        for _ in range(PASSES_MAX):
            unknown = sorted(node for node in level if node not in self.judged)
            for candidate in await self._candidates(unknown):
                seen = judge(candidate, self.viewer, self.now, self.scope)
                listed = isinstance(seen, Item) and self._belongs(candidate, seen)
                self.judged[candidate.id] = seen if isinstance(seen, Item) and listed else None
            found = [one for node in level if (one := self.judged.get(node)) is not None]
            level = {blocker for one in found for blocker in one.candidate.blocked_by}
            if not level:
                return

    def _units(self, item: Item, passes: int, known: dict[tuple[NodeId, int], int]) -> int:
        """Return an item's score below those of its blockers, which are below theirs, so many times up."""
        key = (item.candidate.id, passes)
        if key not in known:
            above = [one for node in item.candidate.blocked_by if (one := self.judged.get(node)) is not None]
            scores = (self._units(one, passes - 1, known) for one in above) if passes else ()
            known[key] = ranking.capped(item.units, scores)
        return known[key]

    # --- counting --------------------------------------------------------------------------------------------------

    async def _count_on(self, ranked: int) -> None:
        """Count what was judged and what comes next in the index, and keep the place some items before the end."""
        self._count_judged()
        await self._count_to_cut()
        await self._skim_to(COUNTED_MAX - SPARE)
        if self._cuttable and self.walk.last is not None:
            self.cuts.put(self.narrow, self.lanes, self.walk.last)
        await self._skim_to(COUNTED_MAX)
        self.counts.capped = self.counts.total >= max(COUNTED_MAX, ranked) and await self.walk.bound() is not None

    async def _skim_to(self, total: int) -> None:
        """Count item by item until there are so many."""
        while (left := total - self.counts.total) > 0:
            unread = await self.walk.skim(left)
            self._count(unread)
            if len(unread) < left:
                break

    @property
    def _cuttable(self) -> bool:
        """Whether the database can count on its own: it knows nothing of mutes, nor of lanes without a score."""
        return self.members is None and not self.scope.mutes.names and not self.asked.count_all

    def _cut(self) -> Place | None:
        """Return up to where the database can count, if that is further than the walk has come."""
        cut = self.cuts.of(self.narrow, self.lanes) if self._cuttable else None
        return cut if cut is not None and (self.walk.last is None or cut > self.walk.last) else None

    def _count_asked(self, cut: Place) -> tuple[Walk, Statement]:
        """Ask for the count from where the walk is up to a cut, and return who goes on from there."""
        known = self.walk.known.union(self.judged)
        return self.walk.behind(cut), counting.between_asked(self.walk, cut, known)

    async def _count_to_cut(self) -> None:
        """Count up to the cut in one step, as long as that is no more than is counted in all."""
        counted = self.counted
        if counted is None or counted.since != self.walk.last:
            if (cut := self._cut()) is None:
                return
            behind, count = self._count_asked(cut)
            rows, first = await self.tx.fetch(count, behind.ask())
            counted = _Counted(self.walk.last, cut, behind, rows, first)
        tallies, beside = counting.between(counted.tallies, self.narrow), self.walk.beside_left()
        passed = [one for one in beside if one.key <= counted.cut]
        left = COUNTED_MAX - self.counts.total - len(passed)
        if tallies is None or sum(tally.count for tally in tallies) > left:
            return
        for tally in tallies:
            self._add(tally.type, tally.project, tally.lane, tally.count, stale=tally.stale)
        self._count((one.id, one.type, one.project, one.lane, one.stale) for one in passed)
        self.walk = counted.behind
        self.walk.put(one for one in beside if one.key > counted.cut)
        self.walk.answer(counted.first)

    def _count_judged(self) -> None:
        for item in self.judged.values():
            if item is not None:
                self.counts.add(item.candidate.type, item.candidate.project, item.suggest, item.ready)

    def _count(self, unjudged: Iterable[Skimmed]) -> None:
        """Count items that were not judged, as the index has them: those that are alike together."""
        mutes = self.scope.mutes
        alike: Counter[tuple[str, str | None, int, bool]] = Counter()
        for node, kind, project, lane, stale in unjudged:
            if mutes.names and mutes.cover(node, project):
                self.hidden[Hidden.MUTED] = self.hidden.get(Hidden.MUTED, 0) + 1
            elif node not in self.judged:
                alike[kind, project, lane, stale] += 1
        for (kind, project, lane, stale), times in alike.items():
            if self.asked.readiness is None or _ready_of(lane) is self.asked.readiness:
                self._add(kind, project, lane, times, stale=stale)

    def _add(self, kind: str, project: str | None, lane: int, times: int, *, stale: bool) -> None:
        """Count items that are alike, as the index has them."""
        ready = _ready_of(lane)
        suggest = suggested(ready, blocked=ranking.BLOCKED <= lane < ranking.DORMANT, stale=stale)
        self.counts.add(kind, project, suggest, ready, times=times)

    async def _count_all(self) -> None:
        """Count everything there is, as the index has it."""
        if self.members is not None:
            self._count_judged()
            while unread := await self.walk.skim(COUNTED_MAX):
                self._count(unread)
            return
        number = ranking.day_number(self.today)
        self.hidden.pop(Hidden.MUTED, None)  # those that were judged are counted once more here
        for tally in await counting.census(self.tx, self.narrow, self.lanes, today=number):
            self._count_alike(tally.project, tally.type, tally.lane, tally.count, stale=tally.stale)
        for one in await stored.items(self.tx, map(NodeId, self.scope.mutes.names), self.narrow, today=number):
            if one.lane in self.lanes and one.project not in self.scope.mutes.names:
                self._count_alike(one.project, one.type, one.lane, -1, stale=one.stale)
                self.hidden[Hidden.MUTED] = self.hidden.get(Hidden.MUTED, 0) + 1
        for one in self.beside:
            if one.beside and (item := self.judged.get(one.id)) is not None:
                self.counts.add(one.type, one.project, item.suggest, item.ready)
            elif one.beside:
                self._count([(one.id, one.type, one.project, one.lane, one.stale)])

    def _count_alike(self, project: str | None, kind: str, lane: int, times: int, *, stale: bool) -> None:
        if project in self.scope.mutes.names:
            self.hidden[Hidden.MUTED] = self.hidden.get(Hidden.MUTED, 0) + times
            return
        self._add(kind, project, lane, times, stale=stale)


def _ready_of(lane: int) -> Ready | None:
    """Return whom the items of a lane are for; one that only counts is for nobody."""
    return ranking.ready_of(lane) if lane < ranking.DORMANT else None


def _given(projects: tuple[str, ...] | None) -> list[frozenset[str]]:
    return [frozenset(projects)] if projects is not None else []
