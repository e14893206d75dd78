"""The rows of records and what was done to them. Its row's lock serializes all writes of one record (D44).

A record's task fields are rows of `store.leases`, locked before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.ids import HolderId, Instant, Resource
from batonpass.core.premises import Premise
from batonpass.core.records import ClassName, FieldName, Identity, RecordId, RecordPath, identity_of
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q


@value(frozen=True, slots=True)
class Record:
    """A record's row: `version` rises with whatever happens to it, `history_n` counts the entries of its history."""

    path: RecordPath
    class_version: int
    version: int
    history_n: int
    created_at: Instant
    updated_at: Instant
    deleted_at: Instant | None

    @property
    def is_there(self) -> bool:
        """Whether anybody has written it since it was deleted, or at all."""
        return self.deleted_at is None


@value(frozen=True, slots=True)
class LockedRecord(Record):
    """A record's row under this transaction's lock. Made only by the lock statements."""


@value(frozen=True, slots=True)
class LogEntry:
    """One entry of a record's history. `value` is JSON text."""

    record: RecordPath
    n: int
    author: Identity
    verb: str
    field: FieldName | None
    version: int | None
    record_version: int
    class_version: int
    value: str | None = None
    based_on: tuple[Premise, ...] = ()
    took_over_from: HolderId | None = None


# --- statements that travel with others --------------------------------------------------------------------------


def created_asked(records: Iterable[RecordPath]) -> Statement:
    """Make the rows of records that have none, not there yet: whoever asks writes them, or takes all of it back."""
    return q("records.create", records=paths(records))


def first_version_asked() -> Statement:
    """Ask after which version a field begins that nobody has written: 0, but for what a restore has lost (D46)."""
    return q("records.first_version")


def locked_asked(records: Iterable[RecordPath], *, skip_locked: bool = False) -> Statement:
    """Lock the rows of records, in one order; with `skip_locked` those that nobody else has locked. See `locked`."""
    how = "lock_free" if skip_locked else "lock"
    return q(f"records.{how}", records=paths(records))


def locked(rows: Sequence[Row]) -> dict[RecordPath, LockedRecord]:
    """Return the answer to `locked_asked`; a record that has no row is not in it."""
    found = (LockedRecord(parse_key(row), *row[2:]) for row in rows)
    return {record.path: record for record in found}


def asked(records: Iterable[RecordPath]) -> Statement:
    """Ask for the rows of records as committed, for views; see `found`."""
    return q("records.of", records=paths(records))


def found(rows: Sequence[Row]) -> dict[RecordPath, Record]:
    """Return the answer to `asked`; a record that has no row is not in it."""
    return {record.path: record for record in (Record(parse_key(row), *row[2:]) for row in rows)}


# --- lists -------------------------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class Scan:
    """Which part of a class's records is looked through: at most so many rows after an id, for at most so many ids."""

    record_class: ClassName
    after: str
    rows: int
    most: int


async def page(tx: Reader, scan: Scan, *, free: FieldName | None, now: Instant) -> tuple[list[RecordId], str | None]:
    """Return records by id, all or those of which the task `free` is; and where the scan ended, None at the end."""
    bounds = {"record_class": scan.record_class, "after": scan.after, "scan": scan.rows}
    ids, ((count, last),) = await tx.fetch(
        q("records.page", **bounds, most=scan.most, task=free, now=now), q("records.page_end", **bounds)
    )
    return [RecordId(row[0]) for row in ids], last if count == scan.rows else None


async def held_by(tx: Reader, holder: HolderId, *, after: str, beyond: str, now: Instant, most: int) -> list[Resource]:
    """Return the tasks `holder` has claimed and not lost, by resource, between the two."""
    (rows,) = await tx.fetch(q("records.held_by", holder=holder, after=after, beyond=beyond, now=now, most=most))
    return [Resource(row[0]) for row in rows]


# --- writing -----------------------------------------------------------------------------------------------------


def write(tx: Tx, changes: Sequence[tuple[LockedRecord, LockedRecord]]) -> None:
    """Write each (as locked, as it is now) pair. A row that moved in between would be a bug, and fails the whole."""
    rows = []
    for before, after in changes:
        assert after.path == before.path, (before, after)
        assert after.version > before.version, (before, after)
        assert after.history_n >= before.history_n, (before, after)
        rows.append({**key_of(after.path), "was_version": before.version, **_values(after)})
    if rows:
        tx.put(q("records.write", rows=as_json(rows), expected=len(rows)))


def log(tx: Tx, entries: Sequence[LogEntry], *, at: Instant) -> None:
    """Append to the histories of records, whose rows say so."""
    if entries:
        tx.put(q("records.log", rows=as_json([{**key_of(one.record), "at": at, **_logged(one)} for one in entries])))


def paths(records: Iterable[RecordPath]) -> str:
    """Return the keys of records, each once and in order, as a statement takes them."""
    return as_json([key_of(path) for path in sorted(set(records))])


def key_of(path: RecordPath) -> dict[str, str]:
    """Return the columns by which a record's rows are found."""
    return {"class": path.record_class, "id": path.id}


def parse_key(row: Row) -> RecordPath:
    """Return which record a row is of, by its first two columns."""
    return RecordPath(ClassName(row[0]), RecordId(row[1]))


def _values(record: Record) -> dict[str, object]:
    return {
        "class_version": record.class_version,
        "version": record.version,
        "history_n": record.history_n,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "deleted_at": record.deleted_at,
    }


def _logged(entry: LogEntry) -> dict[str, object]:
    return {
        "n": entry.n,
        "author": entry.author,
        "verb": entry.verb,
        "field": entry.field,
        "version": entry.version,
        "record_version": entry.record_version,
        "class_version": entry.class_version,
        "value": entry.value,
        "based_on": as_json([premise.as_sent() for premise in entry.based_on]) if entry.based_on else None,
        "took_over_from": identity_of(entry.took_over_from) if entry.took_over_from is not None else None,
    }
