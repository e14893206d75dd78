"""SQLite commits in groups: what is answered is on disk, whatever the disk does (D42, D45, H6)."""

from __future__ import annotations

import asyncio
import fcntl
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from batonpass.core.errors import Internal, LeaseLost, Unavailable, Unknown
from batonpass.core.ids import Fence, Resource
from batonpass.store import leases, sqlite
from batonpass.store.base import SYSTEM, Fences, Store
from batonpass.store.open import open_store, sqlite_path
from batonpass.store.sqlite import GroupEnded, SqliteStore
from batonpass.testing import points

pytestmark = pytest.mark.anyio

GROUPS: Final = 1_000
FULL: Final = sqlite3.SQLITE_FULL
IOERR: Final = sqlite3.SQLITE_IOERR


@dataclass
class FaultyConnection:
    """A writer's connection whose next statements can be made to fail, as SQLite itself fails them.

    The database's own faults are its own: a page limit that is reached (full)
    and an interrupted statement roll back what SQLite would. An input/output
    error is raised in place of the statement, with the whole transaction rolled
    back before it, or not.
    """

    real: sqlite3.Connection
    fault: Callable[[str], None] | None = None
    statements: int = 0
    ran: list[str] = field(default_factory=list)

    @property
    def in_transaction(self) -> bool:
        return self.real.in_transaction

    def execute(self, sql: str, params: Mapping[str, object] | tuple[()] = ()) -> sqlite3.Cursor:
        self.statements += 1
        self.ran.append(sql)
        if self.fault is not None:
            self.fault(sql)
        return self.real.execute(sql, params)

    def commit(self) -> None:
        self.statements += 1
        if self.fault is not None:
            self.fault("COMMIT")
        self.real.commit()

    def rollback(self) -> None:
        self.real.rollback()

    def close(self) -> None:
        self.real.close()


def raised(code: int, name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(name)
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return error


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[SqliteStore]:
    opened = await open_store(sqlite_url)
    assert isinstance(opened, SqliteStore)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture(autouse=True)
def groups_are_not_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shares a group is decided by who arrived together, not by how busy this machine is."""
    monkeypatch.setattr(sqlite, "GROUP_S_MAX", 60.0)


@pytest.fixture
def disk(store: SqliteStore) -> FaultyConnection:
    """The store's writer, in the hands of the test."""
    faulty = FaultyConnection(store._writer)  # noqa: SLF001  # the place where a real disk would fail
    store._writer = faulty  # type: ignore[assignment]  # noqa: SLF001  # quacks like the connection it wraps
    return faulty


@pytest.fixture
def on_disk(store: SqliteStore) -> Iterator[Callable[[], set[str]]]:
    """What another process would find in the file."""
    other = sqlite3.connect(store.path)

    def read() -> set[str]:
        return {row[0] for row in other.execute("SELECT resource FROM leases")}

    yield read
    other.close()


async def member(store: SqliteStore, *names: str) -> None:
    """Write one row after another in one transaction."""
    async with store.write(SYSTEM, Fences()) as tx:
        for name in names:
            leases.create(tx, [Resource(name)])
            await tx.now()


async def outcome_of(write: asyncio.Task[None]) -> type[BaseException] | None:
    await asyncio.wait({write})
    error = write.exception()
    return None if error is None else type(error)


async def group(store: SqliteStore, *members: tuple[str, ...]) -> list[type[BaseException] | None]:
    """Send members at once, so that they share a group, and return how each ended."""
    writes = [asyncio.create_task(member(store, *names)) for names in members]
    return [await outcome_of(write) for write in writes]


# --- members of a group ----------------------------------------------------------------------------------------------


async def test_members_that_arrive_together_share_one_commit(store: SqliteStore, disk: FaultyConnection) -> None:
    assert await group(store, ("a",), ("b",), ("c",)) == [None, None, None]

    assert disk.ran.count("BEGIN IMMEDIATE") == 1
    assert disk.ran.count("SAVEPOINT member") == 3


async def test_a_refused_member_leaves_the_others_standing(store: SqliteStore, on_disk: Callable[[], set[str]]) -> None:
    async def refused() -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            leases.create(tx, [Resource("refused")])
            raise LeaseLost("not yours")

    before = asyncio.create_task(member(store, "before"))
    middle = asyncio.create_task(refused())
    after = asyncio.create_task(member(store, "after"))

    assert [await outcome_of(one) for one in (before, middle, after)] == [None, LeaseLost, None]
    assert on_disk() == {"before", "after"}


async def test_nobody_is_answered_before_the_commit_returned(store: SqliteStore) -> None:
    answered: list[str] = []

    async def refused() -> None:
        try:
            async with store.write(SYSTEM, Fences(named=(Fence(Resource("nothing"), 1),))):
                pass
        except LeaseLost:
            answered.append("refused")

    async def granted() -> None:
        await member(store, "granted")
        answered.append("granted")

    def nobody() -> None:
        assert not answered

    with points.calling("group.committed", nobody):
        await asyncio.gather(granted(), refused())

    assert sorted(answered) == ["granted", "refused"]


async def test_what_runs_after_commit_runs_before_the_answer_and_only_then(
    store: SqliteStore, disk: FaultyConnection
) -> None:
    happened: list[str] = []

    async def write(name: str) -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            leases.create(tx, [Resource(name)])
            tx.after_commit(lambda: happened.append(name))

    await write("first")
    assert happened == ["first"]

    disk.fault = _fail_commit
    with pytest.raises(Unknown):
        await write("second")
    assert happened == ["first"]


def _fail_commit(sql: str) -> None:
    if sql == "COMMIT":
        raise raised(IOERR, "disk I/O error")


async def test_a_member_that_awaits_something_else_fails(store: SqliteStore, on_disk: Callable[[], set[str]]) -> None:
    async def dawdle() -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            leases.create(tx, [Resource("dawdled")])
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)

    late, prompt = asyncio.create_task(dawdle()), asyncio.create_task(member(store, "prompt"))

    assert [await outcome_of(one) for one in (late, prompt)] == [Internal, None]
    assert on_disk() == {"prompt"}


