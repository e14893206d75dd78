"""A database URL becomes a `Store`, its schema brought up to date under a lock.

sqlite:///relative.db     sqlite:////absolute/path.db
postgresql://user@host/name[?pooler=transaction]
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import psutil

from batonpass.core.clock import Clock, DatabaseClock
from batonpass.core.errors import BatonError, Invalid, NotFound, Unavailable
from batonpass.store import migrate
from batonpass.store.base import Store

NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.glusterfs"})
"""SQLite's locks and write-ahead log can't be trusted there (D42)."""
UPGRADE_WAIT_MS: Final = 30_000


async def open_store(
    url: str, *, clock: Clock | None = None, upgrade: bool = True, listen_url: str | None = None
) -> Store:
    """Return the store at `url`, its schema up to date; without `upgrade` an old schema is `SchemaOlder`.

    `listen_url` leads to the same PostgreSQL past a pooler, where LISTEN is to be had (D15a).
    """
    clock = clock or DatabaseClock()
    with open_session(url) as session:
        incarnation = migrate.upgrade(session, clock) if upgrade else migrate.require_current(session)
    if session.dialect == "sqlite":
        from batonpass.store.sqlite import SqliteStore  # only the dialect in use is loaded

        return SqliteStore(sqlite_path(url), clock=clock, incarnation=incarnation)
    from batonpass.store.postgres import PostgresStore, bell_for, open_pools  # see above

    bell = bell_for(url, listen_url)
    return PostgresStore(*await open_pools(url), bell=bell, clock=clock, incarnation=incarnation)


@contextmanager
def open_session(url: str, *, read_only: bool = False) -> Iterator[migrate.Session]:
    """Open a plain connection to the database at `url`, for upgrades, checks and backups.

    With `read_only` the database stays as it is, whatever happens; a SQLite
    file that is not there is `NotFound` then, and else begun.
    """
    if dialect_of(url) == "sqlite":
        with sqlite_session(sqlite_path(url), read_only=read_only) as session:
            yield session
    else:
        with postgres_session(url) as session:
            yield session


def dialect_of(url: str) -> Literal["sqlite", "postgres"]:
    """Return which kind of database `url` names, or raise `Invalid`."""
    match urlsplit(url).scheme:
        case "sqlite":
            return "sqlite"
        case "postgresql" | "postgres":
            return "postgres"
        case scheme:
            raise Invalid(
                f"db: {scheme or url!r} is no database we know; use sqlite:///path or postgresql://user@host/name",
                field="db",
            )


def sqlite_path(url: str) -> Path:
    """Return the file a ``sqlite:///path`` URL names."""
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) <= 1 or parts.query or parts.fragment:
        raise Invalid(f"db: {url!r} is not sqlite:///path (four slashes for an absolute path)", field="db")
    return Path(unquote(parts.path[1:]))


def require_there(url: str) -> None:
    """Raise `NotFound` where `url` names a SQLite file that is not there: what is opened next would begin it."""
    if dialect_of(url) == "sqlite":
        _require_file(sqlite_path(url))


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise NotFound(f"db: there is no database at {path}; `baton init` or `baton db upgrade` makes one", field="db")


@contextmanager
def sqlite_session(path: Path, *, read_only: bool = False) -> Iterator[migrate.SqliteSession]:
    """Open a plain connection to a SQLite file; see `open_session`."""
    from batonpass.store.sqlite import connect, inspect  # only the dialect in use is loaded

    if read_only:
        _require_file(path)
    if not path.parent.is_dir():
        raise Invalid(f"db: the folder {path.parent} does not exist; create it first", field="db")
    refuse_network(path)
    try:
        connection = inspect(path) if read_only else connect(path)
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"cannot open the database file {path}: {error}") from error
    try:
        connection.execute(f"PRAGMA busy_timeout = {UPGRADE_WAIT_MS}")
        yield migrate.SqliteSession(connection)
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"cannot use the database file {path}: {error}") from error
    finally:
        connection.close()


@contextmanager
def postgres_session(url: str) -> Iterator[migrate.PostgresSession]:
    """Open a plain connection to a PostgreSQL database; see `open_session`."""
    import psycopg  # only the dialect in use is loaded

    from batonpass.store.postgres import split_pooler, without_password  # see above

    try:
        with psycopg.connect(split_pooler(url)[0], autocommit=True, prepare_threshold=None) as connection:
            yield migrate.PostgresSession(connection)
    except BatonError:
        raise
    except psycopg.Error as error:
        raise Unavailable(f"cannot use the database at {without_password(url)}: {error}") from error


def refuse_network(path: Path) -> None:
    """Refuse a file on a network file system, where two hosts' locks don't see each other (D42)."""
    folder = path.parent.resolve()
    mounts = [
        (len(partition.mountpoint), partition.fstype)
        for partition in psutil.disk_partitions(all=True)
        if folder.is_relative_to(partition.mountpoint)
    ]
    kind = max(mounts, default=(0, ""))[1]
    if kind in NETWORK_FILE_SYSTEMS:
        raise Invalid(
            f"db: {folder} is on a network file system ({kind}); SQLite is not safe there."
            " Use a local folder, or PostgreSQL for a team",
            field="db",
        )
