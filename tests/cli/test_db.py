from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from batonpass.cli.db import size
from batonpass.store import migrate
from batonpass.store.open import open_session, sqlite_path
from batonpass.testing.commands import Baton
from batonpass.testing.populated import FREE, Populated, break_an_index, contents

COMMANDS: Final = ["status", "upgrade", "check"]


@pytest.fixture
def made(baton: Baton, database_url: str) -> str:
    """The URL of a database that is up to date and empty."""
    baton.ok("db", "upgrade", "--db", database_url)
    return database_url


def test_an_upgrade_prints_what_it_applied_and_then_that_there_was_nothing_to_do(
    baton: Baton, database_url: str
) -> None:
    names = [step.name for step in migrate.known("sqlite")]

    first = baton.ok("db", "upgrade", "--db", database_url)
    second = baton.ok("db", "upgrade", "--db", database_url)

    assert first.out.splitlines() == [*(f"applied {name}" for name in names), f"the schema is at version {len(names)}"]
    assert second.out == f"the schema is at version {len(names)}; there was nothing to do\n"
    assert baton.json("db", "upgrade", "--db", database_url) == {
        "applied": [],
        "schema": len(names),
        "incarnation": baton.json("db", "status", "--db", database_url)["incarnation"],
    }


def test_without_a_url_it_is_this_machines_own_database(baton: Baton) -> None:
    missing = baton("db", "status")
    assert (missing.code, missing.out) == (4, "")
    assert f"there is no database at {baton.home / 'baton.db'}" in missing.err
    assert "baton list" not in missing.err
    assert not baton.home.exists()

    baton.ok("db", "upgrade")

    assert baton.json("db", "status")["location"] == str(baton.home / "baton.db")


