"""The feed: what happened, read in order, and waited for (D15a).

The one place where anything in a server waits for a change. Whoever waits
holds no transaction and no connection; it stands in a table of this process
under what it wants to hear of, and one task looks for all of them, as long as
there is anybody. It is woken by a commit of this process, by another process,
or by the next look.

    with feed.place(gone) as place:            # one of a bounded number; else `RateLimited`
        await place.changed(after, topic, within_s=20)

A wait ends with the change, its time, its client's going, or the server's end.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.errors import BatonError, RateLimited, Resync
from batonpass.core.feed import Position, QueueScope, StoredEvent, Topic, Wanted, parse_position, shown_to
from batonpass.core.ids import Instant
from batonpass.core.records import Identity
from batonpass.server.services.classes import Classes
from batonpass.server.services.looks import Looks
from batonpass.server.services.moments import Moments
from batonpass.server.services.tailer import Tailer
from batonpass.store import events
from batonpass.store.base import Store

log = logging.getLogger(__name__)

T = TypeVar("T")
Hearer = Callable[[Sequence[StoredEvent]], object]
"""Told of what has become readable; of nothing, when whoever hears has to look for itself."""

WAITS_MAX: Final = 10_000
"""How many requests may wait at one server at once, streams included."""
RETRY_AFTER_S: Final = 5
SCANNED_MAX: Final = 5_000
"""How many events one answer looks through for those that were asked for; it says how far it came."""
WINDOW: Final = 500
LINGER_S: Final = 5.0
"""How long the end of the feed is followed once nobody waits: most who leave come back at once."""
STUCK_S: Final = 0.005
"""How soon another look follows one that could not go on: what is still to come may come unannounced."""
BROKEN_S: Final = 0.5
"""How long after a look that failed the next one follows."""
DISORDER: Final = 120 * MICROS_PER_S
"""How much older than its neighbours in the feed an event may be: its transaction took its time, then its number."""


@dataclass(frozen=True, slots=True)
class Page:
    """Events in order, and the position behind all that was looked through; `more` when that is not the end."""

    events: tuple[StoredEvent, ...]
    next: Position
    more: bool


class Place:
    """One who waits. `gone` is done when its client is."""

    def __init__(self, feed: Feed, gone: asyncio.Future[None] | None) -> None:
        self._feed = feed
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if feed.ended:
            self.end()
        if gone is not None:
            gone.add_done_callback(self.end)

    @property
    def over(self) -> bool:
        """Whether there is nobody left to answer, or nothing left to wait for: the server ends."""
        return self._ended.done()

    def end(self, gone: asyncio.Future[None] | None = None) -> None:
        """End the wait; safe twice."""
        del gone
        if not self._ended.done():
            self._ended.set_result(None)

    async def changed(self, after: int, wanted: Wanted, *, within_s: float) -> None:
        """Wait until there may be something `wanted` after position `after`, or until the wait is over.

        It may end for nothing; whoever waits looks, and waits again.
        """
        if self._feed.happened(after, wanted):
            return
        call: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._feed.heard(wanted, functools.partial(_answer, call)):
            await self.until(call, within_s=within_s)

    async def until(self, call: asyncio.Future[T], *, within_s: float) -> None:
        """Wait until `call` is done, or until the wait is over."""
        if not self.over:
            ends: list[asyncio.Future[T] | asyncio.Future[None]] = [call, self._ended]
            await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)


class Feed:
    """The feed of one server process."""

    def __init__(self, store: Store, classes: Classes | None = None, *, waits_max: int = WAITS_MAX) -> None:
        self._store = store
        self._classes = Looks((classes or Classes(store)).in_force)
        self._waits_max = waits_max
        self._tailer = Tailer(store, self._published)
        self._moments = Moments(store)
        self._hearers: dict[Wanted, dict[object, Hearer]] = {}
        self._places: set[Place] = set()
        self._wake = asyncio.Event()
        self._joined = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self.ended = False
        store.bell.when_closed(self.stop)

    # --- positions ----------------------------------------------------------------------------------------------------

    def position(self, seq: int, at: Instant | None = None) -> str:
        """Return a position as clients keep it."""
        return Position(seq, at).text(self._store.incarnation)

    def parse(self, text: str, *, field: str) -> Position:
        """Return the position a client gave; `Resync` when it means nothing any more."""
        return parse_position(text, self._store.incarnation, field=field)

    @property
    def mark(self) -> int:
        """How far this process has seen the feed; never beyond what it would show, perhaps far behind."""
        return self._tailer.mark

    async def now(self) -> int:
        """Return the position at the end of what can be read by now."""
        await self._tailer.look()
        await self._tailer.found()
        return self._tailer.mark

    async def since(self, at: Instant) -> int:
        """Return a position with everything of `at` and later behind it, and perhaps a little before."""
        async with self._store.read() as tx:
            return await events.before_instant(tx, Instant(at - DISORDER))

    async def freed(self, then: Instant, scope: QueueScope) -> bool:
        """Whether time alone has freed something in `scope` since `then`; what it frees from now on is told."""
        return scope.passes(await self._moments.since(then, await self.watch_time()))

    async def watch_time(self) -> Instant:
        """Return the database's time; whoever begins to wait next is told of all that time frees after it."""
        async with self._store.read() as tx:
            now = await tx.now()
        if self._following is None:
            self._moments.begin(now)
        return now

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, after: int, topic: Topic, *, viewer: Identity, limit: int, fresh: bool = True) -> Page:
        """Return up to `limit` events of `topic` after `after`, oldest first; `Resync` when some of them are gone.

        What `viewer` may not see is passed over: it counts neither for the limit nor as `more`. With `fresh` everything
        that is committed by now counts; without it, what this process has seen already.
        """
        if fresh:
            await self._tailer.look()
        await self._tailer.found()
        mark = self._tailer.mark
        if after >= self._tailer.floor:
            rows = self._tailer.after(after)
            return _page(await self._shown(rows, topic, viewer), limit, end=max(mark, after))
        found: list[StoredEvent] = []
        for _ in range(0, SCANNED_MAX, WINDOW):
            rows = await self._stored(after, mark)
            shown = await self._shown(rows, topic, viewer)
            page = _page(shown, limit - len(found), end=mark if len(rows) < WINDOW else rows[-1].seq)
            found += page.events
            after = page.next.seq
            if page.more or after >= mark:
                return Page(tuple(found), page.next, page.more)
        return Page(tuple(found), Position(after), more=True)

    async def _shown(self, rows: Sequence[StoredEvent], topic: Topic, viewer: Identity) -> list[StoredEvent]:
        """Return those of `rows` that are of `topic` and for `viewer`, by the classes as they are now."""
        wanted = [row for row in rows if topic.takes(row)]
        named = {row.record_class for row in wanted if row.record_class is not None}
        if not named:
            return wanted
        classes = await self._classes.at(named)
        return [row for row in wanted if shown_to(row, viewer, classes)]

    async def _stored(self, after: int, mark: int) -> list[StoredEvent]:
        async with self._store.read() as tx:
            oldest = (await events.ends(tx)).oldest
            rows = await events.events_after(tx, after, most=WINDOW)
        if 0 < after < max(oldest - 1, 0 if oldest else mark):
            raise Resync("after: what followed is not kept any more; read what you need anew, then go on from now")
        return [row for row in rows if row.seq <= mark]

    # --- waiting ------------------------------------------------------------------------------------------------------

    @contextmanager
    def place(self, gone: asyncio.Future[None] | None = None) -> Iterator[Place]:
        """Take one of the places of those who wait; `RateLimited` when there is none left."""
        if len(self._places) >= self._waits_max:
            raise RateLimited(f"{self._waits_max} requests wait here already; ask later", retry_after_s=RETRY_AFTER_S)
        place = Place(self, gone)
        self._places.add(place)
        try:
            yield place
        finally:
            self._places.remove(place)

    @property
    def waiting(self) -> int:
        """How many wait for something at this moment."""
        return len(self._places)

    def happened(self, after: int, wanted: Wanted) -> bool:
        """Whether there may be something `wanted` after `after`, by what this process has seen."""
        if after >= self._tailer.mark:
            return False
        return after < self._tailer.floor or _any_of(self._tailer.after(after), wanted)

    @contextmanager
    def heard(self, wanted: Wanted, action: Hearer) -> Iterator[None]:
        """Call `action` with every run of events that has something `wanted`, and with none when there may be.

        The feed is followed as long as anybody hears it.
        """
        me = object()
        self._hearers.setdefault(wanted, {})[me] = action
        self._joined.set()
        if self._following is None and not self.ended:
            self._following = asyncio.create_task(self._follow(), name="follow the feed")
        try:
            yield
        finally:
            hearers = self._hearers[wanted]
            del hearers[me]
            if not hearers:
                del self._hearers[wanted]

    def stop(self) -> None:
        """End every wait, and all that are begun from now on; called on the event loop when the server ends."""
        self.ended = True
        for place in self._places:
            place.end()
        self._wake.set()
        self._joined.set()

    async def _follow(self) -> None:
        """Look at the end of the feed for as long as anybody waits, and a little longer."""
        try:
            with self._store.bell.heard(self._wake.set):
                while await self._wanted():
                    self._wake.clear()
                    pause_s = await self._look()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), pause_s)
        finally:
            self._following = None

    async def _wanted(self) -> bool:
        """Return whether anybody waits, or comes back soon."""
        if not self._hearers and not self.ended:
            self._joined.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._joined.wait(), LINGER_S)
        return bool(self._hearers) and not self.ended

    async def _look(self) -> float:
        """Look once, and return within which time to look again, in seconds, if nobody rings before."""
        try:
            await self._tailer.look()
            left_s = await self._pass_time()
        except BatonError as error:
            log.warning("feed.unreadable", extra={"why": error.message})
            return BROKEN_S
        except Exception:  # whatever it is, those who wait are better off with another look than with none
            log.exception("feed.failed")
            return BROKEN_S
        return STUCK_S if self._tailer.stuck else min(self._store.bell.silence_s_max, left_s)

    async def _pass_time(self) -> float:
        """Tell those for whom time has changed something; return for how long it changes nothing, in seconds."""
        now = self._tailer.now
        if now is None or not any(wanted.passes(None) for wanted in self._hearers):
            return LINGER_S
        freed = await self._moments.passed(now)
        if freed is None or freed:
            self._tell((), [wanted for wanted in self._hearers if wanted.passes(freed)])
        return self._moments.seconds_left(now)

    def _published(self, rows: Sequence[StoredEvent]) -> None:
        """Tell those for whom there is something among `rows`; everybody when there is no telling."""
        if any(row.kind.startswith("lease.") and row.record is None for row in rows):
            self._moments.stale = True
        self._tell(rows, [wanted for wanted in self._hearers if not rows or _any_of(rows, wanted)])

    def _tell(self, rows: Sequence[StoredEvent], whom: Sequence[Wanted]) -> None:
        for wanted in whom:
            for action in list(self._hearers.get(wanted, {}).values()):
                action(rows)


def _answer(call: asyncio.Future[None], rows: Sequence[StoredEvent]) -> None:
    del rows
    if not call.done():
        call.set_result(None)


def _any_of(rows: Sequence[StoredEvent], wanted: Wanted) -> bool:
    return any(wanted.takes(row) for row in rows)


def _page(shown: Sequence[StoredEvent], limit: int, *, end: int) -> Page:
    """Return the first `limit` of those that are shown; `end` is the position behind all that was looked through."""
    if len(shown) > limit:
        return Page(tuple(shown[:limit]), Position(shown[limit].seq - 1), more=True)
    return Page(tuple(shown), Position(end), more=False)
