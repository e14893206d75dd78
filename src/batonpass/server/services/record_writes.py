"""Writes to records, but those of tasks: put, append, several at once, and deletion (D32, D33, D38).

Each is decided under the locks of `record_changes`; all of a request stands,
or nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core import record_writes as law
from batonpass.core.classes import FieldSpec, RecordClass
from batonpass.core.errors import Invalid, NotFound
from batonpass.core.ids import Resource
from batonpass.core.lease_law import ended as tenure_ended
from batonpass.core.leases import Lease
from batonpass.core.premises import BasedOn, Premise
from batonpass.core.record_writes import FieldState, Write, Written
from batonpass.core.records import FieldKind, FieldName, RecordPath, identity_of, task_of
from batonpass.server.services.change import Caller, Replayed, answered
from batonpass.server.services.classes import Classes
from batonpass.server.services.record_changes import RecordChange, record_change
from batonpass.store import events, leases, record_fields, records
from batonpass.store.base import Retry, Store, retried
from batonpass.store.events import Event
from batonpass.store.record_fields import Item, StoredField
from batonpass.store.records import LockedRecord, LogEntry
from batonpass.wire import json_schemas
from batonpass.wire.records import DeleteRecordReply, FieldWriteReply, WritesReply

_KINDS: Final = {law.WriteVerb.PUT: "record.put", law.WriteVerb.APPEND: "record.append"}


@dataclass(frozen=True, slots=True)
class Recorded:
    """Writes that stand, and the record's version after them."""

    record_version: int
    written: Sequence[Written]


class RecordWrites:
    """What is written to the records of one store."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes

    @retried
    async def write(
        self, caller: Caller, record: RecordPath, write: Write, *, premises: Sequence[Premise]
    ) -> FieldWriteReply | Replayed:
        """Put a value, or append an item; the record is made if it is not there."""
        async with record_change(self._store, self._classes, caller, BasedOn(record, tuple(premises))) as made:
            if made.replayed is not None:
                return made.replayed
            recorded = await _recorded(made, [write])
            (written,) = recorded.written
            reply = FieldWriteReply(str(record), write.field, written.version, recorded.record_version, written.index)
            return answered(made.tx, caller, reply)

    @retried
    async def write_all(
        self, caller: Caller, record: RecordPath, writes: Sequence[Write], *, premises: Sequence[Premise]
    ) -> WritesReply | Replayed:
        """Do several writes of one record in their order, all of them or none."""
        async with record_change(self._store, self._classes, caller, BasedOn(record, tuple(premises))) as made:
            if made.replayed is not None:
                return made.replayed
            recorded = await _recorded(made, writes)
            versions: dict[str, int] = {written.write.field: written.version for written in recorded.written}
            return answered(made.tx, caller, WritesReply(str(record), recorded.record_version, versions))

    @retried
    async def delete(
        self, caller: Caller, record: RecordPath, *, premises: Sequence[Premise]
    ) -> DeleteRecordReply | Replayed:
        """Delete a record: its values go, every tenure on its tasks ends, its versions and its history stay."""
        based_on = BasedOn(record, tuple(premises))
        tasks = await self._tasks(record)
        ending = frozenset(record.task(name) for name in tasks)
        async with record_change(self._store, self._classes, caller, based_on, ending=ending) as made:
            if made.replayed is not None:
                return made.replayed
            if _tasks_of(made.kind) - tasks:
                raise Retry(f"{record.record_class} got another task meanwhile")
            row = _deleted(made, ending)
            return answered(made.tx, caller, DeleteRecordReply(str(record), row.version))

    async def _tasks(self, record: RecordPath) -> frozenset[FieldName]:
        """Return the tasks of a record: whose lease rows are locked before anything else is looked at."""
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, record.record_class)
        return _tasks_of(kind)


# --- writing ---------------------------------------------------------------------------------------------------------


async def _recorded(made: RecordChange, writes: Sequence[Write]) -> Recorded:
    """Write what `writes` make of the fields, with the record's row, history and events."""
    for write in writes:
        _require_fitting(law.require_writable(made.kind, made.caller.principal, write), write)
    states, written = law.applied(await _states(made, writes), made.kind, writes)
    row = await made.row_to_write()
    after = replace(
        row,
        class_version=made.class_version,
        version=row.version + 1,
        history_n=row.history_n + len(written),
        created_at=row.created_at if row.is_there else made.now,
        updated_at=made.now,
        deleted_at=None,
    )
    records.write(made.tx, [(row, after)])
    _write_fields(made, states, written)
    _tell(made, row, after, written)
    return Recorded(after.version, written)


def _require_fitting(spec: FieldSpec, write: Write) -> None:
    """Raise `Invalid` with all that a value breaks of the schema that its register has."""
    broken = json_schemas.broken(spec.schema, write.value) if spec.schema is not None else ()
    if broken:
        raise Invalid(f"{write.field}: {broken[0]}", details=broken, field=write.field)


