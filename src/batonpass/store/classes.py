"""The rows of classes: every version that was ever applied, and the lock under which one is in force.

Whoever writes or claims asks `held_asked` and then, in a statement of its own,
`versions_asked`: until its transaction ends nobody applies another version of
those classes. Whoever applies one takes the same locks alone (`locked_asked`).
The locks stand between the lease rows and the rows of records (D44).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.classes import FieldUse
from batonpass.core.ids import RESOURCE_PREFIX, HolderId, Instant
from batonpass.core.records import ClassName, FieldName
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q


@value(frozen=True, slots=True)
class Version:
    """Which version of a class. `applied_at` tells it from one that had its number before a restore."""

    name: ClassName
    version: int
    applied_at: Instant


@value(frozen=True, slots=True)
class Applied:
    """One version of a class as it was applied; `document` is JSON text."""

    version: Version
    document: str
    applied_by: HolderId


def held_asked(names: Iterable[ClassName]) -> Statement:
    """Let nobody apply another version of these classes until the transaction ends; many may do so at once."""
    return q("classes.hold", names=as_json(sorted(set(names))))


def locked_asked(names: Iterable[ClassName]) -> Statement:
    """Let nobody else write under these classes, or apply them, until the transaction ends."""
    return q("classes.lock", names=as_json(sorted(set(names))))


def versions_asked(names: Iterable[ClassName]) -> Statement:
    """Ask for the newest version of each class; those that are not there are not in the answer. See `versions`."""
    return q("classes.versions", names=as_json(sorted(set(names))))


def versions(rows: Sequence[Row]) -> dict[ClassName, Version]:
    """Return the answer to `versions_asked`."""
    return {ClassName(name): Version(ClassName(name), version, Instant(at)) for name, version, at in rows}


async def documents(tx: Reader, wanted: Iterable[Version]) -> dict[Version, str]:
    """Return the documents, as JSON text, of these versions."""
    asked = as_json([{"name": each.name, "version": each.version} for each in wanted])
    (rows,) = await tx.fetch(q("classes.documents", wanted=asked))
    return {found.version: found.document for found in map(applied_row, rows)}


def applied_row(row: Row) -> Applied:
    """Return a row of `classes.documents` as what was applied."""
    name, version, document, by, at = row
    return Applied(Version(ClassName(name), version, Instant(at)), document, HolderId(by))


def insert(tx: Tx, applied: Applied) -> None:
    """Add a version; the class is locked."""
    tx.put(
        q(
            "classes.insert",
            name=applied.version.name,
            version=applied.version.version,
            document=applied.document,
            applied_by=applied.applied_by,
            applied_at=applied.version.applied_at,
        )
    )


async def uses(tx: Tx, name: ClassName) -> dict[FieldName, FieldUse]:
    """Return what records of the class `name`, which is locked, have of each field that any of them has."""
    low, high = f"{RESOURCE_PREFIX}{name}/", f"{RESOURCE_PREFIX}{name}0"  # 0 is what follows the slash
    (rows,) = await tx.fetch(q("classes.uses", name=name, low=low, high=high))
    return {FieldName(field): FieldUse(*counts) for field, *counts in rows}


async def page(tx: Reader, *, after: str, most: int) -> list[Applied]:
    """Return at most `most` classes as they are in force, by name, their documents left out."""
    (rows,) = await tx.fetch(q("classes.page", after=after, most=most))
    return [applied_row(row) for row in rows]


async def get(tx: Reader, name: ClassName, *, version: int | None) -> tuple[Applied, int] | None:
    """Return one version of a class, the newest without `version`, and which is the newest; None if not there."""
    (rows,) = await tx.fetch(q("classes.get", name=name, version=version))
    return (applied_row(rows[0][:-1]), rows[0][-1]) if rows else None