async def test_a_write_inside_a_write_fails_instead_of_waiting_for_itself(
    store: SqliteStore, on_disk: Callable[[], set[str]]
) -> None:
    async def nested() -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            leases.create(tx, [Resource("outer")])
            await member(store, "inner")

    assert await outcome_of(asyncio.create_task(nested())) is Internal
    await member(store, "next")
    assert on_disk() == {"next"}


async def test_a_member_whose_caller_has_gone_is_rolled_back_and_holds_up_nobody(
    store: SqliteStore, on_disk: Callable[[], set[str]]
) -> None:
    async with points.held("member.begun") as door:
        gone = asyncio.create_task(member(store, "gone"))
        await door.reached()
        gone.cancel()
        await asyncio.wait({gone})
        await member(store, "next")

    assert on_disk() == {"next"}


async def test_a_member_that_gives_up_waiting_takes_no_turn(
    store: SqliteStore, on_disk: Callable[[], set[str]]
) -> None:
    async with points.held("member.begun") as door:
        first = asyncio.create_task(member(store, "first"))
        await door.reached()
        waiting = asyncio.create_task(member(store, "waiting"))
        await asyncio.sleep(0)  # it joins the queue
        waiting.cancel()
        door.open()
        await first
        await member(store, "next")

    assert waiting.cancelled()
    assert on_disk() == {"first", "next"}


async def test_a_caller_that_leaves_while_the_group_commits_does_not_disturb_it(
    store: SqliteStore, on_disk: Callable[[], set[str]]
) -> None:
    staying = asyncio.create_task(member(store, "staying"))
    leaving = asyncio.create_task(member(store, "leaving"))

    def leave() -> None:
        leaving.cancel()

    with points.calling("group.committing", leave):
        await staying

    assert leaving.cancelled()
    assert on_disk() == {"staying", "leaving"}


# --- what the disk can do --------------------------------------------------------------------------------------------


async def test_a_full_disk_fails_the_member_it_stopped_and_nothing_of_it_is_on_disk(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]]
) -> None:
    pages = disk.real.execute("PRAGMA page_count").fetchone()[0]
    disk.real.execute(f"PRAGMA max_page_count = {pages}")
    large = tuple(f"large-{i}-{'x' * 150}" for i in range(300))

    outcomes = await group(store, ("a",), large, ("c",))

    assert outcomes == [None, Unavailable, None]
    assert on_disk() == {"a", "c"}


async def test_a_full_disk_that_ends_the_transaction_fails_the_whole_group(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]]
) -> None:
    disk.fault = Trouble(disk, at=8, kind="full")

    outcomes = await group(store, ("a",), ("b",), ("c",))

    assert outcomes == [GroupEnded, GroupEnded, None], "the third is a group of its own"
    assert on_disk() == {"c"}


async def test_an_interrupted_statement_fails_the_whole_group(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]]
) -> None:
    def interrupt(sql: str) -> None:
        if "INSERT INTO leases" in sql:
            disk.real.set_progress_handler(lambda: 1, 1)

    disk.fault = interrupt
    outcomes = await group(store, ("a",), ("b",))
    disk.real.set_progress_handler(None, 0)
    disk.fault = None

    assert all(outcome is not None and issubclass(outcome, Unavailable) for outcome in outcomes)
    assert on_disk() == set()
    await member(store, "afterwards")
    assert on_disk() == {"afterwards"}


