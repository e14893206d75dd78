"""A restored database is the backup in a new incarnation: nothing said under an old fence counts (D46, H12)."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from batonpass.core.errors import Conflict, Invalid, NotFound
from batonpass.store import backup, check, migrate, operations, restore
from batonpass.store.open import open_session, sqlite_path
from batonpass.testing.clock import ManualClock
from batonpass.testing.databases import PostgresCluster
from batonpass.testing.points import environment
from batonpass.testing.populated import (
    CLAIMED,
    FREE,
    RELEASED,
    RESERVED,
    TAKEN_OVER,
    WORKED,
    Fleet,
    Populated,
    break_an_index,
    contents,
    serving,
)

NEWEST: Final = len(migrate.known("sqlite"))
JUMP: Final = 1 << 32
RESTORE: Final = """
import sys
from pathlib import Path
from batonpass.store import restore
restore.restore(Path(sys.argv[1]), sys.argv[2], replace=len(sys.argv) > 3)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A backup, the database it is of, and an empty place to restore it into."""

    file: Path
    made: backup.BackupReport
    original: Populated
    target: str

    @property
    def fleet(self) -> Fleet:
        """Who worked in the original."""
        return self.original.fleet

    def restored(self, **how: Any) -> restore.RestoreReport:  # noqa: ANN401 — the options of `restore`
        """Restore into the empty place."""
        return restore.restore(self.file, self.target, **how)


@pytest.fixture
def case(populated: Populated, database_of: Any, tmp_path: Path) -> Case:  # noqa: ANN401
    file = tmp_path / "copy"
    return Case(file, backup.backup(populated.url, file), populated, database_of(populated.url))


@pytest.fixture
def database_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Return a function that makes an empty database of the same kind as the one at a URL."""
    made: list[str] = []

    def make(url: str) -> str:
        if url.startswith("sqlite"):
            return f"sqlite:///{tmp_path / 'restored.db'}"
        cluster: PostgresCluster = request.getfixturevalue("postgres")
        made.append(cluster.create_database())
        return cluster.url(made[-1])

    yield make
    for name in made:
        request.getfixturevalue("postgres").drop_database(name)


def leases(url: str) -> dict[str, tuple[Any, ...]]:
    return {str(row[0]): row for row in contents(url)["leases"]}


def test_all_rows_come_back_but_for_what_belongs_to_one_incarnation(case: Case) -> None:
    before = contents(case.original.url)

    report = case.restored()

    after = contents(case.target)
    ended = {"leases", "records", "record_fields", "run_tenures", "idempotency_keys", "incarnations"}
    assert {name: rows for name, rows in after.items() if name not in ended} == {
        name: rows for name, rows in before.items() if name not in ended
    }
    assert after["idempotency_keys"] == after["run_tenures"] == []
    assert before["idempotency_keys"]
    assert before["run_tenures"]
    assert (report.before, report.schema, report.upgraded) == (case.made.incarnation, NEWEST, ())


def test_a_restored_database_passes_the_check(case: Case) -> None:
    case.restored()

    assert check.check(case.target).findings == ()


def test_every_tenure_has_ended_and_epochs_and_versions_are_past_any_that_can_have_been_given(case: Case) -> None:
    before = leases(case.original.url)

    case.restored()

    after = leases(case.target)
    columns = 17
    free = ("none", *[None] * 5)
    assert {row[:6] for row in after.values()} == {(name, *free)[:6] for name in before}
    assert {name: (row[7], row[8]) for name, row in after.items()} == {
        name: (row[7] + JUMP, row[8] + JUMP) for name, row in before.items()
    }
    assert {name: row[12] for name, row in after.items()} == {name: row[12] for name, row in before.items()}
    for row in after.values():
        assert len(row) == columns
        assert [*row[9:12], *row[13:16]] == [None] * 6
    assert before[TAKEN_OVER][15] == "agent-mill"
    assert before[CLAIMED][13]


def test_versions_of_records_and_fields_are_past_any_that_can_have_been_given(case: Case) -> None:
    before = contents(case.original.url)

    case.restored()

    after = contents(case.target)
    for table, version in (("records", 3), ("record_fields", 3)):
        assert before[table]
        for was, row in zip(before[table], after[table], strict=True):
            given = was[version]
            assert isinstance(given, int)
            assert row == (*was[:version], given + JUMP, *was[version + 1 :])


def test_a_record_of_the_lost_history_begins_beyond_it_when_it_is_made_again(case: Case) -> None:
    case.restored()

    async def begun() -> list[int]:
        async with serving(case.target, clock=case.fleet.clock(), token=case.fleet.agent) as server:
            put = await server.ask("PUT", "/v1/records/incidents/inc-9/fields/status", {"value": "open"})
            claimed = await server.ask("PUT", "/v1/records/incidents/inc-9/fields/review/claim", {})
            new = await server.ask("PUT", "/v1/records/incidents/inc-1/fields/summary", {"value": 1})
            numbers = (put["version"], put["record_version"], claimed["version"], claimed["epoch"], new["version"])
            return [number - JUMP for number in numbers]

    assert asyncio.run(begun()) == [1, 1, 1, 1, 1]


