"""Writes to records, but those of tasks: put, append, several at once, and deletion (D32, D33, D38).

Single writes without an Idempotency-Key that arrive together are one set: one
transaction, in which each is decided by itself, on what the ones before left.
Everything else has a transaction of its own, and so has what a set would have
to wait for, or to make first: a row that somebody else has locked, a record
that is not there. All of a request stands, or nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from batonpass.core import points
from batonpass.core import record_writes as law
from batonpass.core.classes import FieldSpec, RecordClass
from batonpass.core.errors import BatonError, Invalid, NotFound
from batonpass.core.lease_law import ended as tenure_ended
from batonpass.core.leases import Lease
from batonpass.core.premises import BasedOn, Premise
from batonpass.core.record_writes import FieldState, Write, Written
from batonpass.core.records import FieldKind, FieldName, RecordPath, identity_of, task_of
from batonpass.server.services import record_board
from batonpass.server.services.change import Caller, Replayed, answered, require_record_writer
from batonpass.server.services.classes import Classes
from batonpass.server.services.coalesce import ALONE, Alone, Coalescer
from batonpass.server.services.record_board import RecordAsk, RecordBoard, RecordChange
from batonpass.server.services.record_changes import record_change
from batonpass.store import events, leases, record_fields, records
from batonpass.store.base import Retry, Store, retried
from batonpass.store.events import Event
from batonpass.store.records import LockedRecord, LogEntry
from batonpass.wire import json_schemas
from batonpass.wire.records import DeleteRecordReply, FieldWriteReply, WritesReply


class RecordWrites:
    """What is written to the records of one store."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes
        self._queue: Coalescer[RecordAsk, FieldWriteReply | BatonError] = Coalescer(
            self._run_set,
            self._run_alone,
            key=lambda ask: ask.record,
            sets_max=store.writes_at_once,
            key_repeats=True,
        )

    @property
    def waiting(self) -> int:
        """Return how many writes wait for the next set."""
        return self._queue.waiting

    async def write(
        self, caller: Caller, record: RecordPath, write: Write, *, premises: Sequence[Premise]
    ) -> FieldWriteReply | Replayed:
        """Put a value, or append an item; the record is made if it is not there."""
        require_record_writer(caller.principal)
        ask = RecordAsk(caller, BasedOn(record, tuple(premises)), [write])
        if caller.repeatable is not None:
            return await self._write(ask)
        (answer,) = await self._queue.submit([ask])
        if isinstance(answer, BatonError):
            raise answer
        return answer

    @retried
    async def _write(self, ask: RecordAsk) -> FieldWriteReply | Replayed:
        async with record_change(self._store, self._classes, ask) as change:
            if change.replayed is not None:
                return change.replayed
            return answered(change.tx, ask.caller, _reply(change, *await _recorded(change)))

    @retried
    async def write_all(
        self, caller: Caller, record: RecordPath, writes: Sequence[Write], *, premises: Sequence[Premise]
    ) -> WritesReply | Replayed:
        """Do several writes of one record in their order, all of them or none."""
        require_record_writer(caller.principal)
        ask = RecordAsk(caller, BasedOn(record, tuple(premises)), writes)
        async with record_change(self._store, self._classes, ask) as change:
            if change.replayed is not None:
                return change.replayed
            row, all_written = await _recorded(change)
            versions: dict[str, int] = {written.write.field: written.version for written in all_written}
            return answered(change.tx, caller, WritesReply(str(record), row.version, versions))

    @retried
    async def delete(
        self, caller: Caller, record: RecordPath, *, premises: Sequence[Premise]
    ) -> DeleteRecordReply | Replayed:
        """Delete a record: its values go, every tenure on its tasks ends, its versions and its history stay."""
        require_record_writer(caller.principal)
        tasks = await self._tasks(record)
        ending = frozenset(record.task(name) for name in tasks)
        ask = RecordAsk(caller, BasedOn(record, tuple(premises)), ending=ending)
        async with record_change(self._store, self._classes, ask) as change:
            if change.replayed is not None:
                return change.replayed
            if _tasks_of(change.kind) - tasks:
                raise Retry(f"{record.record_class} got another task meanwhile")
            row = _deleted(change)
            return answered(change.tx, caller, DeleteRecordReply(str(record), row.version))

    # --- single writes that come together ----------------------------------------------------------------------------

    @retried
    async def _run_set(self, asks: Sequence[RecordAsk]) -> list[FieldWriteReply | BatonError | Alone]:
        async with self._store.write_set(
            [ask.writer for ask in asks],
            along=record_board.asked(self._store.clock, asks, alone=False),
            skip_locked=True,
        ) as tx:
            board = await record_board.read(tx, self._classes)
            await points.areach("batch.locked")
            answers = [_decided(board, position, ask) for position, ask in enumerate(asks)]
            board.hand_over()
        return answers

    async def _run_alone(self, ask: RecordAsk) -> FieldWriteReply:
        reply = await self._write(ask)
        assert not isinstance(reply, Replayed), "who gives a key comes by no queue"
        return reply

    async def _tasks(self, record: RecordPath) -> frozenset[FieldName]:
        """Return the tasks of a record: whose lease rows are locked before anything else is looked at."""
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, record.record_class)
        return _tasks_of(kind)


