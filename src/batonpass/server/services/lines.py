"""Those who wait for an item of the queue, in the order in which they came (D15).

One line for each part of the queue. Something happens in it, and one tries:
the first in line. Who takes something leaves, and the next one tries; who
finds nothing keeps its place. So an event wakes as many as it can feed, and
the thousands behind them sleep on: a *baton*, not a bell.

    event ──▶ 1 tries ──took──▶ 2 tries ──took the last──▶ 3 sleeps on
                 │ nothing: keeps its place

Who looks sees whether anything is left. What the first finds nothing in, others
may yet: an item may be routed to one agent, or left out of another's wish. As
long as there is such an item the baton goes on, behind `MISSES_MAX` misses in
a row only slower, until everybody has had it; those who have something routed
to them come first. Where nothing is left, it goes on to those alone who have
reservations. Every event begins at the front again, but for one that some item
was claimed: it leaves nobody anything, except who asks for that very claim. A
little after any event the first looks once more.

Who comes while others wait joins the end, and has a first try of its own once
those before it are done or have found nothing: whoever is back from its work
would otherwise be served before those who have waited all the while, and on a
busy server nobody else would.

Tries are made by the line, not by the handler that waits: a client that goes
never cuts off a claim in the middle of its COMMIT. One that is known to be gone
is passed over; what one takes that goes during its try has its horizon of a
minute (H5).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from batonpass.core.errors import BatonError, Paused
from batonpass.core.feed import QueueScope, StoredEvent
from batonpass.core.ids import HolderId
from batonpass.server.services.feed import Feed, Place
from batonpass.store.base import Store
from batonpass.store.lines import Favoured, favoured

T = TypeVar("T")

BATONS_MAX: Final = 4
"""How many of one line try at the same time, when there is enough."""
MISSES_MAX: Final = 8
"""After so many in a row who found nothing, the baton goes on more slowly."""
PACE_S: Final = 0.25
"""How much more slowly, in seconds. What follows a commit, as a refreshed rank does, is found by then too."""

HELD_ON: Final = frozenset({"lease.claimed", "lease.extended"})
"""Events after which there is nothing for anybody that was not there before."""

Favours = Callable[[Collection[HolderId]], Awaitable[Favoured]]
"""Which of these holders may find what others do not."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What a try took, if anything; without `rest` it has seen that nothing else is there, for anybody."""

    taken: T | None
    rest: bool = True


@dataclass(frozen=True, slots=True)
class Launched:
    """Whose launch a waiter asks for, and in which session: its claim may have been made by an earlier sending."""

    holder: HolderId
    session: str | None

    def may_have(self, claimed: StoredEvent) -> bool:
        """Whether this is perhaps its claim."""
        return (claimed.actor, claimed.session) == (self.holder, self.session)


@dataclass(slots=True, eq=False)
class Waiter(Generic[T]):
    """One who waits; those with one `key` would find the same.

    Those with one `part` look at the same items; None is a part of its own, of
    which nobody else knows whether anything is left.
    """

    holder: HolderId
    key: Hashable
    attempt: Callable[[], Awaitable[Found[T]]]
    place: Place
    part: Hashable | None = None
    launch: Launched | None = None
    answer: asyncio.Future[T] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    resting: asyncio.Event = field(default_factory=asyncio.Event)
    pause: Paused | None = None
    tried: bool = False
    """Whether it has tried at all."""
    rest: bool = True
    """Whether its last try may have left something."""

    def __post_init__(self) -> None:
        """Rest, as long as nobody lets it try."""
        self.resting.set()

    async def tries(self) -> bool:
        """Try once, and return whether it is answered: it took something, or was refused."""
        self.tried = self.rest = True
        self.resting.clear()
        try:
            found = await self.attempt()
            self.pause, self.rest = None, found.rest
            if found.taken is not None:
                self.answer.set_result(found.taken)
        except Paused as error:  # a pause passes; who waits is told of it when the wait is over
            self.pause = error
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer of whoever waits for it
            self.answer.set_exception(error)
        finally:
            self.resting.set()
        return self.answer.done()

    async def outcome(self) -> T | None:
        """Return what was taken, None for nothing, or raise what it was refused for; a try under way is waited for."""
        await self.resting.wait()
        if self.answer.done():
            return self.answer.result()
        if self.pause is not None:
            raise self.pause
        return None


