"""The queue's order: the index that keeps it, read lane by lane and merged, and what has to be derived anew (D16).

`Walk` gives items in the order of their score without reading what ranks
further down. Who keeps the index is `store.items`.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final, TypedDict

from batonpass.core import ranking
from batonpass.core.clock import micros
from batonpass.core.eligibility import Mutes, mutes
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId, PersonId
from batonpass.core.readiness import Ready
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, as_json, q

WINDOW_FIRST: Final = 32
WINDOW_MAX: Final = 512
"""How many items of a lane are read at a time: few for whoever finds something soon, more for whoever has to go on.
SQLite is read on the event loop, which stands still for so many."""
BESIDE_MAX: Final = 1000
"""How many items are put into the order from beside the lanes, for each reason; of more, the others stay out of sight
until they are derived or released."""
FRONT_WITHIN: Final = timedelta(days=7)
FRONT_MAX: Final = 500
"""How many items of a person's own recent work are looked at, the busiest first."""
UNKNOWN: Final = 2**62
"""The score of an item that has turned: whatever it may be, so that it is judged before anything is said."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Which items a reader wants; None is all of them."""

    projects: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    exclude_types: tuple[str, ...] = ()

    def wants(self, kind: str) -> bool:
        """Whether items of a type are wanted."""
        return (self.types is None or kind in self.types) and kind not in self.exclude_types

    def params(self) -> dict[str, object]:
        """Return the parameters of a statement that narrows by them."""
        return {
            "projects": as_json(self.projects) if self.projects is not None else None,
            "types": as_json(self.types) if self.types is not None else None,
            "exclude_types": as_json(self.exclude_types),
        }


@value(frozen=True, slots=True)
class Listed:
    """An item as the index has it. `units` is no less than its score, unless its index row lags behind (D16)."""

    id: NodeId
    type: str
    project: str | None
    lane: int
    units: int
    born: Instant
    stale: bool
    first: bool = False
    """Whether it is a reservation of the viewer's own, which comes before everything (D14)."""
    beside: bool = False
    """Whether no lane shows it."""

    @property
    def key(self) -> Place:
        """Return its place in the order; the smallest comes first."""
        return (not self.first, -self.units, self.born, self.id)


Place = tuple[bool, int, Instant, NodeId]
"""An item's place in the order: not a reservation of the viewer's own, score with its sign turned, birth, id."""
Skimmed = tuple[NodeId, str, str | None, int, bool]
"""Of an item that is only counted: id, type, project, lane, whether it is stale."""


@dataclass(slots=True)
class _Head:
    """How far a lane has been read."""

    where: Mapping[str, str | int]
    place: int = -(2**62)
    born: int = -(2**62)
    node: str = ""
    read: deque[Row] = field(default_factory=deque)
    last: bool = False
    size: int = 0


