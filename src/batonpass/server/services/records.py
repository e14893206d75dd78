"""What somebody may read of records: one, one field of it, or a page of a class's (D35, D38).

Every read is one snapshot, with the class that is in force in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from batonpass.core import record_writes as law
from batonpass.core.classes import Fields, FieldSpec, RecordClass
from batonpass.core.errors import NotFound, ScopeDenied
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant
from batonpass.core.leases import Lease, LeaseView, view
from batonpass.core.record_waits import FieldAt
from batonpass.core.records import ClassName, FieldKind, FieldName, Identity, RecordPath, identity_of
from batonpass.server.services.classes import Classes
from batonpass.store import record_fields, record_history, records
from batonpass.store.base import Reader, Store, as_json, now_asked, q
from batonpass.store.classes import versions_asked
from batonpass.store.leases import lease_row
from batonpass.store.record_fields import StoredField
from batonpass.store.records import Record

LAST_WORDS_SCANNED: Final = 1_000
"""How far back in a record's history it is looked who gave a task back; beyond that nobody is named."""


@dataclass(frozen=True, slots=True)
class SeenField:
    """One field as a reader sees it: of a register its `value` as JSON text, of an append its `items`.

    A task that somebody has, has its `lease`. At version 0 nobody has ever written it. `author` and `updated_at` are of
    its last write; where that took the value away, there are none.
    """

    kind: FieldKind
    version: int
    author: Identity | None = None
    updated_at: Instant | None = None
    value: str | None = None
    items: tuple[str, ...] = ()
    lease: LeaseView | None = None


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record, and of its fields those that the reader may read and that were ever written."""

    path: RecordPath
    class_version: int
    version: int
    fields: Mapping[FieldName, SeenField] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """One or more records as read, at the moment of the snapshot."""

    records: tuple[SeenRecord, ...]
    now: Instant


class Records:
    """The records of one store, for their readers."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes

    async def get(self, principal: Principal, path: RecordPath, names: Collection[FieldName] = ()) -> Look:
        """Return a record with all that `principal` may read of it, or with the fields `names` only.

        Raises `ScopeDenied` for whom no role lets read anything, or one of the
        fields named; `NotFound` for no such class, field or record.
        """
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, path.record_class)
            readable = require_reader(kind, principal)
            for name in names:
                law.require_readable(kind, principal, name)
            found = await _with_last_words(tx, await looked_at(tx, kind, [path], frozenset(names) or readable))
        require_there(path, found)
        return found

    async def field(self, principal: Principal, path: RecordPath, name: FieldName) -> Look:
        """Return a record with the field `name` alone, at version 0 if it was never written; raises as `get`."""
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, path.record_class)
            spec = law.require_readable(kind, principal, name)
            found = await _with_last_words(tx, await looked_at(tx, kind, [path], frozenset({name})))
        return with_field(found, path, name, spec)

    async def fields(self, wanted: Iterable[FieldAt]) -> dict[FieldAt, tuple[RecordClass, Look]]:
        """Return each field with the class in force, all of one snapshot, for anybody: who may read it is asked then.

        A field that its class does not have, or whose class is not there, is not among them. See `with_field`.
        """
        alike: dict[tuple[ClassName, FieldName], list[RecordPath]] = {}
        for at in wanted:
            alike.setdefault((at.record.record_class, at.field), []).append(at.record)
        told = {}
        async with self._store.read() as tx:
            (rows,) = await tx.fetch(versions_asked(name for name, _ in alike))
            kinds = await self._classes.of_versions(tx, rows)
            for (record_class, name), paths in alike.items():
                if record_class not in kinds or name not in kinds[record_class][0].fields:
                    continue
                kind, _ = kinds[record_class]
                found = await looked_at(tx, kind, paths, frozenset({name}))
                there = {record.path: record for record in found.records}
                for path in paths:
                    look = Look((there[path],) if path in there else (), found.now)
                    told[FieldAt(path, name)] = (kind, look)
        return told


def with_field(found: Look, path: RecordPath, name: FieldName, spec: FieldSpec) -> Look:
    """Return the record that was looked for, with its field at version 0 if that was never written.

    Raises `NotFound` if the record is not there.
    """
    record = require_there(path, found)
    return replace(found, records=(replace(record, fields={name: SeenField(spec.kind, 0), **record.fields}),))


