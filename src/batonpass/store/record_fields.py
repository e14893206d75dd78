"""The rows of registers and appends, and the items of appends.

They are their record's: whoever writes them has locked its row (D44). What a
task is at stands in `store.leases` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.ids import Instant
from batonpass.core.record_writes import FieldState
from batonpass.core.records import FieldName, Identity, RecordPath
from batonpass.core.values import value
from batonpass.store.base import Row, Statement, Tx, as_json, q
from batonpass.store.records import key_of, parse_key, paths


@value(frozen=True, slots=True)
class StoredField:
    """A field's row. `value` is the JSON text of a register, `items` how many an append has; `size` is in bytes.

    Who wrote a field of a deleted record, and what, is gone; its version stays (D32).
    """

    record: RecordPath
    name: FieldName
    version: int
    value: str | None
    items: int
    size: int
    author: Identity | None
    updated_at: Instant | None


@value(frozen=True, slots=True)
class Item:
    """One item of an append: its place, from 0, and its JSON text."""

    record: RecordPath
    field: FieldName
    n: int
    value: str
    author: Identity


# --- statements that travel with others --------------------------------------------------------------------------


def asked(records: Iterable[RecordPath]) -> Statement:
    """Ask for the fields of records; see `found`."""
    return q("record_fields.of", records=paths(records))


def found(rows: Sequence[Row]) -> list[StoredField]:
    """Return the answer to `asked`, by record and name."""
    return [StoredField(parse_key(row), *row[2:]) for row in rows]


def states_asked(records: Iterable[RecordPath]) -> Statement:
    """Ask what the fields of locked records are at, and how many bytes they hold; see `states`."""
    return q("record_fields.states", records=paths(records))


def states(rows: Sequence[Row]) -> dict[RecordPath, dict[FieldName, FieldState]]:
    """Return the answer to `states_asked` by record; a field nobody has written is not in it."""
    found: dict[RecordPath, dict[FieldName, FieldState]] = {}
    for row in rows:
        _, _, name, version, items, size = row
        found.setdefault(parse_key(row), {})[FieldName(name)] = FieldState(version, items=items, size=size)
    return found


def items_asked(records: Iterable[RecordPath], fields: Iterable[FieldName]) -> Statement:
    """Ask for all items of these appends of records, in their order; see `items_found`."""
    return q("record_fields.items", records=paths(records), fields=as_json(sorted(fields)))


def items_found(rows: Sequence[Row]) -> list[tuple[RecordPath, FieldName, str]]:
    """Return the answer to `items_asked`: each item's record, field and JSON text."""
    return [(parse_key(row), FieldName(row[2]), row[3]) for row in rows]


def sizes_asked(records: Iterable[RecordPath], fields: Iterable[FieldName]) -> Statement:
    """Ask how many bytes the values of these fields have, record by record; see `sizes_found`."""
    return q("record_fields.sizes", records=paths(records), fields=as_json(sorted(fields)))


def sizes_found(rows: Sequence[Row]) -> dict[RecordPath, int]:
    """Return the answer to `sizes_asked`; a record without values is not in it."""
    return {parse_key(row): row[2] for row in rows}


# --- writing -----------------------------------------------------------------------------------------------------


def write(tx: Tx, fields: Iterable[StoredField]) -> None:
    """Write the rows of fields as they are now, new ones too."""
    rows = [
        {
            **key_of(one.record),
            "field": one.name,
            "version": one.version,
            "value": one.value,
            "items": one.items,
            "size": one.size,
            "author": one.author,
            "updated_at": one.updated_at,
        }
        for one in fields
    ]
    if rows:
        tx.put(q("record_fields.write", rows=as_json(rows)))


def add_items(tx: Tx, items: Sequence[Item], *, at: Instant) -> None:
    """Append items at their places."""
    rows = [
        {**key_of(one.record), "field": one.field, "n": one.n, "value": one.value, "author": one.author, "at": at}
        for one in items
    ]
    if rows:
        tx.put(q("record_fields.add_items", rows=as_json(rows)))


def empty(tx: Tx, record: RecordPath) -> None:
    """Take every value and item of a record away; the versions of its fields rise by one, and stay."""
    tx.put(q("record_fields.empty", record_class=record.record_class, id=record.id))
    tx.put(q("record_fields.remove_items", record_class=record.record_class, id=record.id))
