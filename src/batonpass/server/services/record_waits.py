"""Waiting until a field of a record moves (D38); what moving is, `core.record_waits` says.

    heard from here on ─▶ look where it stands ─▶ wait for: an event of it ─┐
             ▲                 (moved? done)            its lease's end     ├─▶ may the caller still read it?
             └──────────────────────────────────────────the next check ─────┘

Whoever waits holds no transaction and no connection. Its place is in a table
of this process under the record, so an event is looked for once and wakes only
those it concerns, however many wait. The end of a lease is a timer of each
waiter's own, set by the row that it read: nothing sweeps, and whatever the
timer finds is read anew before it is believed. All who are woken together
share one read.

Twice a minute and more, at moments that are the same for all, everybody looks
again: that the caller's role was taken away, or that a lapsed lease was resumed
by its holder, is told by no event of the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from batonpass.core.classes import RecordClass
from batonpass.core.feed import EveryRecord, StoredEvent
from batonpass.core.identity import Principal
from batonpass.core.record_waits import FieldAt, Stand
from batonpass.core.record_writes import require_readable
from batonpass.core.records import ClassName, Identity
from batonpass.server.services.classes import Classes
from batonpass.server.services.feed import Feed, Place
from batonpass.server.services.looks import Looks
from batonpass.server.services.records import Look, Records, with_field
from batonpass.store import record_waits
from batonpass.store.base import Store

CHECK_S: Final = 15.0
"""How long somebody may go on waiting for what it may not read any more, and for what no event tells of."""

Still = Callable[[], Awaitable[None]]
"""Raises when who waits is not known any more."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """One who waits for a field; `call` is done when there may be something."""

    at: FieldAt
    call: asyncio.Future[None]
    has_looked: bool = False

    def wake(self) -> None:
        if not self.call.done():
            self.call.set_result(None)


class RecordWaits:
    """Those of one server process who wait for a field."""

    def __init__(self, store: Store, feed: Feed, classes: Classes, records: Records) -> None:
        self._store = store
        self._feed = feed
        self._stands: Looks[FieldAt, Stand] = Looks(self._look)
        self._classes: Looks[ClassName, RecordClass] = Looks(classes.in_force)
        self._fields: Looks[FieldAt, tuple[RecordClass, Look]] = Looks(records.fields)
        self._records = records
        self._waiting: dict[str, set[_Waiter]] = {}
        self._hearing = ExitStack()

    @property
    def waiting(self) -> int:
        """How many have looked, and wait for a field to move, at this moment."""
        return sum(waiter.has_looked for among in self._waiting.values() for waiter in among)

    async def moved(
        self, place: Place, at: FieldAt, *, viewer: Identity, seen: Stand, within_s: float, still: Still
    ) -> None:
        """Return once `at` has moved from what `viewer` has `seen`, or the wait is over.

        Or when it is gone, or not `viewer`'s to read any more: whoever reads it then is told. What `still` raises ends
        the wait too; it is asked every now and then whether there is still somebody known to tell.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        known_until_s = loop.time() + CHECK_S
        while not place.over and loop.time() < deadline:
            with self._heard(at) as waiter:
                stand = await self.stand(at, viewer)
                if stand is None or stand.moved_from(seen):
                    return
                waiter.has_looked = True
                now_s = loop.time()
                again_s = min(deadline, now_s + stand.left_s, now_s + CHECK_S - now_s % CHECK_S)
                while not (waiter.call.done() or place.over) and (now_s := loop.time()) < again_s:
                    await place.until(waiter.call, within_s=min(again_s, known_until_s) - now_s)
                    if loop.time() >= known_until_s:
                        known_until_s = loop.time() + CHECK_S
                        await still()

    async def field(self, principal: Principal, at: FieldAt) -> Look:
        """Return what `Records.field` does, read once for all who ask at the same time."""
        if (found := (await self._fields.at((at,))).get(at)) is None:
            return await self._records.field(principal, at.record, at.field)  # which says why not
        kind, look = found
        return with_field(look, at.record, at.field, require_readable(kind, principal, at.field))

    async def stand(self, at: FieldAt, viewer: Identity) -> Stand | None:
        """Return where `at` stands, None when it is not there or not for `viewer` to know."""
        name = at.record.record_class
        record_class = (await self._classes.at((name,))).get(name)
        if record_class is None or not record_class.may_read(viewer, at.field):
            return None
        return (await self._stands.at((at,))).get(at)

    async def _look(self, wanted: frozenset[FieldAt]) -> Mapping[FieldAt, Stand]:
        async with self._store.read() as tx:
            return await record_waits.stands(tx, wanted)

    @contextmanager
    def _heard(self, at: FieldAt) -> Iterator[_Waiter]:
        """Yield a waiter that every event of `at` wakes; the feed is heard as long as there is one."""
        waiter = _Waiter(at, asyncio.get_running_loop().create_future())
        if not self._waiting:
            self._hearing.enter_context(self._feed.heard(EveryRecord(), self._hear))
        among = self._waiting.setdefault(str(at.record), set())
        among.add(waiter)
        try:
            yield waiter
        finally:
            among.remove(waiter)
            if not among:
                del self._waiting[str(at.record)]
            if not self._waiting:
                self._hearing.close()

    def _hear(self, rows: Sequence[StoredEvent]) -> None:
        """Wake those whom one of `rows` concerns; everybody when there is no telling."""
        if not rows:
            for among in self._waiting.values():
                for waiter in among:
                    waiter.wake()
        for row in rows:
            for waiter in self._waiting.get(row.record or "", ()):
                if row.field is None or row.field == waiter.at.field:
                    waiter.wake()
