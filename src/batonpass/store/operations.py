"""A database as its operator sees it: where its schema stands, what it holds, who uses it; and its upgrade."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from batonpass.core.clock import Clock, DatabaseClock
from batonpass.store import migrate
from batonpass.store.migrate import Migration, SchemaStatus
from batonpass.store.open import dialect_of, open_session, sqlite_path

LOCK_WAIT_MS: Final = "5000"
COMMAND_CHARS_MAX: Final = 80
"""How much of a process's command line a message shows."""


class Standing(StrEnum):
    """Where a database's schema stands against this program's."""

    CURRENT = "current"
    OLDER = "older"
    NEWER = "newer"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table, its rows, and the bytes it takes with its indexes where the database can say so cheaply."""

    name: str
    rows: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class User:
    """A process that has the database's file open, as far as the operating system shows it to us."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


@dataclass(frozen=True, slots=True)
class FileUse:
    """Who uses a SQLite file. `writing`: somebody holds the writer's lock at this moment (D42)."""

    writing: bool
    users: tuple[User, ...]
    log_bytes: int


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Everything `baton db status` tells. `location` never holds a password."""

    dialect: str
    location: str
    pooler: str | None
    standing: Standing
    schema: SchemaStatus
    newest_known: int
    bytes: int
    tables: tuple[TableSize, ...]
    settings: Mapping[str, str]
    file: FileUse | None


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What an upgrade did; `applied` is empty when another process was faster, or nothing was pending."""

    applied: tuple[Migration, ...]
    schema: int
    incarnation: str


def status(url: str) -> DatabaseStatus:
    """Return how the database at `url` stands, whatever its schema; nothing is changed, not even its log folded in.

    Raises `NotFound` when there is no such SQLite file, `Unavailable` when the database cannot be reached or read.
    """
    with open_session(url, read_only=True) as session:
        session.ask("operations.as_writers")
        with session.snapshot():
            # An upgrade under way locks tables; whoever only looks does not hang behind it.
            session.ask("session.limits", lock_ms=LOCK_WAIT_MS, statement_ms="0", idle_ms="0")
            schema = migrate.read_status(session)
            tables = [
                TableSize(name, rows=session.ask_written(count)[0][0], bytes=size)
                for name, size, count in session.ask("operations.tables")
            ]
            ((size,),) = session.ask("operations.size")
            settings = {row[0]: row[1] for row in session.ask("operations.settings")}
    location, pooled = _location(url)
    return DatabaseStatus(
        dialect=session.dialect,
        location=location,
        pooler="transaction" if pooled else None,
        standing=standing_of(schema),
        schema=schema,
        newest_known=migrate.known(session.dialect)[-1].version,
        bytes=size,
        tables=tuple(tables),
        settings=settings,
        file=file_use(sqlite_path(url)) if session.dialect == "sqlite" else None,
    )


def _location(url: str) -> tuple[str, bool]:
    """Return where the database is, fit to be shown, and whether its URL says that a pooler is in between."""
    if dialect_of(url) == "sqlite":
        return str(sqlite_path(url)), False
    from batonpass.store.postgres import split_pooler, without_password  # only the dialect in use is loaded

    return without_password(url), split_pooler(url)[1]


def standing_of(schema: SchemaStatus) -> Standing:
    """Return where a schema stands against this program's. One that is ahead is newer, whatever else it lacks."""
    if schema.ahead:
        return Standing.NEWER
    if not schema.applied:
        return Standing.NONE
    return Standing.OLDER if schema.pending else Standing.CURRENT


def upgrade(url: str, *, clock: Clock | None = None) -> Upgraded:
    """Bring the schema of the database at `url` up to date, all of it or nothing; a SQLite file is begun if need be.

    Raises `SchemaNewer` when a newer version of this program made it.
    """
    with open_session(url) as session:
        applied = migrate.apply_pending(session, clock or DatabaseClock())
        found = migrate.status(session)
    assert found.incarnation is not None, found
    return Upgraded(applied, max(found.applied), found.incarnation)


def file_use(path: Path) -> FileUse:
    """Return who uses the SQLite file at `path` at this moment."""
    log = path.with_name(path.name + "-wal")
    return FileUse(
        writing=_is_locked(path.with_name(path.name + ".writer")),
        users=processes_using(path),
        log_bytes=log.stat().st_size if log.exists() else 0,
    )


def processes_using(path: Path) -> tuple[User, ...]:
    """Return the other processes that have `path` open. Those of other users are hidden from us, unless we are root."""
    target = str(path.resolve())
    users = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and any(opened.path == target for opened in process.open_files()):
                users.append(User(process.pid, _one_line(process.cmdline()) or process.name()))
    return tuple(users)


def _one_line(argv: Sequence[str]) -> str:
    """Return a command as one line that fits into a message."""
    line = " ".join(" ".join(argv).split())
    return line if len(line) <= COMMAND_CHARS_MAX else line[: COMMAND_CHARS_MAX - 1] + "…"


def _is_locked(lock: Path) -> bool:
    """Whether another open file holds the `flock` on `lock`; ours, if we get it, is gone at once."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
