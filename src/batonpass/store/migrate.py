"""Forward migrations: plain SQL files, applied in order in one transaction, under a lock.

Files are ``migrations/<dialect>/NNNN_{pre,post}_name.sql``: a `pre` one is
safe under the old code, a `post` one under the new. Two processes that start
together meet at the lock: a transaction-level advisory lock on PostgreSQL,
the writer's turn on SQLite; both die with their process. A database that has
a migration this code does not know was made by a newer version, and is
refused.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from batonpass.core import points
from batonpass.core.clock import Clock
from batonpass.core.errors import Conflict
from batonpass.store import queries
from batonpass.store.base import Row

if TYPE_CHECKING:
    import psycopg

MIGRATIONS: Final = Path(__file__).parent / "migrations"
ADVISORY_LOCK: Final = 0x6261746F6E  # "baton" in ASCII: one upgrade at a time per database
_FILE: Final = re.compile(r"(?P<version>\d{4})_(?P<phase>pre|post)_(?P<name>[a-z0-9_]+)")


class SchemaNewer(Conflict):
    """The database was made by a newer version of this program."""

    code = "schema_newer"


class SchemaOlder(Conflict):
    """The database has not been upgraded yet, and upgrading was not allowed."""

    code = "schema_older"


@dataclass(frozen=True, slots=True, order=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    path: Path

    @property
    def sql(self) -> str:
        """Return the statements of this step."""
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database's schema stands against this program's. `ahead`: versions this program does not know."""

    applied: tuple[int, ...]
    pending: tuple[Migration, ...]
    incarnation: str | None
    ahead: tuple[int, ...] = ()


class Session(Protocol):
    """A plain connection during an upgrade, a check or a backup; sync, since nothing else runs in it."""

    dialect: str

    def ask(self, name: str, /, **params: object) -> list[Row]:
        """Run a named statement and return its rows."""
        ...

    def ask_written(self, statement: str) -> list[Row]:
        """Run a statement that the database wrote itself, names quoted, as the answer to a named one."""
        ...

    def run_script(self, script: str) -> None:
        """Run the statements of a migration."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Begin; commit at the end of the block, or roll back."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Read one committed state of the whole database for the length of the block; nothing can be written."""
        ...


def known(dialect: str) -> list[Migration]:
    """Return every migration of `dialect` in order."""
    migrations = []
    for path in sorted((MIGRATIONS / dialect).glob("*.sql")):
        match = _FILE.fullmatch(path.stem)
        assert match is not None, f"{path.name} is not NNNN_pre_name.sql or NNNN_post_name.sql"
        migrations.append(Migration(int(match["version"]), path.stem, path))
    versions = [migration.version for migration in migrations]
    assert versions == list(range(1, len(versions) + 1)), f"{dialect}: versions {versions} are not 1, 2, 3, …"
    return migrations


def read_status(session: Session) -> SchemaStatus:
    """Return where the schema stands, also when it is ahead of this program."""
    ours = known(session.dialect)
    if not session.ask("schema.has_ledger")[0][0]:
        return SchemaStatus((), tuple(ours), None)
    applied = tuple(row[0] for row in session.ask("schema.applied"))
    incarnation = session.ask("schema.incarnation") if applied else []
    return SchemaStatus(
        applied,
        tuple(migration for migration in ours if migration.version not in applied),
        incarnation[0][0] if incarnation else None,
        tuple(sorted(set(applied) - {migration.version for migration in ours})),
    )


def status(session: Session) -> SchemaStatus:
    """Return where the schema stands; raise `SchemaNewer` when it is ahead of this program."""
    found = read_status(session)
    require_known(found.applied, session.dialect)
    return found


def require_known(versions: Iterable[int], dialect: str) -> None:
    """Raise `SchemaNewer` when any of the schema's `versions` is one that this program does not know."""
    newest = known(dialect)[-1].version
    if (ahead := max(versions, default=0)) > newest:
        raise SchemaNewer(
            f"the database's schema is at version {ahead}; this program knows up to {newest}."
            " Install the newer Batonpass, or open another database"
        )


