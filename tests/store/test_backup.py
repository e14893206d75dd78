"""A copy of a database is whole, of one moment, and never in the way of those who work (D46)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from batonpass.core import points
from batonpass.core.errors import Conflict, Invalid, NotFound, Unavailable
from batonpass.store import backup, check, migrate
from batonpass.store.archive import open_archive
from batonpass.store.open import sqlite_path
from batonpass.testing.points import calling, environment, failing
from batonpass.testing.populated import Populated, break_an_index, contents, serving

BACK_UP: Final = """
import sys
from pathlib import Path
from batonpass.store import backup
backup.backup(sys.argv[1], Path(sys.argv[2]), force=True)
"""


def rows_in(file: Path) -> dict[str, int]:
    """Count the rows of each table of a backup, as anybody could."""
    if file.read_bytes().startswith(b"SQLite"):
        with closing(sqlite3.connect(file)) as copy:
            names = [name for (name,) in copy.execute("SELECT name FROM pragma_table_list WHERE type = 'table'")]
            counts = {name: copy.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
        return {name: count for name, count in counts.items() if not name.startswith(("sqlite_", "schema_"))}
    with tarfile.open(file) as archive:
        return {
            member.name.removeprefix("tables/").removesuffix(".copy"): archive.extractfile(member).read().count(b"\n")  # type: ignore[union-attr]  # every member is a file
            for member in archive
            if member.name.startswith("tables/")
        }


def test_a_backup_has_every_row_and_says_what_it_is(populated: Populated, tmp_path: Path) -> None:
    file = tmp_path / "copy"

    made = backup.backup(populated.url, file)

    assert rows_in(file) == {table: len(rows) for table, rows in contents(populated.url).items()}
    assert (made.bytes, made.schema) == (file.stat().st_size, len(migrate.known("sqlite")))
    assert [made.incarnation] == [row[1] for row in contents(populated.url)["incarnations"]]
    assert made.sha256 == backup.sha256_of(file)


def test_a_backup_is_for_its_owner_alone_whatever_the_umask(populated: Populated, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        backup.backup(populated.url, tmp_path / "copy")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600


def test_nothing_else_is_left_beside_a_backup(populated: Populated, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    backup.backup(populated.url, folder / "copy")

    assert [path.name for path in folder.iterdir()] == ["copy"]


def test_a_backup_leaves_the_database_as_it_was(populated: Populated, tmp_path: Path) -> None:
    before = contents(populated.url)

    backup.backup(populated.url, tmp_path / "copy")

    assert contents(populated.url) == before


def test_a_file_that_is_there_is_overwritten_only_when_forced(populated: Populated, tmp_path: Path) -> None:
    file = tmp_path / "copy"
    file.write_text("somebody's")

    with pytest.raises(Conflict, match="is there already"):
        backup.backup(populated.url, file)
    assert file.read_text() == "somebody's"

    backup.backup(populated.url, file, force=True)
    assert rows_in(file)["nodes"] > 0


def test_a_file_that_appears_during_the_copy_is_not_overwritten(populated: Populated, tmp_path: Path) -> None:
    file = tmp_path / "copy"

    with calling("backup.written", file.touch), pytest.raises(Conflict):
        backup.backup(populated.url, file)

    assert file.read_bytes() == b""
    assert not (tmp_path / ".copy.partial").exists()


def test_two_backups_into_one_file_do_not_mix(populated: Populated, tmp_path: Path) -> None:
    file = tmp_path / "copy"
    second: list[str] = []

    def begin_another() -> None:
        with pytest.raises(Conflict, match="another process is writing"):
            backup.backup(populated.url, file)
        second.append("refused")

    with calling("backup.copied", begin_another):
        backup.backup(populated.url, file)

    assert second == ["refused"]
    assert rows_in(file)["nodes"] > 0


async def _put_late(database: Populated) -> None:
    late = {"id": "task-late", "type": "task", "title": "Late", "summary": "Late"}
    fleet = database.fleet
    async with serving(database.url, clock=fleet.clock(), token=fleet.person) as server:
        await server.ask("POST", "/v1/nodes", {"nodes": [late]})


def test_what_is_written_while_a_backup_runs_is_not_in_it_and_does_not_wait(
    populated: Populated, tmp_path: Path
) -> None:
    before = {table: len(rows) for table, rows in contents(populated.url).items()}

    with calling("backup.copied", lambda: asyncio.run(_put_late(populated))):
        backup.backup(populated.url, tmp_path / "copy")

    assert rows_in(tmp_path / "copy") == before
    assert len(contents(populated.url)["nodes"]) == before["nodes"] + 1


def test_a_writer_that_never_rests_does_not_make_a_backup_start_again(
    populated_sqlite: Populated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite only: its backup call begins anew when another connection writes, unless it holds a snapshot."""
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 1)
    steps = 0

    with closing(sqlite3.connect(sqlite_path(populated_sqlite.url), isolation_level=None)) as writer:
        pages = writer.execute("PRAGMA page_count").fetchone()[0]

        def write() -> None:
            nonlocal steps
            steps += 1
            assert steps <= pages, "it has begun again"
            writer.execute("UPDATE people SET name = name || '.'")

        monkeypatch.setitem(points.armed, "backup.copied", write)
        backup.backup(populated_sqlite.url, tmp_path / "copy")

    assert steps == pages
    assert not any(name.endswith(".") for name in _names(tmp_path / "copy"))


