"""How a database stands, told without touching it; and its upgrade."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from batonpass.core.errors import Invalid, NotFound, Unavailable
from batonpass.store import migrate, operations
from batonpass.store.open import open_session, sqlite_path
from batonpass.store.operations import Standing
from batonpass.testing.populated import Populated, contents

NEWEST: Final = len(migrate.known("sqlite"))
KNOWN: Final = tuple(range(1, NEWEST + 1))
TOMORROW: Final = f"{NEWEST + 1:04}_pre_nick"
"""The migration that the program of tomorrow has besides."""
HOLD_OPEN: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM nodes").fetchone()
print("open", flush=True)
sys.stdin.read()
"""
WRITE_AND_DIE: Final = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("UPDATE people SET name = 'Late'")
os._exit(0)
"""


@pytest.fixture
def with_tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes this program one migration newer: people get nicknames."""

    def install() -> None:
        for dialect in ("sqlite", "postgres"):
            folder = tmp_path / "migrations" / dialect
            folder.mkdir(parents=True)
            for step in migrate.known(dialect):
                (folder / step.path.name).write_text(step.sql)
            (folder / f"{TOMORROW}.sql").write_text("ALTER TABLE people ADD COLUMN nick text;\n")
        monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "migrations")

    return install


# --- status -----------------------------------------------------------------------------------------------------------


def test_the_status_of_a_database_that_is_up_to_date(populated: Populated) -> None:
    rows = contents(populated.url)

    found = operations.status(populated.url)

    assert (found.standing, found.schema.applied, found.schema.pending, found.newest_known) == (
        Standing.CURRENT,
        KNOWN,
        (),
        NEWEST,
    )
    assert found.schema.incarnation == rows["incarnations"][0][1]
    assert {table.name: table.rows for table in found.tables} == {name: len(kept) for name, kept in rows.items()}
    assert found.bytes > 50_000
    assert found.pooler is None


def test_the_status_says_what_makes_a_commit_last(populated: Populated) -> None:
    settings = operations.status(populated.url).settings

    if populated.url.startswith("sqlite"):
        assert settings == {"journal_mode": "wal", "synchronous": "full"}
    else:
        assert settings["fsync"] == "off"  # as this test server is set
        assert settings["synchronous_commit"] == "on"
        assert settings["in_hot_standby"] == "off"


def test_the_status_leaves_every_byte_of_a_database_as_it_was(populated: Populated) -> None:
    before = contents(populated.url)
    files = _bytes_of(populated.url)

    operations.status(populated.url)

    assert contents(populated.url) == before
    assert _bytes_of(populated.url) == files


def test_a_log_that_a_killed_process_left_is_not_folded_in_by_a_status(populated_sqlite: Populated) -> None:
    """SQLite only. The next writer does that; a look does not."""
    path = sqlite_path(populated_sqlite.url)
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=True)
    before = _bytes_of(populated_sqlite.url)

    found = operations.status(populated_sqlite.url)

    assert found.file is not None
    assert found.file.log_bytes > 0
    assert _bytes_of(populated_sqlite.url) == before


