"""A team's own transaction stands on a claim: it has the task until it commits, or it is refused (H25).

PostgreSQL only: SQLite keeps no functions, and a team's tables are not in our file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from batonpass.store import backup, postgres, restore
from batonpass.store.base import q
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, waits
from batonpass.testing.databases import PostgresCluster

pytestmark = pytest.mark.anyio

RECORD: Final = "incidents/inc-4471"
FIELD: Final = "remediation"
LEASE: Final = timedelta(seconds=300)
STALE: Final = "SP409"
FENCES: Final = {"version": "batonpass_require_fence", "epoch": "batonpass_require_fence_epoch"}
PAGE: Final = Path(__file__).parents[2] / "docs" / "howto" / "fence-your-own-tables.md"
INCIDENTS: Final = {
    "fields": {"status": {"type": "register"}, FIELD: {"type": "task", "lease": "300s"}},
    "roles": {"remediators": {"identities": ["agent:*", "person:*"], "read": ["*"], "write": ["*"], "claim": ["*"]}},
}
Raw = psycopg.AsyncConnection[tuple[Any, ...]]


@pytest.fixture
async def team(gathered_postgres: Gathered) -> AsyncIterator[Crew]:
    """Agents a1 and b1 with the class `incidents`, and a table of somebody's own beside."""
    async with crew(gathered_postgres, clock=ManualClock()) as gathered, raw(gathered_postgres.url) as own:
        applied = await gathered.send("ada", "PUT", "/v1/classes/incidents", INCIDENTS)
        assert applied.ok, applied
        await own.execute("CREATE TABLE refunds (invoice text)")
        yield gathered


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Raw]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


async def claim(team: Crew, who: str, **body: object) -> Answer:
    return await team.send(who, "PUT", f"/v1/records/{RECORD}/fields/{FIELD}/claim", body)


async def held(team: Crew, who: str = "a1", **body: object) -> dict[str, Any]:
    answer = await claim(team, who, **body)
    assert answer.ok, answer
    task: dict[str, Any] = answer.body
    return task


async def taken_over(team: Crew, who: str = "b1") -> dict[str, Any]:
    """Let the lease run out, and `who` have the task."""
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    return await held(team, who)


async def require(own: Raw, task: dict[str, Any], *, by: str = "version") -> None:
    """Ask in the transaction of `own` whether the claim of `task` stands."""
    query = f"SELECT {FENCES[by]}(%s, %s, %s)"
    await own.execute(query.encode(), (task["record"], task["field"], task[by]))


async def refund(url: str, task: dict[str, Any], *, by: str = "version") -> None:
    """Write into the team's own table, fenced."""
    async with await psycopg.AsyncConnection.connect(url) as own:
        await require(own, task, by=by)
        await own.execute("INSERT INTO refunds VALUES ('inv-1')")


async def refunds(url: str) -> int:
    async with raw(url) as own:
        row = await (await own.execute("SELECT count(*) FROM refunds")).fetchone()
    assert row is not None
    return int(row[0])


# --- what holds, and what does not -----------------------------------------------------------------------------------


async def test_what_is_written_under_a_claim_that_stands_is_committed(team: Crew) -> None:
    task = await held(team)

    for by in FENCES:
        await refund(team.url, task, by=by)

    assert await refunds(team.url) == len(FENCES)
    assert (await held(team))["version"] == task["version"], "the fence has changed nothing"