def _names(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as copy:
        return [name for (name,) in copy.execute("SELECT name FROM people")]


@pytest.mark.parametrize("point", ["backup.copied", "backup.written"])
def test_a_backup_that_is_killed_leaves_the_old_one_and_the_next_one_works(
    populated: Populated, tmp_path: Path, point: str
) -> None:
    file = tmp_path / "copy"
    file.write_text("the old one")

    ended = subprocess.run(
        [sys.executable, "-c", BACK_UP, populated.url, str(file)], env=environment(f"{point}:kill"), check=False
    )

    assert ended.returncode == -signal.SIGKILL
    assert file.read_text() == "the old one"
    backup.backup(populated.url, file, force=True)
    assert rows_in(file) == {table: len(rows) for table, rows in contents(populated.url).items()}
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_backup_that_fails_leaves_nothing(populated: Populated, tmp_path: Path) -> None:
    with (
        failing("backup.written", OSError(28, "No space left on device")),
        pytest.raises(Unavailable, match="No space"),
    ):
        backup.backup(populated.url, tmp_path / "copy")

    assert not [path for path in tmp_path.iterdir() if path.name.endswith("copy") or "partial" in path.name]


def test_a_folder_that_is_not_there_is_named(populated: Populated, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nowhere does not exist"):
        backup.backup(populated.url, tmp_path / "nowhere" / "copy")


def test_a_database_that_was_never_used_is_not_backed_up(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        backup.backup(database_url, tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".writer", ".turnstile"])
def test_a_backup_never_overwrites_the_database_it_is_of(populated_sqlite: Populated, suffix: str) -> None:
    """SQLite only: a PostgreSQL database is no file of ours."""
    path = sqlite_path(populated_sqlite.url)

    with pytest.raises(Invalid, match="belongs to the database itself"):
        backup.backup(populated_sqlite.url, path.with_name(path.name + suffix), force=True)

    assert check.check(populated_sqlite.url).findings == ()


def test_a_copy_of_a_sqlite_file_opens_where_nothing_can_be_written(
    populated_sqlite: Populated, tmp_path: Path
) -> None:
    """SQLite only. A copy in WAL mode would need to make files beside it."""
    backup.backup(populated_sqlite.url, tmp_path / "copy")

    with closing(sqlite3.connect(f"file:{tmp_path / 'copy'}?mode=ro&immutable=1", uri=True)) as copy:
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert copy.execute("SELECT count(*) FROM nodes").fetchone()[0] > 0


def test_a_damaged_database_is_not_copied_as_if_it_were_whole(populated_sqlite: Populated, tmp_path: Path) -> None:
    """SQLite only: PostgreSQL checks its own pages."""
    break_an_index(sqlite_path(populated_sqlite.url))

    with pytest.raises(Unavailable, match="baton db check"):
        backup.backup(populated_sqlite.url, tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


def test_an_archive_is_read_by_tar_and_its_manifest_says_what_is_in_it(
    populated_postgres: Populated, tmp_path: Path
) -> None:
    """PostgreSQL only: a SQLite backup is a database file."""
    backup.backup(populated_postgres.url, tmp_path / "copy.tar")

    subprocess.run(["tar", "-xf", "copy.tar"], cwd=tmp_path, check=True)

    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["format"], manifest["format_version"], manifest["schema"]) == (
        "batonpass-postgresql-backup",
        1,
        [step.version for step in migrate.known("postgres")],
    )
    rows = contents(populated_postgres.url)
    assert (
        manifest["sequences"].items()
        >= {"events_seq_seq": len(rows["events"]), "search_nodes_doc_seq": len(rows["search_nodes"])}.items()
    )
    assert manifest["incarnation"] in {row[1] for row in contents(populated_postgres.url)["incarnations"]}
    for table in manifest["tables"]:
        written = tmp_path / table["name"]
        assert (written.stat().st_size, backup.sha256_of(written)) == (table["bytes"], table["sha256"])
    with psycopg.connect(populated_postgres.url) as connection:
        order = [table["table"] for table in manifest["tables"]]
        for child, parent in connection.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
        ):
            assert order.index(parent) < order.index(child)


@pytest.mark.parametrize("kept", [0, 1, 512, 5_000, -1024 * 3])
def test_an_archive_that_was_cut_short_is_no_backup(populated_postgres: Populated, tmp_path: Path, kept: int) -> None:
    """PostgreSQL only."""
    file = tmp_path / "copy"
    backup.backup(populated_postgres.url, file)
    file.write_bytes(file.read_bytes()[:kept])

    with pytest.raises(Invalid, match="no whole backup"), open_archive(file) as archive:
        archive.verify()


def test_every_changed_byte_of_an_archives_rows_is_found(populated_postgres: Populated, tmp_path: Path) -> None:
    """PostgreSQL only."""
    file = tmp_path / "copy"
    backup.backup(populated_postgres.url, file)
    whole = file.read_bytes()
    place = whole.index(b"task-claimed")
    file.write_bytes(whole[:place] + b"T" + whole[place + 1 :])

    with open_archive(file) as archive, pytest.raises(Invalid, match="is not as it was written"):
        archive.verify()