def test_a_file_that_is_not_there_is_not_made_by_a_status(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite only."""
    with pytest.raises(NotFound, match="there is no database at"):
        operations.status(sqlite_url)

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_said_to_be_none(sqlite_url: str) -> None:
    """SQLite only."""
    sqlite_path(sqlite_url).write_text("Dear reader, " * 100)

    with pytest.raises(Unavailable, match="file is not a database"):
        operations.status(sqlite_url)


def test_an_empty_database_has_no_schema(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        sqlite_path(database_url).touch()

    found = operations.status(database_url)

    assert (found.standing, found.schema.applied, found.schema.incarnation) == (Standing.NONE, (), None)
    assert [step.version for step in found.schema.pending] == [*KNOWN]


def test_a_schema_that_is_older_is_told_with_what_is_pending(
    populated: Populated, with_tomorrow: Callable[[], None]
) -> None:
    with_tomorrow()

    found = operations.status(populated.url)

    assert (found.standing, [step.name for step in found.schema.pending]) == (Standing.OLDER, [TOMORROW])


def test_a_schema_that_is_newer_is_told_and_not_refused(populated: Populated) -> None:
    with open_session(populated.url) as session, session.transaction():
        session.ask("schema.note", version=9999, name="9999_post_tomorrow")

    found = operations.status(populated.url)

    assert (found.standing, found.schema.ahead, found.newest_known) == (Standing.NEWER, (9999,), NEWEST)
    assert found.schema.incarnation is not None


def test_who_has_a_file_open_and_whether_somebody_writes_is_told(populated_sqlite: Populated) -> None:
    """SQLite only. The writer's lock is a file beside the database."""
    path = sqlite_path(populated_sqlite.url)
    idle = operations.status(populated_sqlite.url).file
    assert idle is not None
    assert (idle.writing, idle.users) == (False, ())
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_OPEN, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    lock = os.open(path.with_name(f"{path.name}.writer"), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    busy = operations.status(populated_sqlite.url).file

    assert busy is not None
    assert busy.writing
    (user,) = busy.users
    assert user.pid == other.pid
    assert "\n" not in str(user)
    assert len(user.command) <= operations.COMMAND_CHARS_MAX
    os.close(lock)
    other.communicate(b"")


def test_a_status_does_not_hang_behind_an_upgrade(
    populated_postgres: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL only: there a change of a table keeps readers out of it until it commits."""
    monkeypatch.setattr(operations, "LOCK_WAIT_MS", "20")
    with psycopg.connect(populated_postgres.url) as upgrading:
        upgrading.execute("ALTER TABLE people ADD COLUMN nick text")

        with pytest.raises(Unavailable, match="lock timeout"):
            operations.status(populated_postgres.url)


def test_a_password_is_not_shown(postgres_url: str) -> None:
    """PostgreSQL only."""
    url = postgres_url.replace("postgres@", "postgres:s3cret@") + "&pooler=transaction"

    found = operations.status(url)

    assert "s3cret" not in repr(found)
    assert found.pooler == "transaction"


def test_a_server_that_is_not_there_is_unavailable_and_its_password_is_not_shown(tmp_path: Path) -> None:
    """PostgreSQL only."""
    with pytest.raises(Unavailable) as refused:
        operations.status(f"postgresql://somebody:s3cret@/nothing?host={tmp_path}")

    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize("url", ["mysql://localhost/baton", "baton.db", "", "sqlite://x.db", "sqlite:///"])
def test_what_is_no_url_of_a_database_is_refused_with_what_is(url: str) -> None:
    with pytest.raises(Invalid, match="sqlite:///path"):
        operations.status(url)


# --- upgrade ----------------------------------------------------------------------------------------------------------


def test_an_upgrade_says_what_it_applied_and_the_next_one_has_nothing_to_do(database_url: str) -> None:
    first = operations.upgrade(database_url)
    second = operations.upgrade(database_url)

    assert [step.name for step in first.applied] == [step.name for step in migrate.known("sqlite")]
    assert (second.applied, second.schema, second.incarnation) == ((), first.schema, first.incarnation)
    assert operations.status(database_url).standing is Standing.CURRENT


def test_an_upgrade_keeps_rows_and_incarnation(populated: Populated, with_tomorrow: Callable[[], None]) -> None:
    before = contents(populated.url)
    with_tomorrow()

    done = operations.upgrade(populated.url)

    assert ([step.name for step in done.applied], done.schema) == ([TOMORROW], NEWEST + 1)
    after = contents(populated.url)
    assert after.pop("people") == [(*row, None) for row in before.pop("people")]
    assert after == before


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    populated: Populated, with_tomorrow: Callable[[], None]
) -> None:
    with_tomorrow()
    for dialect in ("sqlite", "postgres"):
        file = migrate.MIGRATIONS / dialect / f"{TOMORROW}.sql"
        file.write_text(file.read_text() + "DELETE FROM edges;\nALTER TABLE nowhere ADD COLUMN nick text;\n")
    before = contents(populated.url)

    with pytest.raises(Unavailable, match="nowhere"):
        operations.upgrade(populated.url)

    assert contents(populated.url) == before
    assert operations.status(populated.url).schema.applied == KNOWN


def test_a_newer_schema_is_not_upgraded(populated: Populated) -> None:
    with open_session(populated.url) as session, session.transaction():
        session.ask("schema.note", version=9999, name="9999_post_tomorrow")
    before = contents(populated.url)

    with pytest.raises(migrate.SchemaNewer, match=f"at version 9999; this program knows up to {NEWEST}"):
        operations.upgrade(populated.url)

    assert contents(populated.url) == before


def test_an_upgrade_waits_for_a_writer_that_is_at_work(
    populated_sqlite: Populated, with_tomorrow: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite only: on PostgreSQL the upgrade's statements wait for the row's own lock."""
    with_tomorrow()
    monkeypatch.setattr("batonpass.store.open.UPGRADE_WAIT_MS", 50)
    with closing(sqlite3.connect(sqlite_path(populated_sqlite.url), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            operations.upgrade(populated_sqlite.url)
        writer.execute("COMMIT")

    assert operations.upgrade(populated_sqlite.url).schema == NEWEST + 1


def _bytes_of(url: str) -> dict[str, bytes]:
    """Return the bytes of a SQLite file and of its log; a log that is empty is as good as none."""
    if not url.startswith("sqlite"):
        return {}
    path = sqlite_path(url)
    files = [path, path.with_name(f"{path.name}-wal")]
    return {file.name: file.read_bytes() for file in files if file.exists() and file.stat().st_size}