async def test_a_commit_that_failed_is_unknown_to_every_member_and_is_not_repeated(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]]
) -> None:
    commits = Counter[str]()

    def fail_commit(sql: str) -> None:
        commits[sql] += 1
        _fail_commit(sql)

    disk.fault = fail_commit
    assert await group(store, ("a",), ("b",)) == [Unknown, Unknown]
    disk.fault = None

    assert commits["COMMIT"] == 1
    assert on_disk() == set()


@pytest.mark.parametrize("code", [IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB])
async def test_a_group_that_cannot_begin_answers_all_who_wait_and_holds_no_lock(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]], code: int
) -> None:
    def fail_begin(sql: str) -> None:
        if sql == "BEGIN IMMEDIATE":
            raise raised(code, "cannot begin")

    disk.fault = fail_begin
    outcomes = await asyncio.wait_for(group(store, ("a",), ("b",)), 10)
    disk.fault = None

    assert None not in outcomes
    await asyncio.wait_for(member(store, "afterwards"), 10)
    assert on_disk() == {"afterwards"}


async def test_a_bug_in_the_pump_itself_reaches_the_callers(
    store: SqliteStore, on_disk: Callable[[], set[str]]
) -> None:
    with points.failing("group.committing", RuntimeError("a bug")):
        outcomes = await asyncio.wait_for(group(store, ("a",), ("b",)), 10)

    assert outcomes == [RuntimeError, RuntimeError]
    await asyncio.wait_for(member(store, "afterwards"), 10)
    assert on_disk() == {"afterwards"}


@dataclass
class Trouble:
    """One fault somewhere in a group: at which statement, of which kind."""

    disk: FaultyConnection
    at: int
    kind: str

    def __call__(self, sql: str) -> None:
        self.at -= 1
        if self.at != 0:
            return
        match self.kind:
            case "full":
                # As SQLite does when no statement journal can save it: all is rolled back, then the error.
                self.disk.real.rollback()
                raise raised(FULL, "database or disk is full")
            case "ioerr":
                raise raised(IOERR, "disk I/O error")
            case "interrupt":
                self.disk.real.rollback()
                raise raised(sqlite3.SQLITE_INTERRUPT, "interrupted")
            case "late":  # the statement happens, and its answer is an error
                if sql == "COMMIT":
                    self.disk.real.commit()
                raise raised(IOERR, "disk I/O error")
            case _:
                raise AssertionError(self.kind)


async def test_a_thousand_troubled_groups_answer_exactly_what_is_on_disk(
    store: SqliteStore, disk: FaultyConnection, on_disk: Callable[[], set[str]]
) -> None:
    chance = random.Random(42)  # noqa: S311  # the same troubles in every run
    seen = Counter[str]()
    expected: set[str] = set()

    for number in range(GROUPS):
        names = [f"g{number}-m{i}" for i in range(chance.randint(1, 4))]
        disk.fault = Trouble(disk, chance.randint(1, 18), chance.choice(["full", "ioerr", "interrupt", "late"]))

        outcomes = await group(store, *((name, f"{name}-b") for name in names))

        there = on_disk()
        for name, outcome in zip(names, outcomes, strict=True):
            both = {name, f"{name}-b"}
            assert both <= there or not both & there, "a member is whole or not at all"
            if outcome is None:
                assert both <= there, "answered, so on disk"
            elif outcome is Unknown:
                pass  # nobody knows, and nobody was told otherwise
            else:
                assert issubclass(outcome, Unavailable)
                assert not both & there, "said not to have happened, so not on disk"
            seen[outcome.__name__ if outcome is not None else "answered"] += 1
        assert expected <= there, "what was on disk stays"
        expected = there

    assert min(seen["answered"], seen["Unknown"], seen["Unavailable"] + seen["GroupEnded"]) > GROUPS // 40, seen


async def test_closing_does_not_wait_for_another_process_that_holds_the_lock(sqlite_url: str) -> None:
    """It may be stopped for ever; whoever waits for its turn is refused, and a later opener gets the lock as usual."""
    path = sqlite_path(sqlite_url)
    opened = await open_store(sqlite_url)
    with path.with_name(f"{path.name}.writer").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writing = asyncio.create_task(write_nothing(opened))
        await until_waiting(path)
        await asyncio.wait_for(opened.close(), 5)

        with pytest.raises(Unavailable):
            await writing
    again = await open_store(sqlite_url)
    await asyncio.wait_for(write_nothing(again), 5)
    await again.close()


async def write_nothing(store: Store) -> None:
    async with store.write(SYSTEM, Fences()):
        pass


async def until_waiting(path: Path) -> None:
    """Return once somebody holds the turnstile: only who waits for the writer's lock does."""
    with path.with_name(f"{path.name}.turnstile").open("rb") as turnstile:
        async with asyncio.timeout(5):
            while True:
                try:
                    fcntl.flock(turnstile, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                fcntl.flock(turnstile, fcntl.LOCK_UN)
                await asyncio.to_thread(lambda: None)