def test_the_variable_names_the_database_too(baton: Baton, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_DB", made)

    assert baton.json("db", "check")["ok"] is True


def test_a_status_tells_people_and_programs_the_same(baton: Baton, populated: Populated) -> None:
    seen = baton.ok("db", "status", "--db", populated.url)
    told = baton.json("db", "status", "--db", populated.url)

    assert f"version {told['schema']['known']}, up to date" in seen.out
    assert told["incarnation"] in seen.out
    assert told["location"] in seen.out
    nodes = next(table for table in told["tables"] if table["name"] == "nodes")
    assert nodes["rows"] == len(contents(populated.url)["nodes"])
    assert f"nodes {nodes['rows']}" in " ".join(seen.out.split())
    assert (told["schema"]["standing"], told["schema"]["pending"], told["schema"]["ahead"]) == ("current", [], [])
    assert (told["file"] is None) is populated.url.startswith("postgres")


def test_a_schema_that_is_not_this_programs_is_told_and_exits_1(
    baton: Baton, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrate.known("sqlite")
    next_ = len(steps) + 1
    with open_session(made) as session, session.transaction():
        session.ask("schema.note", version=next_ + 5, name=f"{next_ + 5:04}_post_tomorrow")

    newer = baton("db", "status", "--db", made)
    refused = baton("db", "upgrade", "--db", made, "--json")

    assert newer.code == 1
    assert f"newer than this program, which knows up to {len(steps)}; install the newer Batonpass" in newer.out
    assert (refused.code, refused.json["error"]["code"]) == (1, "schema_newer")

    monkeypatch.setattr(
        migrate,
        "known",
        lambda _: [*steps, *(migrate.Migration(n, f"{n:04}_pre_x", Path()) for n in range(next_, next_ + 7))],
    )
    older = baton("db", "status", "--db", made)
    assert older.code == 1
    assert f"older than this program: {next_:04}_pre_x, {next_ + 1:04}_pre_x" in older.out
    assert "run: baton db upgrade" in older.out


def test_a_database_never_used_is_told_and_exits_1(baton: Baton, postgres_url: str) -> None:
    """PostgreSQL: a SQLite file that was never used is hardly ever there."""
    ran = baton("db", "status", "--db", postgres_url)

    assert ran.code == 1
    assert "never used; run: baton init, or baton db upgrade" in ran.out


def test_a_check_that_finds_nothing_says_how_much_it_looked_at(baton: Baton, populated: Populated) -> None:
    assert baton.ok("db", "check", "--db", populated.url).out == "whole: 25 invariants hold\n"


def test_what_a_check_finds_is_told_with_what_to_do_and_exits_1(baton: Baton, populated_sqlite: Populated) -> None:
    url = populated_sqlite.url
    with open_session(url) as session:
        session.run_script(f"UPDATE nodes SET rank = 9 WHERE id = '{FREE}';")

    seen = baton("db", "check", "--db", url)
    told = baton("db", "check", "--db", url, "--json")

    assert (seen.code, told.code) == (1, 1)
    assert f"verdicts   {FREE}  rank is kept as 9, but is" in seen.out
    assert "verdicts: write the node again" in seen.out
    assert told.json["ok"] is False
    (finding,) = told.json["findings"]
    assert (finding["invariant"], finding["subject"]) == ("verdicts", FREE)
    assert set(finding) == {"invariant", "subject", "message", "fix"}


def test_what_a_check_could_not_look_at_is_not_among_the_data(baton: Baton, populated_sqlite: Populated) -> None:
    break_an_index(sqlite_path(populated_sqlite.url))

    ran = baton("db", "check", "--db", populated_sqlite.url)

    assert ran.code == 1
    assert "note: the database itself is not sound" in ran.err
    assert "note" not in ran.out


def test_a_backup_can_be_restored_with_its_checksum(baton: Baton, populated: Populated, tmp_path: Path) -> None:
    copy = tmp_path / "copy"

    seen = baton.ok("db", "backup", str(copy), "--db", populated.url)
    again = baton("db", "backup", str(copy), "--db", populated.url)
    told = baton.json("db", "backup", str(copy), "--db", populated.url, "--force")

    assert seen.out.startswith(f"{copy}: ")
    assert "verified\nSHA-256 " in seen.out
    assert (again.code, again.out) == (1, "")
    assert "is there already; give another name, or say --force" in again.err
    assert (told["file"], told["bytes"], told["schema"]) == (
        str(copy),
        copy.stat().st_size,
        len(migrate.known("sqlite")),
    )
    refused = baton("db", "restore", str(copy), "--db", populated.url, "--sha256", told["sha256"])
    assert refused.code == 1
    assert "not empty" in refused.err


def test_a_restore_says_what_it_means_for_those_who_work(
    baton: Baton, populated_postgres: Populated, postgres_url: str, tmp_path: Path
) -> None:
    baton.ok("db", "backup", str(tmp_path / "copy"), "--db", populated_postgres.url)

    ran = baton.ok("db", "restore", str(tmp_path / "copy"), "--db", postgres_url)

    assert ran.out.startswith(f"restored at schema {len(migrate.known('sqlite'))}; this is incarnation ")
    assert "every lease of before is void" in ran.err
    assert baton.json("db", "check", "--db", postgres_url)["ok"] is True


@pytest.fixture
def local_backup(baton: Baton, tmp_path: Path) -> Path:
    """A backup of this machine's own database, which has gone on since."""
    baton.ok("add", "A task", "--id", "task-1")
    baton.ok("db", "backup", str(tmp_path / "copy"))
    baton.ok("add", "Another", "--id", "task-2")
    return tmp_path / "copy"


@pytest.mark.parametrize("confirmed", [[], ["--confirm", "yes"]])
def test_nothing_is_replaced_unless_its_name_is_said(
    baton: Baton, local_backup: Path, confirmed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    ran = baton("db", "restore", str(local_backup), "--replace", *confirmed)

    assert ran.code == 2
    assert "say --confirm baton.db" in ran.err
    assert baton.json("show", "task-2")["frontmatter"]["id"] == "task-2"


def test_a_local_database_goes_back_to_its_backup_and_the_commands_go_on(baton: Baton, local_backup: Path) -> None:
    epoch = baton.json("claim", "task-1")["lease"]["epoch"]

    done = baton.json("db", "restore", str(local_backup), "--replace", "--confirm", "baton.db")

    assert done["incarnation"] == baton.json("status")["incarnation"]
    assert baton("show", "task-2").code == 4
    assert baton.json("claim", "task-1")["lease"]["epoch"] > epoch


def test_a_person_at_a_terminal_is_asked_for_the_name(
    baton: Baton, local_backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def typed(answer: str) -> Callable[[str], str]:
        def read(prompt: str) -> str:
            asked.append(prompt)
            return answer

        return read

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", typed("no"))
    assert baton("db", "restore", str(local_backup), "--replace").code == 2
    monkeypatch.setattr("builtins.input", typed("baton.db"))
    ran = baton.ok("db", "restore", str(local_backup), "--replace")

    assert asked == ["type baton.db to replace it: "] * 2
    assert "will be lost" in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_database_is_refused_in_one_shape(baton: Baton, command: str) -> None:
    ran = baton("db", command, "--db", "mysql://somewhere", "--json")

    assert ran.code == 1
    assert json.loads(ran.out)["error"]["code"] == "invalid_request"
    assert "sqlite:///path" in ran.err


@pytest.mark.parametrize(
    "count, words",
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (147_456, "144 KiB"),
        (5 << 30, "5 GiB"),
        (1 << 52, "4096 TiB"),
    ],
)
def test_sizes_are_said_in_one_unit(count: int, words: str) -> None:
    assert size(count) == words
