"""A backup becomes the database again, in a new incarnation (D46).

What was restored is an older state, and others still remember the newer one: a
worker its lease, a child its token, a reader its position in the feed. So in
the same transaction that brings the rows every tenure ends, and epochs and
versions jump past any that the lost history can have given out: whatever is
still said under an old fence is refused, and no epoch is ever given twice.

All of it or nothing: PostgreSQL restores in one transaction. A SQLite file is
prepared beside its place and then copied into it in one transaction, on a
connection that locks everybody else out; a file that another process has open
is never swapped under it.
"""

from __future__ import annotations

import sqlite3
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from batonpass.core import points
from batonpass.core.clock import Clock, DatabaseClock
from batonpass.core.errors import Conflict, Invalid, NotFound, Unavailable
from batonpass.store import migrate
from batonpass.store.archive import Archive, open_archive
from batonpass.store.backup import copy_pages, sha256_of
from batonpass.store.migrate import Migration, PostgresSession, Session, SqliteSession
from batonpass.store.open import dialect_of, postgres_session, refuse_network, sqlite_path
from batonpass.store.operations import processes_using
from batonpass.store.scratch import scratch, sync_folder
from batonpass.store.sqlite import connect_alone, inspect

Kind = Literal["sqlite", "postgres"]

EPOCH_JUMP: Final = 1 << 32
"""More acquisitions than any resource can have had in the history that was lost (D46)."""
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_TAR_MAGIC: Final = slice(257, 262)
_NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """A database that was restored. `incarnation` is its new one, `before` that of the backup."""

    database: str
    schema: int
    upgraded: tuple[str, ...]
    incarnation: str
    before: str


def restore(
    file: Path, url: str, *, replace: bool = False, sha256: str | None = None, clock: Clock | None = None
) -> RestoreReport:
    """Make the empty database at `url` what `file` is a backup of, up to date and in a new incarnation.

    With `replace`, a SQLite file that nobody has open is replaced. Raises
    `Invalid` for a file that is no whole backup, is of the other kind of
    database or does not have the `sha256` given; `SchemaNewer` for one that a
    newer version made; `Conflict` for a database that is not empty or in use.
    """
    clock = clock or DatabaseClock()
    kind, target = kind_of(file), dialect_of(url)
    if kind != target:
        raise Invalid(
            f"{file} is a backup of a {_NAMES[kind]} database and goes back into one of those only;"
            f" --db names a {_NAMES[target]} one",
            field="file",
        )
    if sha256 is not None and sha256_of(file) != sha256.lower():
        raise Invalid(
            f"{file} does not have the SHA-256 {sha256.lower()}; it is not the file that was written", field="sha256"
        )
    if kind == "sqlite":
        return _restore_pages(file, sqlite_path(url), replace=replace, clock=clock)
    if replace:
        raise Invalid(
            "only a SQLite file can be replaced; make an empty database and restore into that", field="replace"
        )
    with open_archive(file) as archive:
        archive.verify()
        return _restore_rows(archive, url, clock=clock)


def kind_of(file: Path) -> Kind:
    """Return which kind of database `file` is a backup of, by its first bytes; `Invalid` when of none."""
    if not file.is_file():
        raise NotFound(f"there is no file {file}", field="file")
    with file.open("rb") as content:
        head = content.read(tarfile.BLOCKSIZE)
    if head.startswith(_SQLITE_MAGIC):
        return "sqlite"
    if head[_TAR_MAGIC] == b"ustar":
        return "postgres"
    raise Invalid(f"{file} is no backup of ours: neither a SQLite file nor an archive", field="file")


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def _restore_rows(archive: Archive, url: str, *, clock: Clock) -> RestoreReport:
    manifest = archive.manifest
    migrate.require_known(manifest.schema, "postgres")
    with postgres_session(url) as session, session.transaction():
        session.ask("schema.lock", key=migrate.ADVISORY_LOCK)
        if not session.ask("operations.is_empty")[0][0]:
            raise Conflict(f"{_NAMES['postgres']}: the database is not empty; make a new one and restore into that")
        session.ask("schema.make_ledger")
        steps = migrate.known("postgres")
        migrate.apply(session, [step for step in steps if step.version in manifest.schema])
        _copy_rows_in(session, archive)
        points.reach("restore.copied")
        later = [step for step in steps if step.version not in manifest.schema]
        return _begin_anew(session, later, before=manifest.incarnation, clock=clock)


