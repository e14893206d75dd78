"""Classes of records: applied by admins, read by everybody, and in force for who decides by them (D35, D38).

Whoever applies a version has its class alone: whoever writes under it has
committed, and counts, or comes later, and reads the new version under its own
locks. So no write stands in a field that a version took away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from batonpass.core import points
from batonpass.core.classes import RecordClass
from batonpass.core.errors import NotFound
from batonpass.core.identity import Principal
from batonpass.core.records import ClassName
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.server.services.principals import require_admin, require_current
from batonpass.store import classes as rows_of
from batonpass.store import events
from batonpass.store.base import SYSTEM, Fences, Reader, Row, Store, Tx, retried
from batonpass.store.classes import Applied, Version
from batonpass.wire import classes as wire
from batonpass.wire.classes import kept_class

CACHED_MAX: Final = 1_000
"""How many parsed versions are kept."""
PAGE_MAX: Final = 500


class Classes:
    """The classes of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[Version, RecordClass] = OrderedDict()

    # --- applying ----------------------------------------------------------------------------------------------------

    @retried
    async def apply(self, caller: Caller, wanted: RecordClass) -> wire.ClassReply | Replayed:
        """Make `wanted` the version in force, unless what is in force says the same; an admin's.

        `Conflict` where it would take away what records have, with every finding.
        """
        require_admin(caller.principal)
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            require_admin(await require_current(made.tx, made.now))
            return made.answer(await self._apply(made.tx, wanted, by=caller.principal))

    @retried
    async def apply_here(self, wanted: Sequence[RecordClass]) -> None:
        """Do the same with all of `wanted` or none, by the server's own hand: for classes that it is started with."""
        if not wanted:
            return
        async with self._store.write(SYSTEM, Fences()) as tx:
            await tx.fetch(rows_of.locked_asked([each.name for each in wanted]))
            for each in wanted:
                await self._apply(tx, each, by=SYSTEM)

    async def _apply(self, tx: Tx, wanted: RecordClass, *, by: Principal) -> wire.ClassReply:
        from batonpass.core.class_changes import moves_fields, require_kept  # not for every start of a server (D37)

        await tx.fetch(rows_of.locked_asked([wanted.name]))
        await points.areach("class.locked")
        (rows,) = await tx.fetch(rows_of.versions_asked([wanted.name]))
        present, version = (await self.of_versions(tx, rows)).get(wanted.name, (None, 0))
        if present == wanted:
            return wire.ClassReply(record_class=wanted.name, version=version, changed=False)
        if present is not None and moves_fields(present, wanted):
            require_kept(present, wanted, await rows_of.uses(tx, wanted.name))
        now = await tx.now()
        applied = Version(wanted.name, version + 1, now)
        rows_of.insert(tx, Applied(applied, wire.kept_text(wanted), by.id))
        data = {"class": wanted.name, "version": applied.version}
        events.append(tx, [events.Event("class.applied", None, None, by, data=data)], at=now)
        reply = wire.NewClassReply if present is None else wire.ClassReply
        return reply(record_class=wanted.name, version=applied.version, changed=True)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def page(self, *, after: str, limit: int) -> wire.ClassesReply:
        """Return classes by name; everybody's to read."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            found = await rows_of.page(tx, after=after, most=most + 1)
        lines = [_line(each) for each in found[:most]]
        return wire.ClassesReply(lines, lines[-1].record_class if len(found) > most else None)

    async def get(self, name: ClassName, *, version: int | None) -> wire.ClassDocumentReply:
        """Return one version of a class, the one in force without `version`; everybody's to read."""
        async with self._store.read() as tx:
            found = await rows_of.get(tx, name, version=version)
            if found is None and version is not None and await rows_of.get(tx, name, version=None) is not None:
                raise NotFound(f"version: {name} has no version {version}", field="version")
        if found is None:
            raise _not_there(name)
        applied, latest = found
        line = _line(applied)
        document = msgspec.Raw(applied.document.encode())
        return wire.ClassDocumentReply(**msgspec.structs.asdict(line), latest=latest, document=document)

    # --- in the transactions of others -------------------------------------------------------------------------------

    async def seen(self, tx: Reader, name: ClassName) -> tuple[RecordClass, int]:
        """Return the class `name` and its version as the snapshot `tx` has it, for reads; `NotFound` if none."""
        (rows,) = await tx.fetch(rows_of.versions_asked([name]))
        return require_class(name, await self.of_versions(tx, rows))

    async def in_force(self, names: Collection[ClassName]) -> dict[ClassName, RecordClass]:
        """Return these classes as they are now; one that is not there is not among them."""
        async with self._store.read() as tx:
            (rows,) = await tx.fetch(rows_of.versions_asked(names))
            return {name: found for name, (found, _) in (await self.of_versions(tx, rows)).items()}

    async def of_versions(self, tx: Reader, rows: Sequence[Row]) -> dict[ClassName, tuple[RecordClass, int]]:
        """Return the classes in the answer to `versions_asked`, which a writer asks after `held_asked`."""
        versions = rows_of.versions(rows)
        known = {each: self._parsed[each] for each in versions.values() if each in self._parsed}
        missing = [each for each in versions.values() if each not in known]
        if missing:
            read = await rows_of.documents(tx, missing)
            known |= {each: kept_class(each.name, document) for each, document in read.items()}
        for each, parsed in known.items():
            self._keep(each, parsed)
        return {name: (known[version], version.version) for name, version in versions.items()}

    def _keep(self, version: Version, parsed: RecordClass) -> None:
        self._parsed[version] = parsed
        self._parsed.move_to_end(version)
        while len(self._parsed) > CACHED_MAX:
            self._parsed.popitem(last=False)


def require_class(name: ClassName, found: Mapping[ClassName, tuple[RecordClass, int]]) -> tuple[RecordClass, int]:
    """Return the class `name` of those that were found; `NotFound` if it is not among them."""
    if name not in found:
        raise _not_there(name)
    return found[name]


def _line(applied: Applied) -> wire.ClassLineBody:
    version = applied.version
    return wire.line_body(version.name, version.version, by=applied.applied_by, at=version.applied_at)


def _not_there(name: ClassName) -> NotFound:
    return NotFound(f"{name}: no such class; `baton class list` shows those there are", field="class")