def test_what_was_held_before_is_refused_afterwards_and_epochs_never_repeat(case: Case) -> None:
    fleet = case.fleet
    original = leases(case.original.url)
    case.restored()

    async def story() -> None:
        async with serving(case.target, clock=fleet.clock(), token=fleet.agent) as server:
            lost = [
                await server.send("POST", f"/v1/nodes/{CLAIMED}/{verb}", {"if_epoch": fleet.epoch, **more})
                for verb, more in {"renew": {}, "extend": {"ms": 60_000}, "reserve": {}}.items()
            ]
            assert [(answer.status_code, answer.json()["error"]["code"]) for answer in lost] == [
                (409, "lease_lost")
            ] * 3
            for node in (CLAIMED, WORKED, FREE):
                late = await server.send("POST", f"/v1/nodes/{node}/priority", {"priority": "p3"}, token=fleet.run)
                assert (late.status_code, late.json()["error"]["code"]) == (409, "lease_lost"), node
            fenced = await server.send(
                "POST",
                f"/v1/nodes/{FREE}/priority",
                {"priority": "p3"},
                headers={"If-Lease": f"{CLAIMED}; epoch={fleet.epoch}"},
            )
            assert (fenced.status_code, fenced.json()["error"]["code"]) == (409, "lease_lost")
            for node in (CLAIMED, WORKED, RESERVED, RELEASED, TAKEN_OVER, FREE):
                taken = await server.ask("POST", f"/v1/nodes/{node}/claim", {}, token=fleet.rival)
                assert taken["lease"]["epoch"] == original[node][7] + JUMP + 1

    asyncio.run(story())
    assert check.check(case.target).findings == ()


def test_a_nonce_that_acquired_before_does_not_acquire_again(case: Case) -> None:
    """A launch sent before the restore and delivered after it is over (D6)."""
    fleet = case.fleet
    case.restored()

    async def story() -> tuple[int, str]:
        async with serving(case.target, clock=fleet.clock(), token=fleet.agent) as server:
            late = await server.send("POST", f"/v1/nodes/{CLAIMED}/claim", {"dispatch": "nonce-1"})
            return late.status_code, late.json()["error"]["code"]

    assert asyncio.run(story()) == (409, "conflict")


def test_the_feed_goes_on_after_its_last_event(case: Case) -> None:
    """The number of an event is drawn by the database, also where the restored rows brought their own."""
    last = max(int(str(row[0])) for row in contents(case.original.url)["events"])
    case.restored()

    async def story() -> None:
        async with serving(case.target, clock=case.fleet.clock(), token=case.fleet.agent) as server:
            await server.ask("POST", f"/v1/nodes/{FREE}/claim", {})

    asyncio.run(story())
    assert max(int(str(row[0])) for row in contents(case.target)["events"]) == last + 1


def test_a_second_restore_of_one_backup_is_yet_another_incarnation(case: Case, database_of: Any) -> None:  # noqa: ANN401
    first = case.restored()

    if case.target.startswith("sqlite"):
        second = case.restored(replace=True)
    else:
        second = restore.restore(case.file, database_of(case.target))

    assert len({case.made.incarnation, first.incarnation, second.incarnation}) == 3


def test_a_backup_of_a_restored_database_can_be_restored(case: Case, database_of: Any, tmp_path: Path) -> None:  # noqa: ANN401
    case.restored()
    again = tmp_path / "again"
    backup.backup(case.target, again)
    sqlite = case.target.startswith("sqlite")

    restore.restore(again, case.target if sqlite else database_of(case.target), replace=sqlite)

    if sqlite:
        assert leases(case.target)[CLAIMED][7] == leases(case.original.url)[CLAIMED][7] + 2 * JUMP


def test_a_database_that_is_not_empty_is_left_alone(case: Case) -> None:
    before = contents(case.original.url)

    with pytest.raises(Conflict, match="not empty"):
        restore.restore(case.file, case.original.url)

    assert contents(case.original.url) == before


def test_a_database_with_tables_of_somebody_else_is_not_empty(postgres_url: str, case: Case) -> None:
    """PostgreSQL for the table; a SQLite file of somebody else is the same question as one of ours."""
    if case.target.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(case.target))) as file:
            file.execute("CREATE TABLE theirs (id)")
        target = case.target
    else:
        target = postgres_url
        with open_session(target) as session:
            session.run_script("CREATE TABLE theirs (id int)")

    with pytest.raises(Conflict, match="not empty"):
        restore.restore(case.file, target)


