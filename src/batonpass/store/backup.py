"""A consistent copy of a database while servers go on with their work.

SQLite: the pages of one snapshot, through the database's own backup call. The
copy is a database file that opens anywhere, without a log beside it.
PostgreSQL: the rows of one REPEATABLE READ snapshot, as an archive
(`store.archive`).

Either is made beside its place, brought to disk, read again whole, and only
then given its name. What is killed on the way leaves nothing under that name.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batonpass import __version__
from batonpass.core import points
from batonpass.core.errors import Invalid, NotFound, Unavailable
from batonpass.store import migrate
from batonpass.store.archive import FORMAT, FORMAT_VERSION, ArchiveWriter, Manifest, open_archive
from batonpass.store.migrate import PostgresSession, SchemaStatus, Session, SqliteSession
from batonpass.store.open import open_session, sqlite_path
from batonpass.store.scratch import SIDECARS, require_absent, scratch

PAGES_AT_ONCE: Final = 1024
"""How many pages of a SQLite file are copied between two looks around: 4 MiB."""
LOCK_FILES: Final = (".turnstile", ".writer")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that is in its place, verified and on disk. `schema` is the newest migration in it."""

    file: Path
    bytes: int
    sha256: str
    database: str
    schema: int
    incarnation: str


def backup(url: str, file: Path, *, force: bool = False) -> BackupReport:
    """Write a copy of the database at `url` into `file`, which only its owner can read.

    Raises `Conflict` when the file is there already, unless `force`; `NotFound` when there is nothing to copy.
    """
    if not force:
        require_absent(file)
    with open_session(url, read_only=True) as session, scratch(file) as part:
        match session:
            case SqliteSession():
                _refuse_own_files(sqlite_path(url), file)
                found = _copy_pages(session, part.path)
                _verify_pages(part.path)
            case PostgresSession():
                found = _copy_rows(session, part.path)
                with open_archive(part.path) as archive:
                    archive.verify()
            case _:
                raise AssertionError(session)
        report = BackupReport(
            file=file,
            bytes=part.path.stat().st_size,
            sha256=sha256_of(part.path),
            database=session.dialect,
            schema=max(found.applied),
            incarnation=found.incarnation or "",
        )
        points.reach("backup.written")
        part.place(overwrite=force)
    return report


def sha256_of(file: Path) -> str:
    """Return the hex SHA-256 of a whole file, read in pieces."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def copy_pages(source: sqlite3.Connection, target: Path, *, point: str) -> None:
    """Copy a whole SQLite database into the file `target`, which needs no log beside it afterwards.

    With a read transaction open on `source` the copy is of that moment; writers do not wait, nor make it start again.
    """
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        source.backup(copy, pages=PAGES_AT_ONCE, progress=lambda *_: points.reach(point))
        copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise Unavailable(f"cannot copy the database to {target}: {error}") from error
    finally:
        copy.close()


def _copy_pages(session: SqliteSession, part: Path) -> SchemaStatus:
    with session.snapshot():
        found = _require_ours(session)
        copy_pages(session.connection, part, point="backup.copied")
    return found


def _verify_pages(part: Path) -> None:
    copy = sqlite3.connect(part, isolation_level=None)
    try:
        problems = SqliteSession(copy).ask("operations.quick_check")
    finally:
        copy.close()
    if problems:
        raise Unavailable(
            f"the copy is damaged ({problems[0][1]}), so the database or its disk is; run: baton db check",
            retry_after_s=60,
        )


def _copy_rows(session: PostgresSession, part: Path) -> SchemaStatus:
    copies = session.ask("operations.copies")
    with session.snapshot():
        # The locks first: LOCK takes no snapshot yet, so nothing can change a table between the two.
        for _, _, lock, _, _ in copies:
            session.ask_written(lock)
        if session.ask("operations.copies") != copies:
            raise Unavailable("the schema was changed at this moment; try again")
        found = _require_ours(session)
        with part.open("r+b", buffering=1 << 20) as file:
            archive = ArchiveWriter(file)
            for table, columns, _, copy_out, _ in copies:
                with archive.table(table, columns) as write, session.connection.cursor().copy(copy_out) as rows:
                    for block in rows:
                        write(block)
                points.reach("backup.copied")
            archive.finish(
                Manifest(
                    format=FORMAT,
                    format_version=FORMAT_VERSION,
                    batonpass=__version__,
                    incarnation=found.incarnation or "",
                    schema=found.applied,
                    sequences={row[0]: row[1] for row in session.ask("operations.sequences")},
                    tables=tuple(archive.members),
                )
            )
    return found


def _require_ours(session: Session) -> SchemaStatus:
    found = migrate.read_status(session)
    if not found.applied:
        raise NotFound("db: nothing to back up: no Batonpass database, or one that has never been used", field="db")
    return found


def _refuse_own_files(database: Path, file: Path) -> None:
    """Refuse to write a backup over the database itself, or over what stands beside it."""
    own = [database.with_name(database.name + suffix) for suffix in ("", *SIDECARS, *LOCK_FILES)]
    if file.resolve() in {path.resolve() for path in own}:
        raise Invalid(f"{file} belongs to the database itself; give the backup another name", field="file")
