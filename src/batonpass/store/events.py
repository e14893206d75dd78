"""What happened, appended in the change's own transaction (D15a)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batonpass.core.feed import StoredEvent as StoredEvent  # noqa: PLC0414  # whoever reads the table has it from here
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, Resource
from batonpass.core.records import FieldName, RecordPath, is_of_record, task_of
from batonpass.store.base import Reader, Tx, as_json, now_asked, q


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a node or a record, by whom. `data` is small and free of secrets, and of values.

    What happened to a record names it instead of a node, with the `field` that it happened to, if it was one, and
    its `version` after it: the field's, or that of the record where there is no field.
    """

    kind: str
    node: str | None
    project: str | None
    actor: Principal
    session: str | None = None
    revision: str | None = None
    epoch: int | None = None
    data: Mapping[str, object] = dataclasses.field(default_factory=dict)
    record: RecordPath | None = None
    field: FieldName | None = None
    version: int | None = None

    def about(self, resource: Resource, *, version: int) -> Event:
        """Return this event as one about the lease on `resource`: a node, or a record's task field at `version`."""
        if not is_of_record(resource):
            return dataclasses.replace(self, node=resource)
        record, field = task_of(resource)
        return dataclasses.replace(self, node=None, record=record, field=field, version=version)


def append(tx: Tx, events: Sequence[Event], *, at: Instant) -> None:
    """Record `events` in order; sent after the row locks, so `seq` is the true order of one node.

    Whoever waits hears of it once COMMIT has returned, never before.
    """
    if events:
        tx.put(q("events.append", rows=as_json([_row(i, event, at) for i, event in enumerate(events)])))
        tx.after_commit(tx.bell.ring)


async def events_after(tx: Reader, seq: int, *, most: int) -> list[StoredEvent]:
    """Return at most `most` events after position `seq`, oldest first."""
    return (await news(tx, seq, most=most))[0]


async def news(tx: Reader, seq: int, *, most: int) -> tuple[list[StoredEvent], Instant]:
    """Return at most `most` events after position `seq`, oldest first, and the time."""
    rows, ((now,),) = await tx.fetch(q("events.after", seq=seq, most=most), now_asked(tx.clock))
    return [StoredEvent(*row) for row in rows], Instant(now)


@dataclass(frozen=True, slots=True)
class Ends:
    """The oldest event that is kept, 0 for none, and the highest number drawn so far."""

    oldest: int
    drawn: int


async def ends(tx: Reader) -> Ends:
    """Return where the kept part of the feed begins and how far numbers have been drawn."""
    ((row,),) = await tx.fetch(q("events.ends"))
    return Ends(row[0] or 0, row[1])


async def writers(tx: Reader) -> frozenset[str]:
    """Return which transactions are writing events at this moment, whatever the snapshot of `tx`."""
    (rows,) = await tx.fetch(q("events.writers"))
    return frozenset(row[0] for row in rows)


async def before_instant(tx: Reader, at: Instant) -> int:
    """Return a number with no event of `at` or later up to it, by halving: an index on time would cost every write.

    Events are in the order of their time but for what transactions last, which the caller allows for.
    """
    bounds = await ends(tx)
    low, high = bounds.oldest, bounds.drawn + 1
    while low < high:
        middle = (low + high) // 2
        (rows,) = await tx.fetch(q("events.from", seq=middle))
        if rows and rows[0][1] < at:
            low = rows[0][0] + 1
        else:
            high = middle
    return max(low - 1, 0)


def _row(i: int, event: Event, at: Instant) -> dict[str, object]:
    return {
        "i": i,
        "at": at,
        "kind": event.kind,
        "node": event.node,
        "project": event.project,
        "actor": event.actor.id,
        "owner": event.actor.person,
        "session": event.session if event.session is not None else event.actor.session,
        "revision": event.revision,
        "epoch": event.epoch,
        "data": as_json(event.data),
        "record": str(event.record) if event.record is not None else None,
        "field": event.field,
        "version": event.version,
    }
