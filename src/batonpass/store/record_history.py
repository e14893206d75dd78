"""What was done to records, read: pages of entries, and the last of each field. `store.records` appends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from batonpass.core.ids import Instant
from batonpass.core.records import FieldName, Identity, RecordPath
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, as_json, q


@value(frozen=True, slots=True)
class Entry:
    """One thing that was done. `value` is JSON text, where it was asked for; `based_on` has premises as sent."""

    n: int
    at: Instant
    author: Identity
    verb: str
    field: FieldName | None
    version: int | None
    record_version: int
    value: str | None
    based_on: tuple[Mapping[str, Any], ...]
    took_over_from: Identity | None


@value(frozen=True, slots=True)
class Last:
    """The newest entry about a field."""

    n: int
    at: Instant
    author: Identity
    verb: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: of the `scan` before the `before`th those about `fields` or about none, at most `most`."""

    before: int
    scan: int
    most: int
    fields: frozenset[FieldName]
    with_values: bool


async def page(tx: Reader, record: RecordPath, wanted: Wanted) -> tuple[list[Entry], int | None]:
    """Return entries of a record, newest first, and the number at which the scan ended, None at the beginning."""
    bounds = {**_key(record), "before": wanted.before, "scan": wanted.scan}
    named = {"fields": as_json(sorted(wanted.fields)), "values": int(wanted.with_values)}
    rows, ((count, oldest),) = await tx.fetch(
        q("record_history.page", **bounds, **named, most=wanted.most), q("record_history.page_end", **bounds)
    )
    return [_entry(row) for row in rows], oldest if count == wanted.scan else None


def newest_asked(record: RecordPath, fields: Iterable[FieldName], *, scan: int) -> Statement:
    """Ask for the newest entry about each of `fields` among the record's last `scan`; see `newest`."""
    return q("record_history.newest", **_key(record), fields=as_json(sorted(fields)), scan=scan)


def newest(rows: Sequence[Row]) -> dict[FieldName, Last]:
    """Return the answer to `newest_asked`; a field whose last entry is further back is not in it."""
    return {FieldName(row[0]): Last(*row[1:]) for row in rows}


def _key(record: RecordPath) -> dict[str, str]:
    return {"record_class": record.record_class, "id": record.id}


def _entry(row: Row) -> Entry:
    premises = tuple(msgspec.json.decode(row[8])) if row[8] is not None else ()
    n, at, author, verb, field, version, record_version, text, _, took_over_from = row
    return Entry(n, at, author, verb, field, version, record_version, text, premises, took_over_from)
