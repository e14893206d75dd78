"""Several programs upgrade at once, one is killed in the middle: the schema is whole, before or after."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from batonpass.core.errors import Invalid
from batonpass.store import check, migrate, operations
from batonpass.store.open import open_session, open_store, sqlite_path
from batonpass.testing.points import environment, wait_paused
from batonpass.testing.populated import Populated, contents

WAIT_S_MAX: Final = 30
KNOWN: Final = tuple(step.version for step in migrate.known("sqlite"))
TOMORROW: Final = len(KNOWN) + 1
"""The number of the migration that the program of tomorrow has besides."""
UPGRADE: Final = """
import json, sys
from pathlib import Path
from batonpass.store import migrate, operations
if len(sys.argv) > 2:
    migrate.MIGRATIONS = Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
done = operations.upgrade(sys.argv[1])
print(json.dumps([len(done.applied), done.schema, done.incarnation]))
"""
Tomorrow = Callable[[str], AbstractContextManager[Path]]


class Partition(NamedTuple):
    """A mounted file system, as psutil tells of it."""

    mountpoint: str
    fstype: str


def mounted(monkeypatch: pytest.MonkeyPatch, kinds: Mapping[str, str]) -> None:
    """Make the machine one with these file systems, by where each begins."""
    partitions = [Partition(*each) for each in kinds.items()]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: partitions)


def upgrading(url: str, *migrations: Path, points: str = "") -> subprocess.Popen[str]:
    """Start a program that waits for a line before it upgrades."""
    argv = [sys.executable, "-c", UPGRADE, url, *map(str, migrations)]
    process = subprocess.Popen(
        argv, env=environment(points), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def result(process: subprocess.Popen[str]) -> list[object]:
    out, err = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 0, err
    done: list[object] = json.loads(out)
    return done


def test_of_programs_that_begin_one_database_together_one_does_it_and_all_agree(database_url: str) -> None:
    programs = [upgrading(database_url) for _ in range(4)]
    for program in programs:
        go(program)

    applied, schemas, incarnations = zip(*[result(program) for program in programs], strict=True)

    newest = len(migrate.known("sqlite"))
    assert sorted(applied) == [0, 0, 0, newest]
    assert set(schemas) == {newest}
    assert len(set(incarnations)) == 1


def test_who_comes_while_another_is_at_it_waits_and_finds_it_done(
    populated: Populated, tomorrow: Tomorrow, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    with tomorrow("ALTER TABLE people ADD COLUMN nick text;") as migrations:
        first = upgrading(populated.url, migrations, points=f"migration.applied:pause={door}")
        second = upgrading(populated.url, migrations)
        go(first)
        wait_paused(door)
        go(second)

        with open_session(populated.url, read_only=True) as session:
            assert migrate.status(session).applied == KNOWN  # nothing of it is to be seen yet
        assert second.poll() is None
        door.unlink()
        assert [result(first)[0], result(second)[0]] == [1, 0]
        assert operations.status(populated.url).schema.applied == (*KNOWN, TOMORROW)


def test_an_upgrade_that_is_killed_leaves_the_database_as_it_was_and_the_next_one_works(
    populated: Populated, tomorrow: Tomorrow
) -> None:
    before = contents(populated.url)
    with tomorrow("ALTER TABLE people ADD COLUMN nick text; DELETE FROM edges;".replace("; ", ";\n")) as migrations:
        killed = upgrading(populated.url, migrations, points="migration.applied:kill")
        go(killed)
        assert killed.wait(WAIT_S_MAX) == -signal.SIGKILL
        killed.communicate()

        assert contents(populated.url) == before
        assert operations.status(populated.url).schema.applied == KNOWN
        assert operations.upgrade(populated.url).schema == TOMORROW
    assert contents(populated.url)["edges"] == []


def test_a_first_upgrade_that_is_killed_leaves_nothing_and_the_next_one_works(database_url: str) -> None:
    killed = upgrading(database_url, points="migration.applied:kill")
    go(killed)
    assert killed.wait(WAIT_S_MAX) == -signal.SIGKILL
    killed.communicate()

    assert operations.status(database_url).schema.applied == ()
    operations.upgrade(database_url)
    assert check.check(database_url).findings == ()


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
async def test_a_file_on_a_network_file_system_is_refused_and_not_begun(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """SQLite only. The nearest mount decides, not one further up."""
    mounted(monkeypatch, {"/": "ext4", str(tmp_path.parent): "ext4", str(tmp_path): kind})

    with pytest.raises(Invalid, match=f"network file system .{kind}.; SQLite is not safe there"):
        await open_store(sqlite_url)

    assert not sqlite_path(sqlite_url).exists()


@pytest.mark.anyio
async def test_a_local_folder_below_a_network_file_system_is_fine(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite only."""
    mounted(monkeypatch, {"/": "nfs4", str(tmp_path): "ext4"})

    store = await open_store(sqlite_url)

    await store.close()
