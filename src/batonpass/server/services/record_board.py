"""What writes to records are decided by, and what they leave: of one transaction, for one write or a set of many.

    lock the lease rows that they stand on ─┐
    hold the classes, read their newest     │ one round trip, the time last (D5, D44)
    lock the records, read their fields    ─┘
    decide each on what the ones before left (core/record_writes)
    write every changed row once, history, events, COMMIT: the second

A task that is claimed for the first time gets its lease row then, so that row
can appear after we have looked for it and found none. Its record's row cannot:
whoever claims locks that too. So under the record's lock we look once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from batonpass.core.classes import RecordClass
from batonpass.core.clock import Clock
from batonpass.core.errors import BrokenPremise
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, Resource
from batonpass.core.premises import BasedOn, broken_among, stale_premise
from batonpass.core.record_writes import FieldState, Write, WriteVerb, Written, require_may_name
from batonpass.core.records import ClassName, FieldName, Identity, RecordPath, identity_of
from batonpass.core.values import value
from batonpass.server.services.change import Caller, Replayed
from batonpass.server.services.classes import Classes, require_class
from batonpass.store import classes as class_rows
from batonpass.store import events, fences, leases, record_fields, records
from batonpass.store.base import Fences, Retry, Statement, Tx, Writer, now_asked
from batonpass.store.events import Event
from batonpass.store.record_fields import Item, StoredField
from batonpass.store.records import LockedRecord, LogEntry

_KINDS: Final = {WriteVerb.PUT: "record.put", WriteVerb.APPEND: "record.append"}


@value(frozen=True, slots=True)
class RecordAsk:
    """A change of the record that `based_on` names: what it writes, and which lease rows it ends, where they are."""

    caller: Caller
    based_on: BasedOn
    writes: Sequence[Write] = ()
    ending: frozenset[Resource] = frozenset()

    @property
    def record(self) -> RecordPath:
        """Which record is changed."""
        return self.based_on.record

    @property
    def writer(self) -> Writer:
        """Who changes it, with all it stands on."""
        caller = self.caller
        return Writer(caller.principal, Fences(named=caller.fences, changing=self.ending, based_on=self.based_on))

    @property
    def perhaps_unclaimed(self) -> frozenset[Resource]:
        """The lease rows that may be missing, and then nobody has ever claimed the task: no fence is on those."""
        return self.ending.union(self.record.task(name) for name in self.based_on.read_fields(()))


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record under its lock, what its caller stands on compared.

    `row` is as it was locked, or as an earlier write of the set left it, None
    for a record that nobody has written. When `replayed` is set, this very
    request was answered before, and nothing else is to be looked at.
    """

    board: RecordBoard
    ask: RecordAsk
    kind: RecordClass
    class_version: int
    row: LockedRecord | None
    replayed: Replayed | None = None

    @property
    def tx(self) -> Tx:
        """The transaction."""
        return self.board.tx

    @property
    def now(self) -> Instant:
        """The time it is decided at, read under the locks."""
        return self.board.now

    @property
    def record(self) -> RecordPath:
        """Which record is changed."""
        return self.ask.record

    @property
    def principal(self) -> Principal:
        """Who changes it."""
        return self.ask.caller.principal

    def require_fences(self) -> None:
        """Raise `StalePremise` if a fence on a task does not hold, with all else that does not."""
        if self._broken(self.ask.based_on.fences):
            self.require_premises()

    def require_premises(self) -> None:
        """Raise `StalePremise` with all premises that do not hold, `ScopeDenied` for one that may not be named."""
        require_may_name(self.kind, self.principal, self.ask.based_on)
        if broken := self._broken(self.ask.based_on):
            raise stale_premise(broken)

    def _broken(self, based_on: BasedOn) -> Sequence[BrokenPremise]:
        versions = {name: state.version for name, state in self.board.fields_of(self.record).items()}
        return broken_among(based_on, leases=self.tx.locked, versions=versions, principal=self.principal)

    def states(self) -> Mapping[FieldName, FieldState]:
        """Return what the fields that are written are at; one that nobody has written begins where the board says."""
        unwritten = FieldState(self.board.first_version)
        fields = self.board.fields_of(self.record)
        return {write.field: fields.get(write.field, unwritten) for write in self.ask.writes}

    async def row_to_write(self) -> LockedRecord:
        """Return the record's row under its lock, made now if there is none.

        Raises `Retry` if somebody else made it since it was looked for: then no
        lock has kept anything of it as it was read.
        """
        if self.row is not None:
            return self.row
        new, rows = await self.tx.fetch(records.created_asked([self.record]), records.locked_asked([self.record]))
        if not new:
            raise Retry(f"{self.record} was written for the first time meanwhile")
        return records.locked(rows)[self.record]