async def test_a_lapse_that_nobody_has_used_breaks_nothing(team: Crew) -> None:
    task = await held(team)
    team.server.store.clock.advance(2 * LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given

    await refund(team.url, task)

    assert await refunds(team.url) == 1


async def _released(team: Crew, task: dict[str, Any]) -> None:
    del task
    await held(team, lease_seconds=0)


async def _taken_over(team: Crew, task: dict[str, Any]) -> None:
    del task
    await taken_over(team)


async def _claimed_again(team: Crew, task: dict[str, Any]) -> None:
    del task
    await held(team, lease_seconds=0)
    await held(team)


async def _deleted(team: Crew, task: dict[str, Any]) -> None:
    del task
    deleted = await team.send("a1", "DELETE", f"/v1/records/{RECORD}")
    assert deleted.ok, deleted


async def _misread(team: Crew, task: dict[str, Any]) -> None:
    del team
    task["version"] += 1
    task["epoch"] += 1


async def _of_another_field(team: Crew, task: dict[str, Any]) -> None:
    del team
    task["field"] = "status"


async def _of_no_record(team: Crew, task: dict[str, Any]) -> None:
    del team
    task["record"] = "incidents/inc-never"


async def _of_a_node(team: Crew, task: dict[str, Any]) -> None:
    """A node's lease is at version 1 and epoch 1 too, and is none of a record."""
    assert (await team.verb("a1", "claim", "task-1")).epoch == 1
    task |= {"record": "task-1", "field": ""}


@pytest.mark.parametrize(
    "turn",
    [_released, _taken_over, _claimed_again, _deleted, _misread, _of_another_field, _of_no_record, _of_a_node],
)
async def test_what_does_not_stand_is_refused_and_nothing_is_written(
    team: Crew, turn: Callable[[Crew, dict[str, Any]], Awaitable[None]]
) -> None:
    task = await held(team)
    await turn(team, task)

    for by in FENCES:
        with pytest.raises(psycopg.Error) as refused:
            await refund(team.url, task, by=by)
        assert (by, refused.value.sqlstate) == (by, STALE)

    assert await refunds(team.url) == 0


async def test_a_null_is_an_error_and_no_fence(team: Crew) -> None:
    """A fence read from a row that is not there must not let everything through."""
    task = await held(team)

    for missing in ("record", "field", "version"):
        with pytest.raises(psycopg.errors.NullValueNotAllowed):
            await refund(team.url, {**task, missing: None})


async def test_a_renewal_breaks_the_fence_by_version_and_not_the_one_by_epoch(team: Crew) -> None:
    task = await held(team)
    await held(team, renew=True)

    with pytest.raises(psycopg.Error) as refused:
        await refund(team.url, task)
    await refund(team.url, task, by="epoch")

    assert refused.value.sqlstate == STALE
    assert "name the version that was answered last, or fence by epoch" in str(refused.value.diag.message_hint)
    assert await refunds(team.url) == 1


async def test_a_refusal_says_what_was_named_where_the_task_is_whose_it_is_and_what_to_do(team: Crew) -> None:
    task = await held(team)
    now = await taken_over(team)

    with pytest.raises(psycopg.Error) as refused:
        await refund(team.url, task, by="epoch")

    told = refused.value.diag
    assert told.message_primary == f"the fence on {RECORD}#{FIELD} is stale: it names epoch 1, and the task is at 2"
    assert told.message_detail == f"The task is agent-b1's, at version {now['version']} and epoch 2."
    assert told.message_hint == "The task is lost: stop, and write nothing."


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_a_transaction_with_an_older_view_is_not_fooled_by_it(team: Crew, level: str) -> None:
    task = await held(team)
    async with raw(team.url) as own:
        await own.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        await own.execute("SELECT count(*) FROM refunds")
        await taken_over(team)

        with pytest.raises(psycopg.errors.SerializationFailure):
            await require(own, task)
        await own.execute("ROLLBACK")


# --- against a takeover, statement by statement ----------------------------------------------------------------------

STEPS: Final = ("BEGIN", "require", "INSERT", "COMMIT")


async def step(own: Raw, which: str, task: dict[str, Any]) -> None:
    match which:
        case "require":
            await require(own, task)
        case "INSERT":
            await own.execute("INSERT INTO refunds VALUES ('inv-1')")
        case _:
            await own.execute(which.encode())


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
async def test_a_takeover_between_any_two_statements_comes_after_the_commit_or_the_write_does_not(
    team: Crew, done: int
) -> None:
    task = await held(team)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    async with raw(team.url) as own:
        for which in STEPS[:done]:
            await step(own, which, task)
        takeover = asyncio.create_task(claim(team, "b1"))
        fenced = 1 < done < len(STEPS)
        if fenced:
            await waits(team, takeover)
        else:
            await takeover
        refused = None
        for which in STEPS[done:]:
            try:
                await step(own, which, task)
            except psycopg.Error as error:
                refused = error.sqlstate
                await own.execute("ROLLBACK")
                break

    taken = await takeover
    assert taken.body["took_over_from"] == "agent:agent-a1"
    assert (refused, await refunds(team.url)) == ((None, 1) if done > 1 else (STALE, 0))


@pytest.mark.parametrize("point", ["lease.locked", "commit.sent"])
async def test_a_fence_that_meets_a_takeover_under_way_waits_for_it_and_is_refused(team: Crew, point: str) -> None:
    task = await held(team)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    async with points.held(point) as door:
        takeover = asyncio.create_task(claim(team, "b1"))
        await door.reached()
        write = asyncio.create_task(refund(team.url, task))
        await waits(team, write)
        door.open()
        taken = await takeover
        with pytest.raises(psycopg.Error) as refused:
            await write

    assert (taken.status, refused.value.sqlstate, await refunds(team.url)) == (200, STALE, 0)


async def test_one_transaction_after_the_other_does_not_get_past_a_takeover_that_waits(team: Crew) -> None:
    """Why the row is locked for update: those who share a lock let each other in, and the takeover never."""
    task = await held(team)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    async with raw(team.url) as first:
        await first.execute("BEGIN")
        await require(first, task)
        takeover = asyncio.create_task(claim(team, "b1"))
        await waits(team, takeover)
        second = asyncio.create_task(refund(team.url, task))
        await until_so_many_wait(team.url, 2)
        await first.execute("COMMIT")

        taken = await takeover
        with pytest.raises(psycopg.Error) as refused:
            await second

    assert (taken.status, refused.value.sqlstate) == (200, STALE)


async def test_h25_a_transaction_left_open_holds_a_takeover_up_with_503_and_a_hint_and_renewals_too(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LIMITS", q("session.limits", lock_ms="50", statement_ms="20000", idle_ms="5000"))
    task = await held(team)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    async with raw(team.url) as own:
        await own.execute("BEGIN")
        await require(own, task)

        takeover = await claim(team, "b1")
        renewal = await claim(team, "a1", renew=True)
        await own.execute("ROLLBACK")

    assert [answer.status for answer in (takeover, renewal)] == [503, 503]
    assert takeover.body["error"] == "UNAVAILABLE"
    assert int(takeover.headers["retry-after"]) >= 1
    assert (await claim(team, "b1")).body["epoch"] == 2


async def test_a_savepoint_that_is_rolled_back_to_gives_the_task_free_as_the_page_says(team: Crew) -> None:
    task = await held(team)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    async with raw(team.url) as own:
        await own.execute("BEGIN")
        await own.execute("SAVEPOINT before")
        await require(own, task)
        await own.execute("ROLLBACK TO before")

        assert (await claim(team, "b1")).body["epoch"] == 2
        await own.execute("ROLLBACK")


async def until_so_many_wait(url: str, count: int) -> None:
    async with raw(url) as other, asyncio.timeout(points.WAIT_S_MAX):
        waiting = 0
        while waiting < count:
            found = await other.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            ((waiting,),) = await found.fetchall()


# --- who may ---------------------------------------------------------------------------------------------------------


@contextmanager
def role(url: str, *, granted: bool) -> Iterator[str]:
    """A role of a team's, that may write its own table, and call the functions if `granted`."""
    name = f"team_{url.rpartition('/')[2].partition('?')[0]}"
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(f"CREATE ROLE {name}".encode())
        own.execute(f"GRANT SELECT, INSERT ON refunds TO {name}".encode())
        if granted:
            own.execute(f"GRANT EXECUTE ON FUNCTION batonpass_require_fence(text, text, bigint) TO {name}".encode())
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as own:
            own.execute(f"DROP OWNED BY {name}".encode())
            own.execute(f"DROP ROLE {name}".encode())


async def test_nobody_may_call_it_who_was_not_granted_it(team: Crew) -> None:
    task = await held(team)
    with role(team.url, granted=False) as name:
        async with raw(team.url) as own:
            await own.execute(f"SET ROLE {name}".encode())

            for by in FENCES:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await require(own, task, by=by)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await own.execute("SELECT batonpass_lock_fence('a/b', 'c', 'version', 1)")


async def test_who_was_granted_it_needs_no_other_right_and_gets_none(team: Crew) -> None:
    task = await held(team)
    with role(team.url, granted=True) as name:
        async with raw(team.url) as own:
            await own.execute(f"SET ROLE {name}".encode())

            await require(own, task)

            for query in (b"SELECT * FROM leases", b"UPDATE leases SET version = 9"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await own.execute(query)


async def test_a_table_of_the_callers_own_does_not_stand_in_for_ours(team: Crew) -> None:
    task = await held(team)
    await taken_over(team)
    with role(team.url, granted=True) as name:
        async with raw(team.url) as own:
            await own.execute(f"SET ROLE {name}".encode())
            await own.execute(
                "CREATE TEMP TABLE leases (resource text, kind text, holder text, version int, epoch int)"
            )
            await own.execute(
                "INSERT INTO leases VALUES (%s, 'claim', 'me', %s, 1)", (f"record:{RECORD}#{FIELD}", task["version"])
            )
            await own.execute("SET search_path = pg_temp, public")

            with pytest.raises(psycopg.Error) as refused:
                await require(own, task)

    assert refused.value.sqlstate == STALE


# --- the whole database, and the page --------------------------------------------------------------------------------


async def test_a_restored_database_has_the_functions_and_none_of_the_old_claims(
    team: Crew, postgres: PostgresCluster, tmp_path: Path
) -> None:
    task = await held(team)
    async with raw(team.url) as own:
        await own.execute("DROP TABLE refunds")  # whose it is, is not in a backup of ours
    await asyncio.to_thread(backup.backup, team.url, tmp_path / "copy")
    name = postgres.create_database()
    try:
        await asyncio.to_thread(restore.restore, tmp_path / "copy", postgres.url(name))
        async with raw(postgres.url(name)) as own:
            for by in FENCES:
                with pytest.raises(psycopg.Error) as refused:
                    await require(own, task, by=by)
                assert refused.value.sqlstate == STALE
    finally:
        postgres.drop_database(name)


async def test_the_page_is_right_word_for_word(team: Crew) -> None:
    """The how-to's own statements and its own function, against a task that is lost on the way."""
    page = PAGE.read_text()
    fenced = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (once,) = [block for kind, block in fenced if kind == "sql" and "CREATE SCHEMA" in block]
    (program,) = [block for kind, block in fenced if kind == "python"]
    name = f"payments_agents_{team.url.rpartition('/')[2].partition('?')[0]}"  # roles are the whole server's
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102  # it is the page that is tested
    task = await held(team)
    with psycopg.connect(team.url) as own:
        own.execute(once.replace("payments_agents", name).encode())
    try:
        as_team = f"{team.url}&options=-c%20role%3D{name}"
        await asyncio.to_thread(names["refund"], as_team, task, "inv-1", 1200)
        await held(team, renew=True)
        await asyncio.to_thread(names["refund"], as_team, task, "inv-2", 300)
        await taken_over(team)

        with pytest.raises(psycopg.Error) as refused:
            await asyncio.to_thread(names["refund"], as_team, task, "inv-3", 7000)

        assert refused.value.sqlstate == STALE
        with psycopg.connect(team.url) as own:
            written = own.execute("SELECT invoice FROM payments.refunds ORDER BY 1").fetchall()
        assert written == [("inv-1",), ("inv-2",)]
    finally:
        with psycopg.connect(team.url, autocommit=True) as own:
            own.execute(f"DROP OWNED BY {name} CASCADE".encode())
            own.execute(f"DROP ROLE {name}".encode())