def _copy_rows_in(session: PostgresSession, archive: Archive) -> None:
    members = {member.table: member for member in archive.manifest.tables}
    for table, columns, _, _, copy_in in session.ask("operations.copies"):
        member = members.get(table)
        if member is None or sorted(member.columns) != sorted(columns):
            raise Invalid(
                f"the backup has other columns for {table} than its schema; nothing was restored", field="file"
            )
        with session.connection.cursor() as cursor:
            with cursor.copy(copy_in) as rows:
                for chunk in archive.chunks(member):
                    rows.write(chunk)
            assert cursor.rowcount == member.rows, (table, cursor.rowcount, member.rows)
    for name, value in archive.manifest.sequences.items():
        session.ask("operations.set_sequence", name=name, value=value)


# --- SQLite ----------------------------------------------------------------------------------------------------------


def _restore_pages(file: Path, target: Path, *, replace: bool, clock: Clock) -> RestoreReport:
    if file.resolve() == target.resolve():
        raise Invalid(f"{file} is the database itself", field="file")
    refuse_network(target)
    _require_restorable(target, replace=replace)
    with scratch(target) as part:
        with _as_errors_of(file), closing(inspect(file)) as source:
            copy_pages(source, part.path, point="restore.copied")
        with _as_errors_of(file), closing(sqlite3.connect(part.path, isolation_level=None)) as work:
            work.execute("PRAGMA foreign_keys = ON")
            report = _prepare(SqliteSession(work), file, clock=clock)
        _install(part.path, target, replace=replace)
    return report


def _prepare(session: SqliteSession, file: Path, *, clock: Clock) -> RestoreReport:
    """Bring the copy up to date and begin its new incarnation, in one transaction."""
    problems = (
        session.ask("operations.quick_check")
        or session.ask("check.structure", most=1)
        or session.ask("check.foreign_keys", most=1)
    )
    if problems:
        raise Invalid(f"{file} is damaged: {problems[0][1]}; take an older backup", field="file")
    found = migrate.status(session)
    if not found.applied or found.incarnation is None:
        raise Invalid(f"{file} is a SQLite file, but no backup of a Batonpass database", field="file")
    with session.transaction():
        return _begin_anew(session, found.pending, before=found.incarnation, clock=clock)


def _install(prepared: Path, target: Path, *, replace: bool) -> None:
    """Copy the prepared file into its place in one transaction, while nobody else can open it."""
    with closing(_connect_alone(target)) as place, _as_errors_of(target):
        # Again, now that nobody can come between.
        if not replace and not SqliteSession(place).ask("operations.is_empty")[0][0]:
            raise _not_empty(target)
        with closing(sqlite3.connect(prepared, isolation_level=None)) as source:
            source.backup(place)
    sync_folder(target.parent)


def _require_restorable(target: Path, *, replace: bool) -> None:
    """Refuse before the work what would be refused after it."""
    if not target.exists():
        return
    with closing(_connect_alone(target)) as place, _as_errors_of(target):
        if not replace and not SqliteSession(place).ask("operations.is_empty")[0][0]:
            raise _not_empty(target)


def _connect_alone(target: Path) -> sqlite3.Connection:
    try:
        with _as_errors_of(target):
            return connect_alone(target)
    except Conflict:
        users = ", ".join(str(user) for user in processes_using(target))
        raise Conflict(f"{target} is in use{f' by {users}' if users else ''}; stop that first") from None


def _not_empty(target: Path) -> Conflict:
    return Conflict(f"{target} is not empty; give another path, or say --replace to lose what is in it")


@contextmanager
def _as_errors_of(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            raise Invalid(
                f"{file} is damaged or no SQLite database ({error}); move it away if it is in the way"
            ) from error
        raise Unavailable(f"cannot use {file}: {error}") from error


# --- both ------------------------------------------------------------------------------------------------------------


def _begin_anew(session: Session, later: Iterable[Migration], *, before: str, clock: Clock) -> RestoreReport:
    """Bring the restored rows up to date, end every tenure and begin a new incarnation, in the caller's transaction."""
    later = tuple(later)
    migrate.apply(session, later)
    session.ask("operations.end_tenures", jump=EPOCH_JUMP)
    session.ask("operations.jump_records", jump=EPOCH_JUMP)
    session.ask("operations.jump_fields", jump=EPOCH_JUMP)
    session.ask("operations.forget_working_sets")
    session.ask("operations.forget_replies")
    migrate.begin_incarnation(session, clock, why="restored")
    found = migrate.status(session)
    assert found.incarnation is not None, found
    assert found.incarnation != before, found
    return RestoreReport(
        database=session.dialect,
        schema=max(found.applied),
        upgraded=tuple(step.name for step in later),
        incarnation=found.incarnation,
        before=before,
    )