def upgrade(session: Session, clock: Clock) -> str:
    """Apply what is pending, all of it or nothing, and return the incarnation."""
    apply_pending(session, clock)
    after = status(session)
    assert after.incarnation is not None, after
    return after.incarnation


def apply_pending(session: Session, clock: Clock) -> tuple[Migration, ...]:
    """Apply what is pending, all of it or nothing, and return what this call applied."""
    before = status(session)
    if not before.pending and before.incarnation is not None:
        return ()
    with session.transaction():
        session.ask("schema.lock", key=ADVISORY_LOCK)
        session.ask("schema.make_ledger")
        pending = status(session).pending  # again, under the lock: somebody else may have been here first
        apply(session, pending)
        if not session.ask("schema.incarnation"):
            begin_incarnation(session, clock, why="created")
    return pending


def apply(session: Session, steps: Iterable[Migration]) -> None:
    """Run `steps` in the caller's transaction, and note each."""
    for step in steps:
        session.run_script(step.sql)
        session.ask("schema.note", version=step.version, name=step.name)
        points.reach("migration.applied")


def require_current(session: Session) -> str:
    """Return the incarnation of an up-to-date database; raise `SchemaOlder` when something is pending."""
    found = status(session)
    if found.pending or found.incarnation is None:
        raise SchemaOlder(f"the database needs {len(found.pending)} migrations; run: baton db upgrade")
    return found.incarnation


def begin_incarnation(session: Session, clock: Clock, *, why: str) -> None:
    """Begin another incarnation of the database (D46)."""
    session.ask("schema.begin_incarnation", id=secrets.token_hex(16), why=why, now=clock.moment())


class SqliteSession:
    """A SQLite connection during an upgrade."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def ask(self, name: str, /, **params: object) -> list[Row]:
        """Run a named statement and return its rows."""
        return self.connection.execute(queries.load(self.dialect)[name].sql, params).fetchall()

    def ask_written(self, statement: str) -> list[Row]:
        """Run a statement that the database wrote itself."""
        return self.connection.execute(statement).fetchall()

    def run_script(self, script: str) -> None:
        """Run a migration statement by statement; the driver's own script call would commit first."""
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self.connection.execute(statement)
                statement = ""
        rest = [line for line in statement.splitlines() if line.strip() and not line.startswith("--")]
        assert not rest, f"an unfinished statement: {statement}"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Take the writer's turn; commit at the end of the block, or roll back."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.commit()
        finally:
            self.connection.rollback()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one committed state for the length of the block; writers go on meanwhile."""
        self.connection.execute("BEGIN")
        self.ask("schema.has_ledger")  # the snapshot begins with the first read
        try:
            yield
        finally:
            self.connection.rollback()


class PostgresSession:
    """A PostgreSQL connection during an upgrade."""

    dialect = "postgres"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection

    def ask(self, name: str, /, **params: object) -> list[Row]:
        """Run a named statement and return its rows."""
        cursor = self.connection.execute(queries.load(self.dialect)[name].sql, params)
        return cursor.fetchall() if cursor.description else []

    def ask_written(self, statement: str) -> list[Row]:
        """Run a statement that the database wrote itself."""
        cursor = self.connection.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def run_script(self, script: str) -> None:
        """Run a migration as one message, inside the transaction."""
        self.connection.execute(script)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin; commit at the end of the block, or roll back."""
        with self.connection.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one committed state for the length of the block; writers go on meanwhile."""
        from psycopg import IsolationLevel  # only the dialect in use is loaded

        isolation, read_only = self.connection.isolation_level, self.connection.read_only
        self.connection.isolation_level, self.connection.read_only = IsolationLevel.REPEATABLE_READ, True
        try:
            with self.connection.transaction():
                yield
        finally:
            if not self.connection.closed:
                self.connection.isolation_level, self.connection.read_only = isolation, read_only
