"""What became of a record, and who wrote each of its fields last, as far as the reader may read them (D38)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core.classes import Fields
from batonpass.core.errors import NotFound
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant
from batonpass.core.records import FieldName, RecordPath
from batonpass.server.services.classes import Classes
from batonpass.server.services.records import (
    LAST_WORDS_SCANNED,
    SeenField,
    looked_at,
    require_reader,
    require_there,
)
from batonpass.store import record_history, records
from batonpass.store.base import Store
from batonpass.store.record_history import Entry, Last, Wanted

PAGE_MAX: Final = 200
VALUES_MAX: Final = 20
"""The longest page with values, which may be `VALUE_BYTES_MAX` each."""
SCANNED_MAX: Final = 1_000
"""How many entries one page looks through at most, when most of them are on fields that its reader may not read."""
NEWEST: Final = 2**62
"""Before which every entry is."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Entries, newest first; `next` is the `before` of the page that follows, None at the end."""

    entries: tuple[Entry, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """By field, what it is at and the entry of history that brought it there, where that is not too long ago."""

    record_version: int
    now: Instant
    fields: Mapping[FieldName, tuple[SeenField, Last | None]]


class RecordHistories:
    """The histories of the records of one store."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes

    async def page(
        self, principal: Principal, record: RecordPath, *, before: int | None, limit: int, with_values: bool
    ) -> HistoryPage:
        """Return what was done to a record, one that was deleted too, on fields that `principal` may read.

        A page may be short, or empty, and not be the last: what it left out counts. Raises as `Records.get`.
        """
        most = min(limit, VALUES_MAX if with_values else PAGE_MAX)
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, record.record_class)
            readable = require_reader(kind, principal)
            (rows,) = await tx.fetch(records.asked([record]))
            row = records.found(rows).get(record)
            if row is None or row.version == 0:
                raise NotFound(f"there is no record {record}", field="record")
            wanted = Wanted(NEWEST if before is None else before, SCANNED_MAX, most + 1, readable, with_values)
            entries, end = await record_history.page(tx, record, wanted)
        shown = tuple(_for_reader(entry, readable) for entry in entries[:most])
        return HistoryPage(shown, shown[-1].n if len(entries) > most else end)

    async def blame(self, principal: Principal, record: RecordPath) -> Blame:
        """Return who wrote each field last that `principal` may read; raises as `Records.get`."""
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, record.record_class)
            readable = require_reader(kind, principal)
            found = await looked_at(tx, kind, [record], readable)
            (rows,) = await tx.fetch(record_history.newest_asked(record, readable, scan=LAST_WORDS_SCANNED))
        seen = require_there(record, found)
        last = record_history.newest(rows)
        return Blame(seen.version, found.now, {name: (each, last.get(name)) for name, each in seen.fields.items()})


def _for_reader(entry: Entry, readable: Fields) -> Entry:
    """Return an entry without the premises on fields that its reader may not read."""
    return replace(entry, based_on=tuple(each for each in entry.based_on if each["field"] in readable))