# --- writing ---------------------------------------------------------------------------------------------------------


def _decided(board: RecordBoard, position: int, ask: RecordAsk) -> FieldWriteReply | BatonError | Alone:
    """Decide one write of a set on what the ones before left; what is refused leaves nothing."""
    if board.must_wait(ask):
        return ALONE
    try:
        change = board.change(position, ask)
        change.require_premises()
        states, written = _judged(change)
    except BatonError as refusal:
        return refusal
    assert change.row is not None, "a record that is not there must wait"
    return _reply(change, board.note(change, change.row, states, written), written)


async def _recorded(change: RecordChange) -> tuple[LockedRecord, Sequence[Written]]:
    """Write what is asked for, and return the record's row after it and what each write came to."""
    states, written = _judged(change)
    after = change.board.note(change, await change.row_to_write(), states, written)
    change.board.hand_over()
    return after, written


def _judged(change: RecordChange) -> tuple[Mapping[FieldName, FieldState], Sequence[Written]]:
    """Return the fields that change, as they are then, and what each write came to; raise what refuses one of them."""
    for write in change.ask.writes:
        _require_fitting(law.require_writable(change.kind, change.principal, write), write)
    states, written = law.applied(change.states(), change.kind, change.ask.writes)
    law.require_room(change.record, {**change.board.fields_of(change.record), **states})
    return states, written


def _require_fitting(spec: FieldSpec, write: Write) -> None:
    """Raise `Invalid` with all that a value breaks of the schema that its register has."""
    broken = json_schemas.broken(spec.schema, write.value) if spec.schema is not None else ()
    if broken:
        raise Invalid(f"{write.field}: {broken[0]}", details=broken, field=write.field)


def _reply(change: RecordChange, row: LockedRecord, all_written: Sequence[Written]) -> FieldWriteReply:
    (written,) = all_written
    return FieldWriteReply(str(change.record), written.write.field, written.version, row.version, written.index)


# --- deleting --------------------------------------------------------------------------------------------------------


def _tasks_of(kind: RecordClass) -> frozenset[FieldName]:
    return frozenset(name for name, spec in kind.fields.items() if spec.kind is FieldKind.TASK)


def _deleted(change: RecordChange) -> LockedRecord:
    """Take all away but versions and history, and return the record's row as it is then."""
    law.require_may_delete(change.kind, change.principal)
    row = change.row
    if row is None or not row.is_there:
        raise NotFound(f"there is no record {change.record}", field="record")
    ended = [change.tx.locked[resource] for resource in sorted(change.ask.ending & change.tx.locked.keys())]
    held = [lease for lease in ended if lease.holder is not None]
    after = replace(
        row,
        class_version=change.class_version,
        version=row.version + 1,
        history_n=row.history_n + len(held) + 1,
        updated_at=change.now,
        deleted_at=change.now,
    )
    leases.write(change.tx, [(lease, tenure_ended(lease)) for lease in ended])
    records.write(change.tx, [(row, after)])
    record_fields.empty(change.tx, change.record)
    _tell_of_deletion(change, after, held)
    return after


def _tell_of_deletion(change: RecordChange, after: LockedRecord, held: Sequence[Lease]) -> None:
    """Say in the history and the feed who lost which task, and then that the record is gone."""
    principal = change.principal

    def entry(n: int, verb: str, lease: Lease | None) -> LogEntry:
        lost = lease.holder if lease is not None and lease.holder != principal.id else None
        return LogEntry(
            record=change.record,
            n=n,
            author=identity_of(principal.id),
            verb=verb,
            field=task_of(lease.resource)[1] if lease is not None else None,
            version=lease.version + 1 if lease is not None else None,
            record_version=after.version,
            class_version=change.class_version,
            based_on=change.ask.based_on.premises,
            took_over_from=lost,
        )

    first = after.history_n - len(held)
    ends = [entry(first + place, law.RELEASE, lease) for place, lease in enumerate(held)]
    records.log(change.tx, [*ends, entry(after.history_n, law.DELETE, None)], at=change.now)
    event = Event(
        "record.deleted", node=None, project=None, actor=principal, record=change.record, version=after.version
    )
    revoked = [
        replace(event, kind="lease.revoked", epoch=lease.epoch).about(lease.resource, version=lease.version + 1)
        for lease in held
    ]
    events.append(change.tx, [*revoked, event], at=change.now)
