"""The end of the feed as this process has seen it: read once, for all who wait here (D15a).

    committed events ──look──▶ mark: readable up to here ──▶ the last few thousand, in memory

A look reads what is behind the mark and moves it along as far as nothing can
be missing any more (`core.feed`). Where a number is missing, who is writing
events is listed *after* that was seen; once all of those are gone, the gap is
read once more, in a snapshot that is younger than their end, and passed.
Replicas differ in how far they have read, never in what they read or in which
order. Nothing here outlives the process, and a mark that was never taken, or
that has been left far behind, is simply taken anew at the end.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from batonpass.core import points
from batonpass.core.errors import Unavailable
from batonpass.core.feed import Gap, StoredEvent, readable
from batonpass.core.ids import Instant
from batonpass.store import events
from batonpass.store.base import Store

ROWS_MAX: Final = 1_000
"""How many events one look reads at most."""
KEPT_MAX: Final = 4_000
"""How many events are kept in memory; whoever stands further back reads the database."""
BEHIND_MAX: Final = 4
"""After so many full looks in a row the mark is taken anew, at the end."""

FOUND_S: Final = 0.002
FOUND_S_MAX: Final = 5.0
"""How often, and for how long, those are waited for who were writing when the mark was first looked for."""

Published = Callable[[Sequence[StoredEvent]], None]


class Tailer:
    """Follows the end of the feed.

    `published` is called with each run of events that has become readable, and with none when the mark was taken anew.
    """

    def __init__(self, store: Store, published: Published) -> None:
        self._store = store
        self._published = published
        self._kept: list[StoredEvent] = []
        self._mark: int | None = None
        self._gap: Gap | None = None
        self._behind = 0
        self._begun = 0
        self._turn = asyncio.Lock()
        self.floor = 0
        """All readable events behind this number are in memory."""
        self.now: Instant | None = None
        """The database's time at the last look."""

    @property
    def mark(self) -> int:
        """How far the feed may be read; 0 as long as nothing is known."""
        return self._mark or 0

    @property
    def stuck(self) -> bool:
        """Whether another look is due soon, though nobody rings: something is still to come, or was not read yet."""
        return self._mark is None or self._gap is not None or self._behind > 0

    def after(self, seq: int) -> Sequence[StoredEvent]:
        """Return the readable events after `seq`, which is at or behind the floor, oldest first."""
        assert seq >= self.floor, (seq, self.floor)
        return self._kept[bisect_right(self._kept, seq, key=lambda event: event.seq) :]

    async def look(self) -> None:
        """Read what has been committed by now; whoever asks meanwhile shares the next look."""
        asked = self._begun
        async with self._turn:
            if self._begun == asked:
                self._begun += 1
                await self._look()

    async def found(self) -> None:
        """Return once the mark is known: at once, unless somebody was writing when the first look began."""
        try:
            async with asyncio.timeout(FOUND_S_MAX):
                await self._sought()
        except TimeoutError as error:
            raise Unavailable("somebody has been writing for long, so the end of the feed is not known yet") from error

    async def _sought(self) -> None:
        while self._mark is None:
            await asyncio.sleep(FOUND_S if self._begun else 0)
            await self.look()

    async def _look(self) -> None:
        settled = await self._settled()
        if self._mark is None:
            if settled:
                self._mark = self.floor = settled.upto
                self._kept.clear()
                self._published(())  # whoever stood before it may have missed something
            return
        async with self._store.glance() as tx:
            rows, self.now = await events.news(tx, self._mark, most=ROWS_MAX)
        await points.areach("feed.read")
        upto = readable(self._mark, (row.seq for row in rows), settled=settled.upto if settled else 0)
        self._publish([row for row in rows if row.seq <= upto], upto)
        if rows and rows[-1].seq > upto and self._gap is None:
            self._gap = Gap(rows[-1].seq, await self._writers())
        self._behind = self._behind + 1 if len(rows) == ROWS_MAX else 0
        if self._behind > BEHIND_MAX:
            self._mark, self._gap, self._behind = None, None, 0

    async def _settled(self) -> Gap | None:
        """Return the gap up to which all is decided by now, if there is one; note one where nothing is known yet."""
        if self._mark is None and self._gap is None:
            async with self._store.read() as tx:
                drawn = (await events.ends(tx)).drawn
            self._gap = Gap(drawn, await self._writers())
        if self._gap is None or not self._gap.settled(await self._writers()):
            return None
        gap, self._gap = self._gap, None
        return gap

    async def _writers(self) -> frozenset[str]:
        """Return who is writing events, seen after whatever was read before and before whatever is read next."""
        async with self._store.glance() as tx:
            return await events.writers(tx)

    def _publish(self, rows: Sequence[StoredEvent], upto: int) -> None:
        self._mark = upto
        self._kept += rows
        if len(self._kept) > KEPT_MAX:
            cut = len(self._kept) - KEPT_MAX // 2
            self.floor = self._kept[cut - 1].seq
            del self._kept[:cut]
        if rows:
            self._published(rows)
