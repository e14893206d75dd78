"""Classes: the one in force, read in the transaction that decides by it (D35, D38)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from batonpass.core.class_documents import stored_class
from batonpass.core.classes import RecordClass
from batonpass.core.errors import NotFound
from batonpass.core.records import ClassName
from batonpass.store import classes as rows_of
from batonpass.store.base import Reader, Row, Store, Tx
from batonpass.store.classes import Version

CACHED_MAX: Final = 1_000
"""How many parsed versions are kept."""


class Classes:
    """The classes of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[Version, RecordClass] = OrderedDict()

    async def current(self, tx: Tx, name: ClassName) -> tuple[RecordClass, int]:
        """Return the class `name` and its version, in force until the transaction `tx` ends; `NotFound` if none.

        Asked after the lease rows are locked and before the rows of records (D44).
        """
        _, rows = await tx.fetch(rows_of.held_asked([name]), rows_of.versions_asked([name]))
        return _one(name, await self.of_versions(tx, rows))

    async def seen(self, tx: Reader, name: ClassName) -> tuple[RecordClass, int]:
        """Return the class `name` and its version as the snapshot `tx` has it, for reads; `NotFound` if none."""
        (rows,) = await tx.fetch(rows_of.versions_asked([name]))
        return _one(name, await self.of_versions(tx, rows))

    async def of_versions(self, tx: Reader, rows: Sequence[Row]) -> dict[ClassName, tuple[RecordClass, int]]:
        """Return the classes in the answer to `versions_asked`, which a writer asks after `held_asked`."""
        versions = rows_of.versions(rows)
        known = {each: self._parsed[each] for each in versions.values() if each in self._parsed}
        missing = [each for each in versions.values() if each not in known]
        if missing:
            read = await rows_of.documents(tx, missing)
            known |= {each: stored_class(each.name, document) for each, document in read.items()}
        for each, parsed in known.items():
            self._keep(each, parsed)
        return {name: (known[version], version.version) for name, version in versions.items()}

    def _keep(self, version: Version, parsed: RecordClass) -> None:
        self._parsed[version] = parsed
        self._parsed.move_to_end(version)
        while len(self._parsed) > CACHED_MAX:
            self._parsed.popitem(last=False)


def _one(name: ClassName, found: Mapping[ClassName, tuple[RecordClass, int]]) -> tuple[RecordClass, int]:
    if name not in found:
        raise NotFound(f"{name}: no such class; `baton class list` shows those there are", field="class")
    return found[name]