def require_there(path: RecordPath, found: Look) -> SeenRecord:
    """Return the one record that was looked for; raise `NotFound` if it is not there."""
    if not found.records:
        raise NotFound(f"there is no record {path}", field="record")
    return found.records[0]


def require_reader(kind: RecordClass, principal: Principal) -> Fields:
    """Return the fields that `principal` may read; raise `ScopeDenied` if there are none."""
    identity = law.require_role(kind, principal)
    readable = kind.readable(identity)
    if not readable:
        raise ScopeDenied(f"no role of the class {kind.name} lets {identity} read anything of it")
    return readable


async def looked_at(tx: Reader, kind: RecordClass, paths: Sequence[RecordPath], readable: Fields) -> Look:
    """Return those of the records `paths` that are there, with the fields `readable`."""
    by_kind = {each: [name for name in readable if kind.fields[name].kind is each] for each in FieldKind}
    tasks = {path.task(name): (path, name) for path in paths for name in by_kind[FieldKind.TASK]}
    rows, fields, items, leases, ((now,),) = await tx.fetch(
        records.asked(paths),
        record_fields.asked(paths),
        record_fields.items_asked(paths, by_kind[FieldKind.APPEND]),
        q("leases.of", resources=as_json(sorted(tasks))),
        now_asked(tx.clock),
    )
    there = {path: row for path, row in records.found(rows).items() if row.is_there}
    seen: dict[RecordPath, dict[FieldName, SeenField]] = {path: {} for path in there}
    stored = {(one.record, one.name): one for one in record_fields.found(fields) if one.record in there}
    appended = _by_field(record_fields.items_found(items))
    for (path, name), one in stored.items():
        if name in readable and kind.fields[name].kind is not FieldKind.TASK:
            seen[path][name] = _value(kind, one, appended.get((path, name), ()))
    for lease in map(lease_row, leases):
        path, name = tasks[lease.resource]
        if path in there and lease.version > 0:
            seen[path][name] = _task(lease, Instant(now))
    return Look(tuple(_seen(there[path], seen[path]) for path in paths if path in there), Instant(now))


def _seen(row: Record, fields: Mapping[FieldName, SeenField]) -> SeenRecord:
    return SeenRecord(row.path, row.class_version, row.version, dict(sorted(fields.items())))


def _by_field(items: Iterable[tuple[RecordPath, FieldName, str]]) -> dict[tuple[RecordPath, FieldName], list[str]]:
    found: dict[tuple[RecordPath, FieldName], list[str]] = {}
    for path, name, text in items:
        found.setdefault((path, name), []).append(text)
    return found


def _value(kind: RecordClass, stored: StoredField, items: Sequence[str]) -> SeenField:
    return SeenField(
        kind=kind.fields[stored.name].kind,
        version=stored.version,
        author=stored.author,
        updated_at=stored.updated_at,
        value=stored.value,
        items=tuple(items),
    )


def _task(lease: Lease, now: Instant) -> SeenField:
    held = view(lease, now)
    if held is None:
        return SeenField(FieldKind.TASK, lease.version)
    return SeenField(FieldKind.TASK, lease.version, identity_of(held.by), lease.granted_at, lease=held)


async def _with_last_words(tx: Reader, found: Look) -> Look:
    """Return a look at one record in which free tasks have the author of the last word on them.

    A lease row that is free tells of nobody, so that is read from history, if
    it is among the last `LAST_WORDS_SCANNED` entries there.
    """
    free = [
        name
        for record in found.records
        for name, seen in record.fields.items()
        if seen.kind is FieldKind.TASK and seen.lease is None
    ]
    if not free:
        return found
    (record,) = found.records
    (rows,) = await tx.fetch(record_history.newest_asked(record.path, free, scan=LAST_WORDS_SCANNED))
    told = {
        name: replace(record.fields[name], author=last.author, updated_at=last.at)
        for name, last in record_history.newest(rows).items()
    }
    return replace(found, records=(replace(record, fields={**record.fields, **told}),))
