"""What time alone changes in the queue: a lease or a reservation ends, and at 00:00 UTC a sleeper wakes (D15).

No events tell of it, and nothing sweeps. While somebody waits for the queue,
the next such moment is known, and when it has come what ended is looked up
once, for all who wait. Renewals write no event either, but they only move a
moment away, so looking at one that has moved finds nothing and the next one.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.ids import Instant
from batonpass.store import moments
from batonpass.store.base import Store

DAY: Final = 86_400 * MICROS_PER_S
AGAIN_S: Final = 1.0
"""How soon after it was looked up the next moment is looked up again, because leases were granted meanwhile."""


class Moments:
    """Follows the clock of the database, for a feed that is followed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: Instant | None = None
        """What ended up to here has been told."""
        self._next = Instant(0)
        self._asked_s = 0.0
        self.stale = False
        """Whether leases were granted since the next moment was looked up."""

    def begin(self, now: Instant) -> None:
        """Tell of what ends after `now`, or from where it was left off: too much is told rather than too little."""
        self._told, self._next = now if self._told is None else min(self._told, now), Instant(0)

    async def passed(self, now: Instant) -> Collection[str | None] | None:
        """Return in which projects something has ended since the last call; None for all of them: a day has begun."""
        told, self._told = self._told, now
        if told is not None and now < told:  # the clock was set back, and the time until then passes once more
            await self._look_ahead(now)
            return ()
        if self.stale and time.monotonic() - self._asked_s > AGAIN_S:
            await self._look_ahead(told or now)
        if now < self._next:
            if self.stale:
                # What was granted meanwhile may end, or have ended, before that: it is looked for from there.
                self._told = told
            return ()
        await self._look_ahead(now)
        return await self.since(told, now) if told is not None else ()

    async def since(self, then: Instant, now: Instant) -> Collection[str | None] | None:
        """Return in which projects something has ended from `then` to `now`, as `passed` does."""
        if then // DAY != now // DAY:
            return None
        async with self._store.glance() as tx:
            return await moments.ended(tx, after=then, upto=now)

    def seconds_left(self, now: Instant) -> float:
        """Return how long it is from `now` to the next moment."""
        return max(0, self._next - now) / MICROS_PER_S

    async def _look_ahead(self, now: Instant) -> None:
        self.stale, self._asked_s = False, time.monotonic()
        async with self._store.glance() as tx:
            ends = await moments.next_end(tx, after=now)
        midnight = Instant((now // DAY + 1) * DAY)
        self._next = midnight if ends is None else min(ends, midnight)
