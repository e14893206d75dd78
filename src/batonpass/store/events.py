"""What happened, appended in the change's own transaction (D15a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from batonpass.core.identity import Principal
from batonpass.core.ids import Instant
from batonpass.store.base import Reader, Tx, as_json, q


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a node, by whom. `data` is small and free of secrets."""

    kind: str
    node: str | None
    project: str | None
    actor: Principal
    session: str | None = None
    revision: str | None = None
    epoch: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with its position in the feed."""

    seq: int
    at: Instant
    kind: str
    node: str | None
    project: str | None
    actor: str
    owner: str | None
    session: str | None
    revision: str | None
    epoch: int | None
    data: str


def append(tx: Tx, events: Sequence[Event], *, at: Instant) -> None:
    """Record `events` in order; sent after the row locks, so `seq` is the true order of one node."""
    if events:
        tx.put(q("events.append", rows=as_json([_row(i, event, at) for i, event in enumerate(events)])))


async def events_after(tx: Reader, seq: int, *, most: int) -> list[StoredEvent]:
    """Return at most `most` events after position `seq`, oldest first."""
    (rows,) = await tx.fetch(q("events.after", seq=seq, most=most))
    return [StoredEvent(*row) for row in rows]


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
    }