class Line(Generic[T]):
    """Those who wait for one part of the queue."""

    def __init__(self, favours: Favours) -> None:
        self._favours = favours
        self._waiters: dict[Waiter[T], None] = {}
        self._launches: dict[Waiter[T], Launched] = {}
        self._untried: dict[Waiter[T], None] = {}
        self._parts: Counter[Hashable] = Counter()
        self._due: deque[Waiter[T]] = deque()
        self._passed: list[Waiter[T]] = []
        """Those who were due when nothing was left for them, in their order."""
        self._bare: set[Hashable] = set()
        """The parts in which nothing is left."""
        self._missed: set[Hashable] = set()
        self._misses = 0
        self._batons: set[asyncio.Task[None]] = set()
        self._slowly: asyncio.Task[None] | None = None
        self._again = False

    @property
    def length(self) -> int:
        """How many wait here."""
        return len(self._waiters)

    def join(self, waiter: Waiter[T]) -> None:
        """Add one to the end; one that has found nothing yet is tried when it is its turn, or nobody is due."""
        self._waiters[waiter] = None
        self._parts[waiter.part] += 1
        if waiter.launch is not None:
            self._launches[waiter] = waiter.launch
        if not waiter.tried:
            self._untried[waiter] = None
            self._pass_on()

    def leave(self, waiter: Waiter[T]) -> None:
        """Take one out; safe twice."""
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._parts[waiter.part] -= 1
            if not self._parts[waiter.part]:
                del self._parts[waiter.part]
        self._untried.pop(waiter, None)
        self._launches.pop(waiter, None)

    def hear(self, rows: Sequence[StoredEvent] = ()) -> None:
        """Let everybody be tried again, from the front, because something has happened that may be for them."""
        self._again = True
        if not rows or not all(row.kind in HELD_ON for row in rows):
            self._begin(deque(self._waiters))
            return
        for waiter, launch in self._launches.items():
            if any(map(launch.may_have, rows)):
                self._untried[waiter] = None
        self._pass_on()
        self._look_later()

    def stop(self) -> None:
        """Let nobody try any more; tries that are under way are finished."""
        self._due.clear()
        self._passed.clear()
        self._untried.clear()
        self._again = False

    def _begin(self, due: deque[Waiter[T]]) -> None:
        """Let those who are due be tried, whatever was found before."""
        self._due, self._missed, self._misses = due, set(), 0
        self._passed, self._bare = [], set()
        self._pass_on()

    def _pass_on(self) -> None:
        if (self._due or self._untried) and len(self._batons) < BATONS_MAX:
            baton = asyncio.create_task(self._carry(), name="baton")
            self._batons.add(baton)
            baton.add_done_callback(self._batons.discard)

    async def _carry(self) -> None:
        """Give the baton to one after the other, until too many in a row have found nothing."""
        while (waiter := self._next()) is not None:
            missed = self._missed
            self._untried.pop(waiter, None)
            answered = await waiter.tries()
            if answered:
                self.leave(waiter)
            if missed is not self._missed:  # something has happened since it looked
                if answered:
                    self._pass_on()
                else:
                    self._due.appendleft(waiter)
                continue
            self._bare.discard(waiter.part)
            if not waiter.rest and waiter.part is not None:
                self._bare.add(waiter.part)
            if not answered:
                missed.add(waiter.key)
                self._misses += 1
            elif waiter.rest and not self._due:  # not even an event told of it
                self._begin(deque(self._waiters))
            else:
                self._misses = 0
                self._pass_on()
        self._look_later()

    def _look_later(self) -> None:
        if self._slowly is None and (self._due or self._passed or self._again):
            self._slowly = asyncio.create_task(self._go_on(), name="baton, slowly")

    def _next(self) -> Waiter[T] | None:
        """Return who is to try next: who is due, unless there is nothing for them, or who has not tried at all."""
        while self._due and self._misses < MISSES_MAX and not self._parts.keys() <= self._bare:
            waiter = self._due.popleft()
            if waiter.part in self._bare:
                self._passed.append(waiter)
            elif self._waits(waiter) and waiter.key not in self._missed:
                return waiter
        while self._untried:
            waiter = next(iter(self._untried))
            del self._untried[waiter]
            # Whatever others found: it may have a claim already, and ask for it again.
            if self._waits(waiter):
                return waiter
        return None

    def _waits(self, waiter: Waiter[T]) -> bool:
        return waiter in self._waiters and waiter.resting.is_set() and not waiter.place.over

    async def _go_on(self) -> None:
        """Let the first look once more a little later, then those behind who have not been tried, a few at a time."""
        try:
            while self._waiters and (self._due or self._passed or self._again):
                await asyncio.sleep(PACE_S)
                behind = self._due
                due = await self._favoured_first([*self._passed, *behind])
                if self._due is not behind:  # something has happened meanwhile: all are due, and from the front
                    continue
                if self._again:
                    due.extendleft(itertools.islice(self._waiters, 1))
                    self._again = False
                self._begin(due)
                while self._batons:
                    await asyncio.wait(set(self._batons))
        finally:
            self._slowly = None

    async def _favoured_first(self, due: Sequence[Waiter[T]]) -> deque[Waiter[T]]:
        """Return those of `due` for whom there may be something, first who has something routed to it, or reserved."""
        bare = set() if self._again else self._bare.copy()
        try:
            favoured = await self._favours({waiter.holder for waiter in due}) if due else Favoured()
        except BatonError:  # then all of them, in the order in which they came
            return deque(due)
        due = [waiter for waiter in due if waiter.part not in bare or waiter.holder in favoured.reserving]
        return deque(sorted(due, key=lambda waiter: waiter.holder not in favoured))