class Walk:
    """Items in the order of their score, from lanes and from beside them, as far as somebody wants them."""

    def __init__(
        self,
        tx: Reader,
        narrow: Narrow,
        lanes: Sequence[int],
        *,
        today: int,
        window: int | None = None,
    ) -> None:
        self._tx = tx
        self.narrow = narrow
        self.today = today
        self._lanes = lanes
        size = window or WINDOW_FIRST
        self._heads = [_Head(where, size=size) for where in heads(narrow, lanes)]
        self.last: Place | None = None
        """The place of the last item that was taken."""
        self.known: set[NodeId] = set()
        self._empty = set(range(len(self._heads)))
        """The lanes that are to be read on before anything else is taken."""
        self._next: list[tuple[Place, Listed, int]] = []
        self._size = 0

    def put(self, beside: Iterable[Listed]) -> None:
        """Put items from beside the lanes into the order; before anything of the lanes is answered."""
        beside = {item.id: item for item in beside}.values()
        self.known.update(item.id for item in beside)
        self._next += [(item.key, item, -1) for item in beside]
        heapq.heapify(self._next)

    async def take(self, most: int) -> list[Listed]:
        """Return the next items, fewer than `most` only at the end."""
        taken: list[Listed] = []
        while len(taken) < most:
            await self._fill(most - len(taken))
            if not self._next:
                break
            self.last, item, n = heapq.heappop(self._next)
            taken.append(item)
            if n >= 0:
                self._advance(n)
        return taken

    async def bound(self) -> Place | None:
        """Return the place of the next item, which none of the unread comes before; None when there is none."""
        await self._fill()
        return self._next[0][0] if self._next else None

    async def skim(self, most: int) -> list[Skimmed]:
        """Return of the next items what they are counted by, as `take` would; where a lane leads, whole runs of it."""
        taken: list[Skimmed] = []
        while len(taken) < most:
            await self._fill(most - len(taken))
            if not self._next:
                break
            self.last, item, n = heapq.heappop(self._next)
            taken.append((item.id, item.type, item.project, item.lane, item.stale))
            if n >= 0:
                taken += self._run(n, most - len(taken))
                self._advance(n)
        return taken

    def _run(self, n: int, most: int) -> Iterator[Skimmed]:
        """Yield from a lane what scores more than everything that is next in the others."""
        read = self._heads[n].read
        in_order, others = self._next[0][0][:2] if self._next else (True, -(2**62))
        if not read or not in_order or read[0][4] >= ranking.DORMANT:
            return
        # A score is what it would be at place 0 less the place; the others' is there with its sign turned.
        end = ranking.units_on(self.today, pace=ranking.pace_of(read[0][4]), place=0) + others
        while read and most > 0 and read[0][5] < end:
            _, node, kind, project, lane, place, born, _, stale = read.popleft()
            self.last = (True, place - _shift(lane, self.today), born, node)
            yield NodeId(node), kind, project, lane, bool(stale)
            most -= 1

    def heads_up_to(self, cut: Place) -> list[dict[str, object]]:
        """Return where each lane goes on behind the last item taken, and where `cut` is in it."""
        found = []
        for head in self._heads:
            end = _in_lane(head, cut, self.today)
            ends = {"end_place": end["place"], "end_born": end["born"], "end_node": end["node"]}
            found.append({**head.where, **_in_lane(head, self.last, self.today), **ends})
        return found

    def behind(self, cut: Place) -> Walk:
        """Return a walk over what the lanes have behind `cut`, nothing read yet, nor put beside them."""
        walk = Walk(self._tx, self.narrow, self._lanes, today=self.today)
        for head in walk._heads:
            found = _in_lane(head, cut, self.today)
            head.place, head.born, head.node = found["place"], found["born"], found["node"]
        walk.last = cut
        walk.known = self.known
        return walk

    def beside_left(self) -> list[Listed]:
        """Return what from beside the lanes has not been taken."""
        return [item for _, item, n in self._next if n < 0]

    async def _fill(self, wanted: int = 1) -> None:
        """Read on in every lane whose next item isn't known; more at once for whoever wants many."""
        while self._empty:
            # Not inside a write: the event loop runs in between (D42).
            await asyncio.sleep(0)
            (rows,) = await self._tx.fetch(self.ask(wanted))
            self.answer(rows)

    def ask(self, wanted: int = 1) -> Statement:
        """Ask for what comes next in every lane whose next item isn't known, to be sent along; see `answer`."""
        by_project, by_type = self.narrow.projects is not None, self.narrow.types is not None
        statement = "ranking.scan_in" if by_project else "ranking.scan_of" if by_type else "ranking.scan"
        empty = [(n, self._heads[n]) for n in sorted(self._empty)]
        self._size = min(max([wanted // 2, *(head.size for _, head in empty)]), WINDOW_MAX)
        return q(statement, heads=as_json([_behind(n, head) for n, head in empty]), most=self._size)

    def answer(self, rows: Sequence[Row]) -> None:
        """Take the answer to `ask`."""
        found: dict[int, list[Row]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        for n in sorted(self._empty):
            self._read(n, self._heads[n], found.get(n, []), self._size)

    def _read(self, n: int, head: _Head, rows: Sequence[Row], size: int) -> None:
        rows = sorted(rows, key=lambda row: (row[5], row[6], row[1]))
        head.last = len(rows) < size
        head.size = min(4 * head.size, WINDOW_MAX)
        if rows:
            head.node, head.place, head.born = rows[-1][1], rows[-1][5], rows[-1][6]
        head.read.extend(
            row for row in rows if row[7] > self.today and row[1] not in self.known and self.narrow.wants(row[2])
        )
        if head.last or head.read:
            self._empty.discard(n)
        self._advance(n)

    def _advance(self, n: int) -> None:
        head = self._heads[n]
        if head.read:
            (item,) = listed([head.read.popleft()], self.today)
            heapq.heappush(self._next, (item.key, item, n))
        elif not head.last:
            self._empty.add(n)


class _InLane(TypedDict):
    place: int
    born: int
    node: str


def _in_lane(head: _Head, place: Place | None, today: int) -> _InLane:
    """Return where a place in the whole order is in a lane."""
    if place is None or not place[0]:
        return {"place": -(2**62), "born": -(2**62), "node": ""}
    _, worse, born, node = place
    return {"place": worse + _shift(int(head.where["lane"]), today), "born": born, "node": node}


def _shift(lane: int, today: int) -> int:
    """Return what a place in a lane is more than a score with its sign turned."""
    return ranking.units_on(today, pace=ranking.pace_of(lane), place=0)


def _behind(n: int, head: _Head) -> dict[str, object]:
    return {"n": n, **head.where, "place": head.place, "born": head.born, "node": head.node}


def heads(narrow: Narrow, lanes: Sequence[int]) -> list[dict[str, str | int]]:
    """Return where the lanes of what is wanted are: those of its projects, else of its types, else all there are."""
    if narrow.projects is not None:
        return [{"project": name, "lane": lane} for name in narrow.projects for lane in lanes]
    if narrow.types is not None:
        wanted = [name for name in narrow.types if name not in narrow.exclude_types]
        return [{"type": name, "lane": lane} for name in wanted for lane in lanes]
    return [{"lane": lane} for lane in lanes]


def listed(
    rows: Iterable[Row], today: int, *, boosts: Mapping[NodeId, int] | None = None, beside: bool = False
) -> Iterator[Listed]:
    """Yield index rows as items, with their score of today as far as their lane tells it.

    What is `beside` says in its first column whether it comes before everything; a row of a lane has its head's number
    there.
    """
    for first, node, kind, project, lane, place, born, turns, stale in rows:
        units = UNKNOWN
        if lane < ranking.DORMANT and turns > today:
            boost = boosts.get(node, 0) if boosts is not None else 0
            units = ranking.units_on(today, pace=ranking.pace_of(lane), place=place) + boost
        yield Listed(node, kind, project, lane, units, born, bool(stale), beside and first == 1, beside)


# --- beside the lanes ----------------------------------------------------------------------------------------------


def beside_asked(
    narrow: Narrow, viewer: Principal, now: Instant, *, today: int, front: Mapping[NodeId, int]
) -> list[Statement]:
    """Ask for the items that their lanes don't show, or not at the viewer's place; see `beside`.

    The first are those whose lease is over, which `counting.hidden_asked` has as well.
    """
    every = {"most": BESIDE_MAX, **narrow.params()}
    gone, turned = lapsed_asked(narrow, now, today=today)
    return [
        gone,
        q("ranking.own", **side(viewer), now=now, **every),
        turned,
        *([q("ranking.named", ids=as_json(sorted(front)), **narrow.params())] if front else []),
    ]


def beside(answers: Sequence[Sequence[Row]], *, today: int, front: Mapping[NodeId, int]) -> list[Listed]:
    """Return the items that their lanes don't show, or not at the viewer's place.

    They are the viewer's own, in force or not; those whose lease is over;
    those that have turned; and the person's recent work, which ranks higher
    for that person.
    """
    boosts = {node: ranking.front_boost(count) for node, count in front.items()}
    gone, own, turned, *worked_on = answers
    rows = {row[1]: row for row in (*turned, *gone, *own)}
    in_lanes = [row for named in worked_on for row in named if row[1] not in rows]
    return [
        *listed(rows.values(), today, boosts=boosts, beside=True),
        *listed(in_lanes, today, boosts=boosts),
    ]


async def reserved(tx: Reader, narrow: Narrow, holder: Principal, now: Instant) -> list[NodeId]:
    """Return what `holder`, or for a person one of its agents, has reserved, best first."""
    (rows,) = await tx.fetch(q("ranking.reserved", **side(holder), now=now, most=BESIDE_MAX, **narrow.params()))
    return [NodeId(row[1]) for row in rows]


def lapsed_asked(narrow: Narrow, now: Instant, *, today: int) -> list[Statement]:
    """Ask for the items that no lane shows although they may be free: their lease is over, or they have turned."""
    every = {"most": BESIDE_MAX, **narrow.params()}
    return [q("ranking.lapsed", now=now, **every), q("ranking.turned", today=today, **every)]


async def free_walk(
    tx: Reader, narrow: Narrow, lanes: Sequence[int], now: Instant, *, today: int, window: int | None = None
) -> Walk:
    """Return a walk over what may be free, its first window of each lane read: everything but what somebody holds."""
    walk = Walk(tx, narrow, lanes, today=today, window=window)
    gone, turned, first = await tx.fetch(*lapsed_asked(narrow, now, today=today), walk.ask())
    walk.put(listed([*gone, *turned], today, beside=True))
    walk.answer(first)
    return walk


async def items(tx: Reader, ids: Iterable[NodeId], narrow: Narrow, *, today: int) -> list[Listed]:
    """Return items by their ids, as far as they are wanted."""
    (rows,) = await tx.fetch(q("ranking.named", ids=as_json(sorted(ids)), **narrow.params()))
    return list(listed(rows, today))


async def assigned(tx: Reader, assignee: str) -> frozenset[NodeId]:
    """Return the nodes somebody is assigned by hand, holds, or stewards themselves; at most `BESIDE_MAX`."""
    (rows,) = await tx.fetch(q("ranking.assigned", assignee=assignee, most=BESIDE_MAX))
    return frozenset(NodeId(row[0]) for row in rows)


async def stewarded(tx: Reader, assignee: str) -> tuple[str, ...]:
    """Return the projects whose repository or grouping somebody stewards."""
    (rows,) = await tx.fetch(q("ranking.stewarded", assignee=assignee))
    return tuple(row[0] for row in rows)


async def held_in(tx: Reader, projects: Sequence[str], *, today: int) -> list[Listed]:
    """Return the items of some projects that somebody holds."""
    (rows,) = await tx.fetch(q("ranking.held_in", projects=as_json(projects), most=BESIDE_MAX))
    return list(listed(rows, today))


# --- scope ---------------------------------------------------------------------------------------------------------


async def scope(tx: Reader, project: str) -> tuple[str, ...]:
    """Return the projects that the name of one stands for (companion 3.1).

    A bare slug is its repository's grouping with all its siblings,
    ``proj-<slug>`` a grouping, ``repo-<slug>`` that repository alone.
    """
    asked = scope_asked(project)
    return scope_of(project, await tx.fetch(*asked) if asked else [])


def scope_asked(project: str | None) -> list[Statement]:
    """Ask what there is to ask about a project's name; see `scope_of`."""
    if project is None or project.startswith("repo-"):
        return []
    if project.startswith("proj-"):
        return [q("ranking.members", slug=project.removeprefix("proj-"))]
    return [q("ranking.siblings", slug=project)]


def scope_of(project: str, answers: Sequence[Sequence[Row]]) -> tuple[str, ...]:
    """Return what `scope` does, from the answers to `scope_asked`."""
    if not answers:
        return (project.removeprefix("repo-"),)
    return tuple(row[0] for row in answers[0])


async def is_known(tx: Reader, projects: Sequence[str]) -> bool:
    """Whether anything goes by one of these names."""
    (((known,),),) = await tx.fetch(q("ranking.known_project", slugs=as_json(projects)))
    return bool(known)


async def front(tx: Reader, viewer: Principal, now: Instant) -> dict[NodeId, int]:
    """Return how often a person has worked on which node in a week, filing it aside; nothing for an agent (D16)."""
    if not viewer.is_person:
        return {}
    since = now - micros(FRONT_WITHIN)
    (rows,) = await tx.fetch(q("ranking.front", person=viewer.person, since=since, most=FRONT_MAX))
    return {NodeId(node): count for node, count in rows}


async def muted(tx: Reader, person: PersonId | None, today: date) -> Mutes:
    """Return what a person has muted, by its own node."""
    asked = muted_asked(person)
    return muted_of(await tx.fetch(*asked) if asked else [], today)


def muted_asked(person: PersonId | None) -> list[Statement]:
    """Ask what a person has muted; nothing about nobody."""
    return [q("ranking.muted", person=person)] if person is not None else []


def muted_of(answers: Sequence[Sequence[Row]], today: date) -> Mutes:
    """Return what `muted` does, from the answers to `muted_asked`."""
    rows = answers[0] if answers else ()
    return mutes(json.loads(rows[0][0]), today) if rows else Mutes()


def ready_lanes(ready: Ready | None, *, blocked: bool) -> list[int]:
    """Return the lanes of what is for `ready`, or of everything when it is None."""
    return ranking.lanes([ready], blocked=blocked) if ready is not None else ranking.lanes(blocked=blocked)


def side(viewer: Principal) -> dict[str, object]:
    """Return whose leases are a viewer's own (D1)."""
    return {"holder": viewer.id, "owner": viewer.person if viewer.is_person else None}
