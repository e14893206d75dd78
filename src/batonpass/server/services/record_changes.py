"""A write to a record, opened: who writes and on which premises, the class in force, the record and its fields locked.

The locks come in the order of `store.base`: the lease rows of the tasks that
premises name, or that a deletion ends; the class, which nobody changes then;
the record's row, which serializes all writes of one record. What a write is
decided by is read after them, the time too (D5, D44).

A task that is claimed for the first time gets its lease row then, so that row
can appear after we have looked for it and found none. Its record's row cannot:
whoever claims locks that too. So under the record's lock we look once more, and
begin again with the row if it is there now.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from batonpass.core.classes import RecordClass
from batonpass.core.errors import NotFound, StalePremise
from batonpass.core.ids import Instant, Resource
from batonpass.core.premises import BasedOn, broken_among, stale_premise
from batonpass.core.record_writes import FieldState, require_may_name
from batonpass.core.records import FieldName, RecordPath
from batonpass.server.services.change import Caller, Replayed, recognized, require_record_writer
from batonpass.server.services.classes import Classes
from batonpass.store import classes as class_rows
from batonpass.store import record_fields, records
from batonpass.store.base import Fences, Retry, Statement, Store, Tx, as_json, now_asked, q
from batonpass.store.records import LockedRecord


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record under its lock, all premises of the write compared.

    `row` is as it was locked, None for a record that nobody has written.
    `fields` are its registers and appends as they are; one that nobody has
    written begins after `first_version`. When `replayed` is set,
    this very request was answered before, and nothing else is to be looked at.
    """

    tx: Tx
    caller: Caller
    record: RecordPath
    kind: RecordClass
    class_version: int
    row: LockedRecord | None
    fields: Mapping[FieldName, FieldState]
    first_version: int
    based_on: BasedOn
    now: Instant
    replayed: Replayed | None = None

    @property
    def is_there(self) -> bool:
        """Whether the record has been written since it was deleted, or at all."""
        return self.row is not None and self.row.is_there

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


@asynccontextmanager
async def record_change(
    store: Store, classes: Classes, caller: Caller, based_on: BasedOn, *, ending: frozenset[Resource] = frozenset()
) -> AsyncIterator[RecordChange]:
    """Open a write to the record that `based_on` names; `ending` are the lease rows that it changes, where they are.

    Raises `Forbidden`, `LeaseLost` for a broken fence of the headers,
    `StalePremise` with all premises that do not hold, `ScopeDenied` for one on
    a field the caller may not read, `NotFound` for an unknown class, or
    `Invalid` when the Idempotency-Key was used for another body.
    """
    require_record_writer(caller.principal)
    fences = Fences(named=caller.fences, changing=ending, based_on=based_on)
    try:
        async with store.write(caller.principal, fences) as tx:
            yield await _locked(tx, classes, caller, based_on, expected=based_on.resources | ending)
    except StalePremise:
        # It tells of fields what only those may know who read them. Asked only now: nearly all premises hold.
        async with store.read() as reader:
            kind, _ = await classes.seen(reader, based_on.record.record_class)
        require_may_name(kind, caller.principal, based_on)
        raise


async def _locked(
    tx: Tx, classes: Classes, caller: Caller, based_on: BasedOn, *, expected: frozenset[Resource]
) -> RecordChange:
    record = based_on.record
    _, versions, rows, fields, ((first,),), appeared, ((now,),) = await tx.fetch(
        class_rows.held_asked([record.record_class]),
        class_rows.versions_asked([record.record_class]),
        records.locked_asked([record]),
        record_fields.states_asked(record),
        records.first_version_asked(),
        _leases_asked(expected - tx.locked.keys()),
        now_asked(tx.clock),
    )
    if appeared:
        raise Retry(f"{record}: a task of it was claimed for the first time meanwhile")
    in_force = (await classes.of_versions(tx, versions)).get(record.record_class)
    if in_force is None:
        raise NotFound(f"{record.record_class}: no such class", field="class")
    kind, class_version = in_force
    made = RecordChange(
        tx=tx,
        caller=caller,
        record=record,
        kind=kind,
        class_version=class_version,
        row=records.locked(rows).get(record),
        fields=record_fields.states(fields),
        first_version=first,
        based_on=based_on,
        now=Instant(now),
    )
    # Before what was read of registers is compared: the first sending of this very write may have moved one of them.
    replayed = await recognized(tx, caller, made.now)
    if replayed is None:
        _require_premises(made)
    return replace(made, replayed=replayed)


def _require_premises(made: RecordChange) -> None:
    require_may_name(made.kind, made.caller.principal, made.based_on)
    broken = broken_among(
        made.based_on,
        leases=made.tx.locked,
        versions={name: field.version for name, field in made.fields.items()},
        principal=made.caller.principal,
    )
    if broken:
        raise stale_premise(broken)


def _leases_asked(resources: frozenset[Resource]) -> Statement:
    return q("leases.of", resources=as_json(sorted(resources)))