class Lines(Generic[T]):
    """The lines of one server process, one for each part of the queue that somebody waits for."""

    def __init__(self, store: Store, feed: Feed) -> None:
        self._store = store
        self._feed = feed
        self._lines: dict[QueueScope, tuple[Line[T], ExitStack]] = {}

    @property
    def waiting(self) -> int:
        """How many stand in line at this moment, having found nothing yet."""
        return sum(line.length for line, _ in self._lines.values())

    async def take(self, scope: QueueScope, waiter: Waiter[T], *, within_s: float) -> T | None:
        """Return what `waiter` takes: at once, unless others are due before it, or when it is its turn; None in vain.

        A refusal is raised; a pause only when the wait is over.
        """
        seen = self._feed.mark
        if scope not in self._lines:
            await self._feed.watch_time()
            seen = self._feed.mark
            if await waiter.tries():
                return await waiter.outcome()
        with self._joined(scope) as line:
            line.join(waiter)
            if self._feed.happened(seen, scope):
                line.hear()
            try:
                await waiter.place.until(waiter.answer, within_s=within_s)
            finally:
                line.leave(waiter)
        if not waiter.tried and not waiter.place.over:  # it was never its turn, and it is not told of nothing unseen
            await waiter.tries()
        return await waiter.outcome()

    async def _favoured(self, holders: Collection[HolderId]) -> Favoured:
        async with self._store.glance() as tx:
            return await favoured(tx, holders)

    @contextmanager
    def _joined(self, scope: QueueScope) -> Iterator[Line[T]]:
        """Yield the line of `scope`, which hears of the feed while anybody is in it."""
        if scope not in self._lines:
            line: Line[T] = Line(self._favoured)
            hearing = ExitStack()
            hearing.enter_context(self._feed.heard(scope, line.hear))
            self._lines[scope] = line, hearing
        line, hearing = self._lines[scope]
        try:
            yield line
        finally:
            if not line.length and scope in self._lines:
                del self._lines[scope]
                line.stop()
                hearing.close()
