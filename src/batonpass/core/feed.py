"""The feed's law: how far it may be read, where a reader stands in it, and what it asked for (D15a).

Events draw their number inside the transaction that they belong to, and the
transactions end in another order. So the numbers that can be seen have gaps,
of two kinds: an event that is still to come, and one that never will, because
its transaction was rolled back. Whoever reads over a gap of the first kind
never sees that event; whoever waits at one of the second waits for ever.

Nothing about the number itself tells the two apart, nor does the order of
transaction ids: a transaction may get its id after a later one, draw before
it and still be at work, with an id that no bound on *finished* transactions
covers. What does is the lock on the table of events, which every transaction
takes before it draws and keeps to its end. At a gap, list who holds one; when
all of those are gone, what is still missing was rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from batonpass.core.classes import RecordClass
from batonpass.core.errors import Invalid, Resync
from batonpass.core.ids import Instant, shown
from batonpass.core.records import ClassName, FieldName, Identity
from batonpass.core.values import value

INCARNATION_CHARS: Final = 12
"""How much of the database's incarnation a position carries: enough that two of one database never agree."""
_POSITION: Final = re.compile(r"(?P<incarnation>[0-9a-f]{12})-(?P<seq>\d{1,18})(?:-(?P<at>\d{1,18}))?", re.ASCII)


@value(frozen=True, slots=True)
class StoredEvent:
    """One thing that happened to a node or a record, with its position in the feed. `data` is JSON."""

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
    record: str | None = None
    field: str | None = None
    version: int | None = None

    @property
    def record_class(self) -> ClassName | None:
        """Return the class of the record that it is about, None when it is about none."""
        return ClassName(self.record.partition("/")[0]) if self.record is not None else None


def shown_to(event: StoredEvent, viewer: Identity, classes: Mapping[ClassName, RecordClass]) -> bool:
    """Whether `viewer` may see `event`, given the classes in force: of records, what their fields' readers may (D15a).

    What is about a record as a whole, its deletion say, is for whoever may read anything of its class.
    """
    if event.record_class is None:
        return True
    if (record_class := classes.get(event.record_class)) is None:
        return False
    if event.field is None:
        return bool(record_class.readable(viewer))
    return record_class.may_read(viewer, FieldName(event.field))


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that are missing at or below `upto`, and who was writing events when that was seen."""

    upto: int
    writers: frozenset[str]

    def settled(self, writing: Collection[str]) -> bool:
        """Whether nothing that is missing can still come, given who is writing events now."""
        return self.writers.isdisjoint(writing)


def readable(mark: int, seqs: Iterable[int], *, settled: int = 0) -> int:
    """Return how far the feed may be read: from `mark` along `seqs` until a number is missing that may still come.

    `seqs` are what a reader sees behind the mark, in their order; up to
    `settled` what they lack was rolled back.
    """
    for seq in seqs:
        if seq > mark + 1 and seq > settled + 1:
            return max(mark, settled)
        mark = seq
    return max(mark, settled)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader stands: everything up to `seq` is behind it.

    `at` is the moment it was taken, where what changes by time alone counts
    too. A position means something in its own incarnation of the database only
    (D46), so as text it carries the beginning of that.
    """

    seq: int
    at: Instant | None = None

    def text(self, incarnation: str) -> str:
        """Return the position as clients keep it: opaque to them."""
        text = f"{incarnation[:INCARNATION_CHARS]}-{self.seq}"
        return text if self.at is None else f"{text}-{self.at}"


def is_position(text: str) -> bool:
    """Whether `text` has the form of a position."""
    return _POSITION.fullmatch(text) is not None


def parse_position(text: str, incarnation: str, *, field: str) -> Position:
    """Return the position `text` says; `Resync` when it is of another incarnation of the database."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {shown(text)} is no position; pass on what an earlier answer gave", field=field)
    if match["incarnation"] != incarnation[:INCARNATION_CHARS]:
        raise Resync(f"{field}: the database was restored since; read what you need anew, then go on from now")
    return Position(int(match["seq"]), Instant(int(match["at"])) if match["at"] is not None else None)


class Wanted(Protocol):
    """What somebody waits for. Equal ones are looked through once, however many wait."""

    def takes(self, event: StoredEvent) -> bool:
        """Whether `event` is among it."""
        ...

    def passes(self, projects: Collection[str | None] | None) -> bool:
        """Whether time passing counts, which has freed something in these projects, or may have in any."""
        ...


@dataclass(frozen=True, slots=True)
class Topic:
    """Which events a reader wants; None is all of them. `kinds` may name a whole family: ``lease`` is ``lease.*``.

    Whether the reader may see them is asked when they are read: see `shown_to`.
    """

    project: str | None = None
    kinds: tuple[str, ...] | None = None
    node: str | None = None
    record: str | None = None
    record_class: ClassName | None = None
    field: FieldName | None = None

    def takes(self, event: StoredEvent) -> bool:
        """Whether `event` is among them."""
        return (
            (self.project is None or event.project == self.project)
            and (self.node is None or event.node == self.node)
            and (self.record is None or event.record == self.record)
            and (self.record_class is None or event.record_class == self.record_class)
            and (self.field is None or event.field == self.field)
            and (self.kinds is None or event.kind in self.kinds or event.kind.partition(".")[0] in self.kinds)
        )

    def passes(self, projects: Collection[str | None] | None) -> bool:
        """Return False: that time passes is no event."""
        del projects
        return False


@dataclass(frozen=True, slots=True)
class EveryRecord:
    """All that happens to records; who waits for a field of one finds it there."""

    def takes(self, event: StoredEvent) -> bool:
        """Whether `event` is about a record."""
        return event.record is not None

    def passes(self, projects: Collection[str | None] | None) -> bool:
        """Return False: when a lease on a record ends, its waiters know by themselves."""
        del projects
        return False


@dataclass(frozen=True, slots=True)
class QueueScope:
    """What may change a part of the queue: the items of some projects; None is all of it.

    A node may free one of another project, which it blocked, or take it away.
    A lease is a matter of its own node only; and so, in the queue, is when it ends.
    Records are not in the queue, nor are the leases that their tasks are.
    """

    projects: frozenset[str] | None = None

    def takes(self, event: StoredEvent) -> bool:
        """Whether `event` may change what is in the scope, or for whom."""
        if event.record is not None:
            return False
        if self.projects is None or event.project is None or event.project in self.projects:
            return True
        return event.kind in _REACHING

    def passes(self, projects: Collection[str | None] | None) -> bool:
        """Whether what time has freed in `projects` may be in the scope."""
        if projects is None:
            return True
        return bool(projects) if self.projects is None else not self.projects.isdisjoint(projects)


_REACHING: Final = frozenset({"node.put", "node.status", "node.edge_added", "node.edge_removed", "node.deleted"})
"""What of another project may reach into this one."""