async def _states(made: RecordChange, writes: Sequence[Write]) -> dict[FieldName, FieldState]:
    """Return what the written fields are at, with the bytes of appends."""
    appends = {write.field for write in writes if write.verb is law.WriteVerb.APPEND and write.field in made.fields}
    unwritten = {write.field: FieldState(made.first_version) for write in writes}
    if not appends:
        return {**unwritten, **made.fields}
    (rows,) = await made.tx.fetch(record_fields.append_sizes_asked(made.record, appends))
    sizes = record_fields.append_sizes_found(rows)
    sized = {name: replace(state, size=sizes.get(name, 0)) for name, state in made.fields.items()}
    return {**unwritten, **sized}


def _write_fields(made: RecordChange, states: dict[FieldName, FieldState], written: Sequence[Written]) -> None:
    author = identity_of(made.caller.principal.id)
    record_fields.write(
        made.tx,
        [
            StoredField(made.record, name, state.version, state.value, state.items, author, made.now)
            for name, state in states.items()
        ],
    )
    items = [
        Item(made.record, each.write.field, each.index, each.write.text, author)
        for each in written
        if each.index is not None
    ]
    record_fields.add_items(made.tx, items, at=made.now)


def _tell(made: RecordChange, row: LockedRecord, after: LockedRecord, written: Sequence[Written]) -> None:
    """Append each write to the record's history, and to the feed."""
    principal = made.caller.principal
    author = identity_of(principal.id)
    entries = [
        LogEntry(
            record=made.record,
            n=row.history_n + place,
            author=author,
            verb=each.write.verb,
            field=each.write.field,
            version=each.version,
            record_version=after.version,
            class_version=made.class_version,
            value=each.write.text,
            based_on=made.based_on.premises,
        )
        for place, each in enumerate(written, start=1)
    ]
    records.log(made.tx, entries, at=made.now)
    happened = [
        Event(
            _KINDS[each.write.verb],
            node=None,
            project=None,
            actor=principal,
            data={"record_version": after.version},
            record=made.record,
            field=each.write.field,
            version=each.version,
        )
        for each in written
    ]
    events.append(made.tx, happened, at=made.now)


# --- deleting --------------------------------------------------------------------------------------------------------


def _tasks_of(kind: RecordClass) -> frozenset[FieldName]:
    return frozenset(name for name, spec in kind.fields.items() if spec.kind is FieldKind.TASK)


def _deleted(made: RecordChange, ending: frozenset[Resource]) -> LockedRecord:
    """Take all away but versions and history, and return the record's row as it is then."""
    law.require_may_delete(made.kind, made.caller.principal)
    row = made.row
    if row is None or not row.is_there:
        raise NotFound(f"there is no record {made.record}", field="record")
    ended = [made.tx.locked[resource] for resource in sorted(ending & made.tx.locked.keys())]
    held = [lease for lease in ended if lease.holder is not None]
    after = replace(
        row,
        class_version=made.class_version,
        version=row.version + 1,
        history_n=row.history_n + len(held) + 1,
        updated_at=made.now,
        deleted_at=made.now,
    )
    leases.write(made.tx, [(lease, tenure_ended(lease)) for lease in ended])
    records.write(made.tx, [(row, after)])
    record_fields.empty(made.tx, made.record)
    _tell_of_deletion(made, after, held)
    return after


def _tell_of_deletion(made: RecordChange, after: LockedRecord, held: Sequence[Lease]) -> None:
    """Say in the history and the feed who lost which task, and then that the record is gone."""
    principal = made.caller.principal

    def entry(n: int, verb: str, lease: Lease | None) -> LogEntry:
        lost = lease.holder if lease is not None and lease.holder != principal.id else None
        return LogEntry(
            record=made.record,
            n=n,
            author=identity_of(principal.id),
            verb=verb,
            field=task_of(lease.resource)[1] if lease is not None else None,
            version=lease.version + 1 if lease is not None else None,
            record_version=after.version,
            class_version=made.class_version,
            based_on=made.based_on.premises,
            took_over_from=lost,
        )

    first = after.history_n - len(held)
    ends = [entry(first + place, law.RELEASE, lease) for place, lease in enumerate(held)]
    records.log(made.tx, [*ends, entry(after.history_n, law.DELETE, None)], at=made.now)
    event = Event("record.deleted", node=None, project=None, actor=principal, record=made.record, version=after.version)
    revoked = [
        replace(event, kind="lease.revoked", epoch=lease.epoch).about(lease.resource, version=lease.version + 1)
        for lease in held
    ]
    events.append(made.tx, [*revoked, event], at=made.now)
