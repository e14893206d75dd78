"""Pages of a class's records, by id: all, those of which a task is free, or those of which somebody holds one (D38)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core import record_writes as law
from batonpass.core.classes import Fields, RecordClass
from batonpass.core.errors import NotTaskField
from batonpass.core.identity import Principal
from batonpass.core.ids import RESOURCE_PREFIX, HolderId, Instant
from batonpass.core.records import (
    ClassName,
    FieldKind,
    FieldName,
    RecordId,
    RecordPath,
    task_of,
)
from batonpass.server.services.classes import Classes
from batonpass.server.services.records import Look, looked_at, require_reader
from batonpass.store import record_fields, records
from batonpass.store.base import Reader, Store
from batonpass.store.records import Scan

PAGE_MAX: Final = 200
SCANNED_MAX: Final = 1_000
"""How many rows one page looks through at most: behind those that are deleted, or not free, others may come."""
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""How much the values on one page may have together; one record is always on it."""
_LAST_FIELD: Final = "~"
"""Behind every field's name."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of a class's records: those of which the task `free` is, or of which `holder` has one; all without."""

    free: FieldName | None = None
    holder: HolderId | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records by id; `next` is the `after` of the page that follows, None at the end."""

    look: Look
    next: str | None


class RecordPages:
    """The records of one store, class by class."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes

    async def page(
        self, principal: Principal, name: ClassName, wanted: Filter, *, after: str, limit: int
    ) -> RecordPage:
        """Return records after the id `after`, with the fields that `principal` may read.

        A page may be short, or empty, and not be the last. Raises `NotFound`
        for no such class or field, `ScopeDenied`, or `NotTaskField` if `free`
        is no task.
        """
        async with self._store.read() as tx:
            kind, _ = await self._classes.seen(tx, name)
            readable = require_reader(kind, principal)
            if wanted.free is not None:
                _require_task(kind, principal, wanted.free)
            now = await tx.now()
            most = min(limit, PAGE_MAX)
            if wanted.holder is not None:
                ids, end = await _held(tx, kind, readable, wanted.holder, after=after, now=now)
            else:
                scan = Scan(name, after, SCANNED_MAX, most + 1)
                ids, end = await records.page(tx, scan, free=wanted.free, now=now)
            paths = [RecordPath(name, each) for each in ids[:most]]
            fitting = await _fitting(tx, paths, readable)
            look = await looked_at(tx, kind, fitting, readable)
        cut = len(fitting) < len(ids)
        return RecordPage(look, fitting[-1].id if cut else end)


def _require_task(kind: RecordClass, principal: Principal, name: FieldName) -> None:
    spec = law.require_readable(kind, principal, name)
    if spec.kind is not FieldKind.TASK:
        raise NotTaskField(f"{name}: only a task is free or held; this is a field of kind {spec.kind}", field=name)


async def _held(
    tx: Reader, kind: RecordClass, readable: Fields, holder: HolderId, *, after: str, now: Instant
) -> tuple[list[RecordId], str | None]:
    """Return the records of which `holder` has a task that may be read, and where the scan ended."""
    prefix = f"{RESOURCE_PREFIX}{kind.name}"
    held = await records.held_by(
        tx,
        holder,
        after=f"{prefix}/{after}#{_LAST_FIELD}" if after else f"{prefix}/",
        beyond=f"{prefix}0",  # "0" is the character after "/"
        now=now,
        most=SCANNED_MAX,
    )
    tasks = [task_of(resource) for resource in held]
    ids = list(dict.fromkeys(path.id for path, name in tasks if name in readable))
    return ids, tasks[-1][0].id if len(tasks) == SCANNED_MAX else None


async def _fitting(tx: Reader, paths: Sequence[RecordPath], readable: Fields) -> list[RecordPath]:
    """Return as many of `paths` as fit on one page by what their values take, the first in any case."""
    if not paths:
        return []
    (rows,) = await tx.fetch(record_fields.sizes_asked(paths, readable))
    sizes = record_fields.sizes_found(rows)
    fitting, size = [paths[0]], sizes.get(paths[0], 0)
    for path in paths[1:]:
        size += sizes.get(path, 0)
        if size > PAGE_BYTES_MAX:
            break
        fitting.append(path)
    return fitting