def test_the_other_kind_of_database_is_refused_and_not_begun(case: Case, tmp_path: Path, postgres_url: str) -> None:
    other = postgres_url if case.target.startswith("sqlite") else f"sqlite:///{tmp_path / 'other.db'}"

    with pytest.raises(Invalid, match="goes back into one of those only; --db names"):
        restore.restore(case.file, other)

    assert not (tmp_path / "other.db").exists()


def test_a_file_that_is_no_backup_is_refused(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "letter").write_text("Dear reader")

    with pytest.raises(Invalid, match="no backup of ours"):
        restore.restore(tmp_path / "letter", database_url)
    with pytest.raises(NotFound, match="there is no file"):
        restore.restore(tmp_path / "nothing", database_url)


def test_a_file_with_another_checksum_is_refused(case: Case) -> None:
    with pytest.raises(Invalid, match="does not have the SHA-256"):
        case.restored(sha256="0" * 64)

    case.restored(sha256=case.made.sha256.upper())


def test_a_backup_by_a_newer_version_is_refused_and_leaves_the_place_empty(
    populated: Populated,
    database_of: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    with open_session(populated.url) as session, session.transaction():
        session.ask("schema.note", version=9999, name="9999_post_tomorrow")
    backup.backup(populated.url, tmp_path / "copy")
    target = database_of(populated.url)

    with pytest.raises(migrate.SchemaNewer, match="9999"):
        restore.restore(tmp_path / "copy", target)

    with open_session(target) as session:
        assert session.ask("operations.is_empty")[0][0]


def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer program has one more migration, which changes rows that the backup brings."""
    for dialect in ("sqlite", "postgres"):
        folder = tmp_path / "migrations" / dialect
        folder.mkdir(parents=True)
        for step in migrate.known(dialect):
            (folder / step.path.name).write_text(step.sql)
        (folder / f"{NEWEST + 1:04}_pre_nick.sql").write_text(
            "ALTER TABLE people ADD COLUMN nick text;\nUPDATE people SET nick = lower(name);\n"
        )
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "migrations")

    report = case.restored()

    assert (report.schema, report.upgraded) == (NEWEST + 1, (f"{NEWEST + 1:04}_pre_nick",))
    assert {row[-1] for row in contents(case.target)["people"]} == {"pat", "ada admin"}


def killed_restore(case: Case, point: str) -> None:
    """Restore in a process that is killed at `point`."""
    ended = subprocess.run(
        [sys.executable, "-c", RESTORE, str(case.file), case.target], env=environment(f"{point}:kill"), check=False
    )
    assert ended.returncode == -signal.SIGKILL


def test_a_restore_that_is_killed_has_changed_nothing_and_the_next_one_works(case: Case) -> None:
    killed_restore(case, "restore.copied")

    if case.target.startswith("sqlite"):
        assert not sqlite_path(case.target).exists()
    else:
        with open_session(case.target) as session:
            assert session.ask("operations.is_empty")[0][0]
    case.restored()
    assert check.check(case.target).findings == ()


def test_a_restore_that_is_killed_while_it_makes_the_tables_leaves_none(
    populated_postgres: Populated, postgres_url: str, tmp_path: Path
) -> None:
    """PostgreSQL only: a SQLite file of the present schema comes whole, and no migration is applied to it."""
    file = tmp_path / "copy"
    made = backup.backup(populated_postgres.url, file)

    killed_restore(Case(file, made, populated_postgres, postgres_url), "migration.applied")

    with open_session(postgres_url) as session:
        assert session.ask("operations.is_empty")[0][0]


# --- replacing a SQLite file: PostgreSQL restores into a new database instead -----------------------------------------


@pytest.fixture
def behind(populated_sqlite: Populated, tmp_path: Path) -> Case:
    """A backup, and the file it is of, which has gone on since."""
    file = tmp_path / "copy"
    made = backup.backup(populated_sqlite.url, file)
    fleet = populated_sqlite.fleet

    async def go_on() -> None:
        async with serving(populated_sqlite.url, clock=fleet.clock(), token=fleet.rival) as server:
            await server.ask("POST", f"/v1/nodes/{FREE}/claim", {})
            late = {"id": "task-late", "type": "task", "title": "Late", "summary": "Late"}
            await server.ask("POST", "/v1/nodes", {"nodes": [late]}, token=fleet.person)

    asyncio.run(go_on())
    return Case(file, made, populated_sqlite, populated_sqlite.url)


def test_a_file_is_replaced_whole(behind: Case) -> None:
    behind.restored(replace=True)

    assert "task-late" not in {row[0] for row in contents(behind.target)["nodes"]}
    assert check.check(behind.target).findings == ()
    assert sorted(path.name for path in behind.file.parent.iterdir() if "partial" in path.name) == []


def test_an_epoch_given_out_in_the_lost_history_is_not_given_out_again(behind: Case) -> None:
    lost = leases(behind.target)[FREE][7]
    fleet = behind.fleet
    behind.restored(replace=True)

    async def story() -> tuple[int, int]:
        async with serving(behind.target, clock=fleet.clock(), token=fleet.agent) as server:
            taken = await server.ask("POST", f"/v1/nodes/{FREE}/claim", {})
            zombie = await server.send("POST", f"/v1/nodes/{FREE}/renew", {"if_epoch": lost}, token=fleet.rival)
            return taken["lease"]["epoch"], zombie.status_code

    epoch, refused = asyncio.run(story())
    assert epoch > lost
    assert refused == 409


def test_a_file_that_a_server_has_open_is_not_replaced(behind: Case) -> None:
    before = contents(behind.target)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(sqlite_path(behind.target))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"open\n"

    with pytest.raises(Conflict, match=f"in use by process {holder.pid} .*stop that first"):
        behind.restored(replace=True)

    assert operations.status(behind.target).file is not None
    holder.communicate(b"")
    assert contents(behind.target) == before
    behind.restored(replace=True)


HOLD: Final = """
import sys
from pathlib import Path
from batonpass.store.sqlite import connect
connection = connect(Path(sys.argv[1]))
connection.execute("SELECT count(*) FROM nodes").fetchone()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_replacement_that_is_killed_leaves_the_old_file(behind: Case) -> None:
    before = contents(behind.target)

    ended = subprocess.run(
        [sys.executable, "-c", RESTORE, str(behind.file), behind.target, "replace"],
        env=environment("restore.copied:kill"),
        check=False,
    )

    assert ended.returncode == -signal.SIGKILL
    assert contents(behind.target) == before


def test_a_damaged_backup_does_not_replace_anything(behind: Case) -> None:
    before = contents(behind.target)
    break_an_index(behind.file)

    with pytest.raises(Invalid, match=r"is damaged.*take an older backup"):
        behind.restored(replace=True)

    assert contents(behind.target) == before


def test_a_sqlite_file_of_somebody_else_does_not_replace_anything(behind: Case, tmp_path: Path) -> None:
    before = contents(behind.target)
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as file:
        file.execute("CREATE TABLE theirs (id)")

    with pytest.raises(Invalid, match="no backup of a Batonpass database"):
        restore.restore(other, behind.target, replace=True)

    assert contents(behind.target) == before


def test_what_is_in_the_way_and_no_database_is_named(behind: Case, tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("Dear reader, " * 100)

    with pytest.raises(Invalid, match=r"letter is .*no SQLite database.*move it away"):
        restore.restore(behind.file, f"sqlite:///{letter}", replace=True)

    assert letter.read_text().startswith("Dear reader")


def test_a_backup_does_not_replace_itself(behind: Case) -> None:
    with pytest.raises(Invalid, match="is the database itself"):
        restore.restore(behind.file, f"sqlite:///{behind.file}", replace=True)


def test_a_restored_file_is_for_its_owner_alone(behind: Case, tmp_path: Path) -> None:
    target = tmp_path / "new.db"

    restore.restore(behind.file, f"sqlite:///{target}", clock=ManualClock())

    assert stat.S_IMODE(target.stat().st_mode) == 0o600


# --- archives ---------------------------------------------------------------------------------------------------------


def test_a_postgresql_database_is_never_replaced(populated_postgres: Populated, tmp_path: Path) -> None:
    backup.backup(populated_postgres.url, tmp_path / "copy")

    with pytest.raises(Invalid, match="make an empty database"):
        restore.restore(tmp_path / "copy", populated_postgres.url, replace=True)


def test_an_archive_with_a_changed_row_restores_nothing(
    populated_postgres: Populated, postgres_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "copy"
    backup.backup(populated_postgres.url, file)
    file.write_bytes(file.read_bytes().replace(b"task-claimed", b"task-CLAIMED", 1))

    with pytest.raises(Invalid, match="not as it was written"):
        restore.restore(file, postgres_url)

    with open_session(postgres_url) as session:
        assert session.ask("operations.is_empty")[0][0]


def test_a_table_of_somebody_else_in_an_archive_is_left_out(
    populated_postgres: Populated, postgres_url: str, tmp_path: Path
) -> None:
    """What is ours can be had back whatever else stood in the same schema."""
    with open_session(populated_postgres.url) as session:
        session.run_script("CREATE TABLE theirs (id int); INSERT INTO theirs VALUES (1)")
    backup.backup(populated_postgres.url, tmp_path / "copy")

    restore.restore(tmp_path / "copy", postgres_url)

    assert "theirs" not in contents(postgres_url)
    assert check.check(postgres_url).findings == ()