@dataclass(slots=True)
class RecordBoard:
    """The classes, records and fields of one transaction, as each write leaves them for the next."""

    tx: Tx
    now: Instant
    classes: Mapping[ClassName, tuple[RecordClass, int]]
    locked: Mapping[RecordPath, LockedRecord]
    fields: dict[RecordPath, dict[FieldName, FieldState]]
    first_version: int
    claimed: frozenset[Resource]
    """Which of the lease rows that may be missing are there, as read under the records' locks."""
    rows: dict[RecordPath, tuple[LockedRecord, LockedRecord]] = field(default_factory=dict)
    """Each changed record: as it was locked, and as it is now."""
    changed: dict[tuple[RecordPath, FieldName], StoredField] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    happened: list[Event] = field(default_factory=list)

    def must_wait(self, ask: RecordAsk) -> bool:
        """Whether a row that the ask needs may be somebody else's at this moment, or is still to be made."""
        if ask.record not in self.locked or self.appeared(ask):
            return True
        skipped = self.tx.skipped
        return bool(skipped and skipped & ask.writer.fences.resources(ask.caller.principal) - ask.perhaps_unclaimed)

    def appeared(self, ask: RecordAsk) -> bool:
        """Whether a task of the record has a lease row that is not locked: it was claimed for the first time since."""
        return not self.claimed.isdisjoint(ask.perhaps_unclaimed - self.tx.locked.keys())

    def change(self, position: int, ask: RecordAsk) -> RecordChange:
        """Return the record as it is for `ask`, the one at `position` of those the transaction was opened for.

        Raises `LeaseLost` for a broken fence of the headers, `StalePremise` for one
        on a task of the record, `NotFound` for an unknown class.
        """
        if position in self.tx.broken:
            raise fences.lost(self.tx, position, ask.writer, self.now)
        kind, version = require_class(ask.record.record_class, self.classes)
        _, row = self.rows.get(ask.record, (None, self.locked.get(ask.record)))
        change = RecordChange(self, ask, kind, version, row)
        change.require_fences()
        return change

    def fields_of(self, record: RecordPath) -> Mapping[FieldName, FieldState]:
        """Return what the registers and appends of a record are at; one nobody has written is not among them."""
        return self.fields.get(record, {})

    def note(
        self,
        change: RecordChange,
        row: LockedRecord,
        states: Mapping[FieldName, FieldState],
        written: Sequence[Written],
    ) -> LockedRecord:
        """Note what became of the fields of `row`'s record, and return its row after it."""
        after = replace(
            row,
            class_version=change.class_version,
            version=row.version + 1,
            history_n=row.history_n + len(written),
            created_at=row.created_at if row.is_there else self.now,
            updated_at=self.now,
            deleted_at=None,
        )
        as_locked, _ = self.rows.get(row.path, (row, row))
        self.rows[row.path] = as_locked, after
        self.fields.setdefault(row.path, {}).update(states)
        self._note_fields(row.path, states, written, author=identity_of(change.principal.id))
        self._tell(change, row, after, written)
        return after

    def _note_fields(
        self,
        record: RecordPath,
        states: Mapping[FieldName, FieldState],
        written: Sequence[Written],
        *,
        author: Identity,
    ) -> None:
        for name, state in states.items():
            stored = StoredField(record, name, state.version, state.value, state.items, state.size, author, self.now)
            self.changed[record, name] = stored
        self.items += [
            Item(record, each.write.field, each.index, each.write.text, author)
            for each in written
            if each.index is not None
        ]

    def _tell(self, change: RecordChange, row: LockedRecord, after: LockedRecord, written: Sequence[Written]) -> None:
        """Note each write for the record's history, and for the feed."""
        principal = change.principal
        author = identity_of(principal.id)
        for n, each in enumerate(written, start=row.history_n + 1):
            self.entries.append(
                LogEntry(
                    record=row.path,
                    n=n,
                    author=author,
                    verb=each.write.verb,
                    field=each.write.field,
                    version=each.version,
                    record_version=after.version,
                    class_version=change.class_version,
                    value=each.write.text,
                    based_on=change.ask.based_on.premises,
                )
            )
            self.happened.append(
                Event(
                    _KINDS[each.write.verb],
                    node=None,
                    project=None,
                    actor=principal,
                    data={"record_version": after.version},
                    record=row.path,
                    field=each.write.field,
                    version=each.version,
                )
            )

    def hand_over(self) -> None:
        """Send every changed row once, and what goes into histories and the feed."""
        records.write(self.tx, [pair for _, pair in sorted(self.rows.items())])
        record_fields.write(self.tx, [stored for _, stored in sorted(self.changed.items())])
        record_fields.add_items(self.tx, self.items, at=self.now)
        records.log(self.tx, self.entries, at=self.now)
        events.append(self.tx, self.happened, at=self.now)


def asked(clock: Clock, asks: Sequence[RecordAsk], *, alone: bool) -> list[Statement]:
    """Return what is asked for `asks` in the round trip of the locks; alone, a record's row is waited for."""
    paths = {ask.record for ask in asks}
    names = {path.record_class for path in paths}
    perhaps = _perhaps_unclaimed(asks)
    return [
        class_rows.held_asked(names),
        class_rows.versions_asked(names),
        records.locked_asked(paths, skip_locked=not alone),
        record_fields.states_asked(paths),
        records.first_version_asked(),
        now_asked(clock),
        *([leases.asked(perhaps)] if perhaps else []),
    ]


async def read(tx: Tx, classes: Classes) -> RecordBoard:
    """Return the board of a transaction, from the answers to `asked`; a class that is not known yet is read."""
    _, versions, rows, states, ((first,),), ((now,),), *further = tx.along
    (claimed,) = further or ([],)
    return RecordBoard(
        tx=tx,
        now=Instant(now),
        classes=await classes.of_versions(tx, versions),
        locked=records.locked(rows),
        fields=record_fields.states(states),
        first_version=first,
        claimed=frozenset(Resource(row[0]) for row in claimed),
    )


def _perhaps_unclaimed(asks: Iterable[RecordAsk]) -> frozenset[Resource]:
    return frozenset().union(*(ask.perhaps_unclaimed for ask in asks))
