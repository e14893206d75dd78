"""The rows of classes: every version that was ever applied, and the lock under which one is in force.

Whoever writes or claims asks `held_asked` and then, in a statement of its own,
`versions_asked`: until its transaction ends nobody applies another version of
those classes. Whoever applies one takes the same locks alone (`locked_asked`).
The locks stand between the lease rows and the rows of records (D44).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.ids import HolderId, Instant
from batonpass.core.records import ClassName
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
