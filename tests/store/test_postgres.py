"""What only PostgreSQL can do to a transaction: lose its answer, stop, wait, lock, pool (D5, D44, D45)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pytest

from batonpass.core.clock import DatabaseClock
from batonpass.core.errors import Unavailable, Unknown
from batonpass.core.ids import Resource
from batonpass.store import leases, postgres, queries
from batonpass.store.base import SYSTEM, Fences, q
from batonpass.store.open import open_store
from batonpass.store.postgres import PostgresStore, open_pool, split_pooler
from batonpass.store.roundtrips import Connection
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, gather, until, waits
from batonpass.testing.databases import SETTINGS, PostgresCluster, postgres_cluster
from batonpass.testing.populated import contents
from batonpass.testing.proxy import Cut, CuttingProxy, cutting_proxy

pytestmark = pytest.mark.anyio

TTL: Final = timedelta(minutes=45)
Raw = psycopg.AsyncConnection[tuple[Any, ...]]


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Raw]:
    """A connection of somebody else's to the same database."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = await open_store(url)
    assert isinstance(store, PostgresStore)
    try:
        yield store
    finally:
        await store.close()


async def scalar(connection: Raw, query: str) -> Any:  # noqa: ANN401 — one value of any type
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row[0]


# --- H24: the answer to COMMIT is lost -------------------------------------------------------------------------------


@dataclass
class Cuttable:
    """The crew behind a proxy, and the URL around it."""

    team: Crew
    proxy: CuttingProxy
    url: str


@pytest.fixture
async def cuttable(gathered_postgres: Gathered, postgres: PostgresCluster) -> AsyncIterator[Cuttable]:
    name = gathered_postgres.url.rpartition("/")[2].partition("?")[0]
    with cutting_proxy(postgres.socket_dir) as proxy:
        through = Gathered(proxy.url(name), gathered_postgres.tokens)
        async with crew(through, clock=ManualClock()) as team:
            assert (await team.verb("a1", "renew", "task-6")).ok, "everybody is known, the pool is warm"
            proxy.commits = 0
            yield Cuttable(team, proxy, gathered_postgres.url)
            proxy.cut = Cut.NEVER


async def test_h24_a_claim_whose_commit_was_lost_is_unknown_and_is_not_repeated(cuttable: Cuttable) -> None:
    cuttable.proxy.cut = Cut.REQUEST
    before = contents(cuttable.url)

    answer = await cuttable.team.verb("a1", "claim", dispatch="u1")

    assert (answer.status, answer.code) == (503, "outcome_unknown")
    assert int(answer.headers["retry-after"]) >= 1
    assert cuttable.proxy.commits == 1
    assert contents(cuttable.url) == before


async def test_h24_a_claim_whose_answer_was_lost_is_unknown_and_stands_once(cuttable: Cuttable) -> None:
    cuttable.proxy.cut = Cut.ANSWER
    before = contents(cuttable.url)

    answer = await cuttable.team.verb("a1", "claim", dispatch="u1")

    assert (answer.status, answer.code) == (503, "outcome_unknown")
    assert cuttable.proxy.commits == 1
    after = contents(cuttable.url)
    assert len(after["events"]) == len(before["events"]) + 1
    cuttable.proxy.cut = Cut.NEVER
    again = await cuttable.team.verb("a1", "claim", dispatch="u1")
    assert again.epoch == 1, "the launcher asks again with its nonce, and is told of its own grant"


async def test_h24_a_write_of_the_graph_whose_answer_was_lost_is_done_once_and_repeatable(cuttable: Cuttable) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"type": "relates-to", "to": "task-2"}
    cuttable.proxy.cut = Cut.ANSWER
    lost = await cuttable.team.send("a1", "POST", "/v1/nodes/task-1/edges", body, headers=key)
    cuttable.proxy.cut = Cut.NEVER

    again = await cuttable.team.send("a1", "POST", "/v1/nodes/task-1/edges", body, headers=key)

    assert lost.code == "outcome_unknown"
    assert again.headers["idempotency-replayed"] == "true"
    assert len([row for row in contents(cuttable.url)["events"] if "node.edge_added" in row]) == 1


@pytest.fixture(scope="module")
def lonely_primary() -> Iterator[PostgresCluster]:
    """A PostgreSQL that waits for a standby which never comes, for whoever asks it to."""
    waiting = f"{SETTINGS}\nsynchronous_standby_names = 'nobody'\nsynchronous_commit = local\n"
    with postgres_cluster(waiting) as cluster:
        yield cluster


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_h24_a_commit_that_no_standby_confirmed_is_unknown(lonely_primary: PostgresCluster, end: str) -> None:
    url = lonely_primary.url(lonely_primary.create_database())
    await (await open_store(url)).close()
    async with opened(f"{url}&options={quote('-c synchronous_commit=on')}") as store, raw(url) as other:

        async def write() -> None:
            async with store.write(SYSTEM, Fences()) as tx:
                leases.create(tx, [Resource("task-1")])

        async def waits_for_the_standby() -> bool:
            return bool(await scalar(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

        writing = asyncio.create_task(write())
        await until(waits_for_the_standby)
        await other.execute(f"SELECT {end}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        await asyncio.wait({writing})

        assert isinstance(writing.exception(), Unknown), writing.exception()
        assert await scalar(other, "SELECT count(*) FROM leases") == 1, "it stands here, and nowhere else"


async def end_idle_transactions(other: Raw) -> None:
    # Of this test's own database: others run beside it on the same server.
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE state = 'idle in transaction' AND datname = current_database()"
    )


async def test_h24_a_transaction_that_was_ended_before_its_commit_has_not_happened(gathered_postgres: Gathered) -> None:
    async with opened(gathered_postgres.url) as store, raw(gathered_postgres.url) as other:

        async def write() -> None:
            async with store.write(SYSTEM, Fences()) as tx:
                leases.create(tx, [Resource("task-never")])
                await tx.now()
                await end_idle_transactions(other)
                await tx.now()

        with pytest.raises(Unavailable) as refused:
            await write()

        assert not isinstance(refused.value, Unknown)
        assert await scalar(other, "SELECT count(*) FROM leases WHERE resource = 'task-never'") == 0
        async with store.write(SYSTEM, Fences()) as tx:
            await tx.now()


async def test_a_read_whose_connection_was_lost_is_503_and_the_next_one_is_not(gathered_postgres: Gathered) -> None:
    async with opened(gathered_postgres.url) as store, raw(gathered_postgres.url) as other:

        async def read() -> None:
            async with store.read() as tx:
                await tx.now()
                await end_idle_transactions(other)
                await tx.now()

        with pytest.raises(Unavailable):
            await read()
        async with store.read() as tx:
            assert await tx.now() > 0


# --- H25: a transaction that stopped ---------------------------------------------------------------------------------


async def test_h25_a_stopped_transaction_of_ours_holds_a_lease_up_for_its_own_limit_only(
    gathered_postgres: Gathered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LIMITS", q("session.limits", lock_ms="10000", statement_ms="20000", idle_ms="200"))
    clock = ManualClock()
    async with crew(gathered_postgres, clock=clock, servers=2) as team:
        await team.verb("a1", "claim")
        run = await team.mint("a1", "task-1", 1)
        clock.advance(TTL)
        async with points.held("fence.checked") as stopped:
            write = asyncio.create_task(team.verb(run, "priority", priority="p1"))
            await stopped.reached()
            takeover = await team.verb("b1", "claim", at=1)
            stopped.open()

        assert takeover.epoch == 2
        assert (await write).status == 503
        assert "node.priority" not in str(contents(team.url)["events"])
        assert (await team.verb("b1", "priority", priority="p2")).ok, "the pool has recovered"


async def test_h25_every_write_limits_its_own_waits(gathered_postgres: Gathered) -> None:
    async with opened(gathered_postgres.url) as store, store.write(SYSTEM, Fences()) as tx:
        await tx.now()
        settings = {
            name: await scalar(tx._connection, f"SHOW {name}")  # type: ignore[attr-defined]  # noqa: SLF001  # its own
            for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        }

    assert settings == {
        "lock_timeout": "6s",
        "statement_timeout": "20s",
        "idle_in_transaction_session_timeout": "5s",
    }


async def test_h25_a_lock_that_is_never_given_up_is_503_with_a_hint(
    gathered_postgres: Gathered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LIMITS", q("session.limits", lock_ms="50", statement_ms="20000", idle_ms="5000"))
    async with crew(gathered_postgres, clock=ManualClock()) as team, raw(gathered_postgres.url) as other:
        await other.execute("BEGIN")
        await other.execute("SELECT 1 FROM leases WHERE resource = 'task-1' FOR UPDATE")

        answer = await team.verb("a1", "claim")

        assert (answer.status, answer.code) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        await other.execute("ROLLBACK")
        assert (await team.verb("a1", "claim")).epoch == 1


# --- the clock is read after the lock (case 2, H26) ------------------------------------------------------------------


@pytest.fixture
async def on_real_time(postgres_url: str) -> AsyncIterator[Crew]:
    """The crew on the database's own clock, with leases of a second."""
    gathered = Gathered(postgres_url, await gather(postgres_url, clock=DatabaseClock()))
    async with crew(gathered, clock=DatabaseClock(), servers=2) as team:
        await team.send("ada", "PUT", "/v1/policy/*", {"claim_ttl_ms": 1000})
        yield team


@asynccontextmanager
async def locked_beyond_expiry(team: Crew) -> AsyncIterator[Raw]:
    """Hold task-1's row locked until its lease is over; the caller waits behind it meanwhile."""
    async with raw(team.url) as other:
        await other.execute("BEGIN")
        await other.execute("SELECT 1 FROM leases WHERE resource = 'task-1' FOR UPDATE")
        yield other
        await until(lambda: _is_over(other))
        await other.execute("COMMIT")


async def _is_over(other: Raw) -> bool:
    return bool(
        await scalar(
            other,
            "SELECT expires_at + 50000 < extract(epoch FROM clock_timestamp()) * 1000000 FROM leases"
            " WHERE resource = 'task-1'",
        )
    )


async def test_case_2_a_claimer_that_waited_behind_a_lock_beyond_the_ttl_gets_a_full_lease(on_real_time: Crew) -> None:
    team = on_real_time
    assert (await team.verb("a1", "claim")).epoch == 1
    async with locked_beyond_expiry(team):
        claim = asyncio.create_task(team.verb("b1", "claim", at=1))
        await waits(team, claim, at=1)
    answer = await claim
    async with raw(team.url) as other:
        now_ms = await scalar(other, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")

    assert answer.epoch == 2
    assert answer.body["expires_in_ms"] == 1000
    assert 0 < answer.lease["expires"] - now_ms <= 1000, "counted from after the wait"


async def test_case_2_a_claimer_that_waited_behind_a_renewal_is_refused_with_what_it_is_now(on_real_time: Crew) -> None:
    team = on_real_time
    await team.verb("a1", "claim")
    async with raw(team.url) as other:
        await other.execute("BEGIN")
        await other.execute("SELECT 1 FROM leases WHERE resource = 'task-1' FOR UPDATE")
        claim = asyncio.create_task(team.verb("b1", "claim", at=1))
        await waits(team, claim, at=1)
        await other.execute("UPDATE leases SET expires_at = expires_at + 3600000000, version = version + 1")
        await other.execute("COMMIT")

    answer = await claim
    assert (answer.code, answer.holder) == ("already_claimed", "agent-a1")
    assert answer.body["holder"]["expires"] == (await team.row()).expires_at // 1000  # type: ignore[operator]  # it is held


async def test_case_2_a_claimer_that_waited_for_another_claim_of_its_own_gets_a_full_lease(on_real_time: Crew) -> None:
    """How much a holder has is counted under a lock; the clock is read behind that one too."""
    team = on_real_time
    async with raw(team.url) as other:
        await other.execute("BEGIN")
        await other.execute("SELECT pg_advisory_xact_lock(hashtextextended('agent-b1', 0))")
        claim = asyncio.create_task(team.verb("b1", "claim"))
        await waits(team, claim)
        began = await scalar(other, "SELECT clock_timestamp()")
        await until(lambda: _is_long_ago(other, began))
        await other.execute("COMMIT")
        answer = await claim
        now_ms = await scalar(other, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")

    assert answer.body["expires_in_ms"] == 1000
    assert 0 < answer.lease["expires"] - now_ms <= 1000, "counted from after the wait"


async def _is_long_ago(other: Raw, moment: datetime) -> bool:
    return bool(
        await scalar(other, f"SELECT clock_timestamp() > '{moment.isoformat()}'::timestamptz + interval '1.1 s'")
    )


@pytest.mark.parametrize("reclaim", [True, False])
async def test_h26_a_renewal_that_waited_beyond_the_expiry_is_never_told_of_time_that_has_passed(
    on_real_time: Crew,
    reclaim: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    team = on_real_time
    await team.verb("a1", "claim")
    async with locked_beyond_expiry(team):
        beat = asyncio.create_task(team.verb("a1", "renew", at=1, if_epoch=1, reclaim=reclaim))
        await waits(team, beat, at=1)
    answer = await beat

    if reclaim:
        assert (answer.epoch, answer.body["expires_in_ms"], answer.body["reclaimed"]) == (1, 1000, True)
    else:
        assert answer.code == "lease_lost"


async def test_with_a_clock_read_before_the_lock_the_claimer_is_refused_a_lease_that_is_over(
    on_real_time: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule switched off: time stands still from the beginning of the transaction."""
    of_the_transaction = {
        name: replace(query, sql=query.sql.replace("clock_timestamp()", "transaction_timestamp()"))
        for name, query in queries.load("postgres").items()
    }
    monkeypatch.setattr(queries, "load", lambda _: of_the_transaction)
    team = on_real_time
    assert (await team.verb("a1", "claim")).epoch == 1
    async with locked_beyond_expiry(team):
        claim = asyncio.create_task(team.verb("b1", "claim", at=1))
        await waits(team, claim, at=1)

    assert (await claim).code == "already_claimed"


# --- time zones (case 152) -------------------------------------------------------------------------------------------


ZONES: Final = ["UTC", "America/New_York", "Asia/Kolkata"]


async def a_working_day(team: Crew, clock: ManualClock) -> list[Answer]:
    """A little of everything, over the night in which New York's clocks are set back."""
    answers = []
    for _ in range(8):
        answers += [
            await team.verb("a1", "claim"),
            await team.verb("b1", "claim"),
            await team.verb("a1", "extend", ms=7_200_000),
            await team.verb("a1", "reserve", "task-2"),
            await team.send("a1", "GET", "/v1/leases"),
            await team.verb("a1", "release"),
        ]
        clock.advance(timedelta(minutes=50))
    return answers


async def test_case_152_nothing_depends_on_the_time_zone_of_the_session(postgres_url: str) -> None:
    evening = datetime(2026, 11, 1, 3, tzinfo=UTC)
    tokens = await gather(postgres_url, clock=ManualClock(evening))
    days = {}
    for zone in ZONES:
        clock = ManualClock(evening)
        gathered = Gathered(f"{postgres_url}&options={quote(f'-c TimeZone={zone}')}", tokens)
        async with crew(gathered, clock=clock) as team:
            days[zone] = [(answer.status, answer.body) for answer in await a_working_day(team, clock)]
            await team.verb("ada", "release", "task-2", reason="the next zone")

    assert len(days["UTC"]) == 48
    assert [shape(day) for day in days.values()] == [shape(days["UTC"])] * 3
    shown = [body["lease"]["expires_at"] for _, body in days["Asia/Kolkata"] if "lease" in body]
    assert {moment[-6:] for moment in shown} == {"+00:00"}


def shape(day: list[tuple[int, Any]]) -> list[tuple[int, Any, Any]]:
    """Return what must be equal in every zone: all but the epochs, which go on from one day to the next."""
    return [(status, body.get("expires_in_ms"), body.get("lease", {}).get("expires_at")) for status, body in day]


async def test_case_152_the_databases_clock_is_the_same_instant_in_every_zone(postgres_url: str) -> None:
    readings = []
    for zone in ZONES:
        url = f"{postgres_url}&options={quote(f'-c TimeZone={zone}')}"
        async with opened(url) as store, store.read() as tx:
            readings.append(await tx.now())

    assert readings == sorted(readings)
    assert readings[-1] - readings[0] < 60_000_000


async def test_case_152_sqlites_clock_is_the_same_instant_in_every_zone(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []
    for zone in ZONES:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        store = await open_store(sqlite_url)
        async with store.read() as tx:
            readings.append(await tx.now())
        await store.close()
    monkeypatch.delenv("TZ")
    time.tzset()

    assert readings == sorted(readings)
    assert abs(readings[-1] - time.time() * 1_000_000) < 60_000_000


# --- pools (case 156, case 158) --------------------------------------------------------------------------------------


@asynccontextmanager
async def pooled(gathered: Gathered, *, most: int, clock: ManualClock) -> AsyncIterator[Crew]:
    """The crew over a store with a pool of `most` connections."""
    async with crew(gathered, clock=clock) as team:
        store = team.server.store
        assert isinstance(store, PostgresStore)
        ample = store._writers  # noqa: SLF001  # a setting of the store's own, made small
        store._writers = await open_pool(gathered.url, most=most)  # noqa: SLF001
        try:
            yield team
        finally:
            await store._writers.close()  # noqa: SLF001
            store._writers = ample  # noqa: SLF001


async def everything(team: Crew, clock: ManualClock) -> list[Answer]:
    """Every verb that writes, once."""
    answers = [
        await team.verb("a1", "claim", dispatch="u1", session="s1"),
        await team.verb("a1", "renew", if_epoch=1),
        await team.verb("a1", "extend", ms=1000),
    ]
    run = await team.mint("a1", "task-1", 1)
    answers += [
        await team.verb(run, "priority", priority="p1"),
        await team.verb(run, "claim", "task-2"),
        await team.verb(run, "status", "task-2", status="active"),
        await team.verb(run, "edges", type="relates-to", to="task-3"),
        await team.queue(run, "renew"),
        await team.queue(run, "release"),
        await team.revoke("a1", run, of="a1"),
        await team.verb("a1", "reserve"),
        await team.queue("b1", "next", accept="open"),
        await team.queue("b1", "claim", ids=["task-3", "task-4"]),
        await team.send("b1", "GET", "/v1/queue"),
        await team.send("b1", "GET", "/v1/leases"),
        await team.queue("b1", "release", reservations=True),
    ]
    clock.advance(timedelta(hours=49))
    return [*answers, await team.verb("b2", "claim"), await team.verb("b2", "release")]


async def test_case_156_nothing_takes_a_second_connection_while_it_holds_one(gathered_postgres: Gathered) -> None:
    clock = ManualClock()
    async with pooled(gathered_postgres, most=1, clock=clock) as team:
        answers = await everything(team, clock)

    assert [answer.body for answer in answers if not answer.ok] == []


async def test_case_156_an_exhausted_pool_is_503_within_seconds_and_recovers(
    gathered_postgres: Gathered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "POOL_WAIT_S_MAX", 0.2)
    async with pooled(gathered_postgres, most=2, clock=ManualClock()) as team:
        store = team.server.store
        async with store.write(SYSTEM, Fences()) as first, store.write(SYSTEM, Fences()) as second:
            await first.now()
            await second.now()
            assert (await team.send("a1", "GET", "/v1/nodes/task-1")).ok, "readers have connections of their own"
            answers = await asyncio.gather(*(team.verb("a1", "claim", task) for task in ("task-1", "task-2", "task-3")))
        after = await asyncio.gather(*(team.verb("a1", "claim", f"task-{n}") for n in range(1, 7) for _ in range(5)))

    assert {answer.status for answer in answers} == {503}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert {answer.status for answer in after} == {200}


async def test_a_connection_whose_pipeline_broke_is_not_used_again(gathered_postgres: Gathered) -> None:
    """A statement behind the error is not prepared, though it was sent to be."""
    asked = q("leases.policies")
    async with opened(gathered_postgres.url) as store:
        await store._writers.close()  # noqa: SLF001  # for one with one connection, which everybody gets
        store._writers = small = await open_pool(gathered_postgres.url, most=1)  # noqa: SLF001
        async with store.read() as tx:
            await tx.fetch(q("leases.list", holder=None, project=None, state=None, now=0, after="", most=1))
        with pytest.raises(psycopg.DataError):
            async with store.read() as tx:
                await tx.fetch(q("leases.of", resources="no JSON"), asked)

        async with store.read() as tx:
            assert await tx.fetch(asked) == [[]]
        assert small.get_stats()["pool_size"] == 1


class FreshConnections:
    """A pool that gives every transaction another connection, as a transaction-mode pooler may.

    It is not such a pooler: there is none to install from a package. It shows
    that nothing is expected to outlive a transaction, and with the URL's
    ``pooler=transaction`` that nothing is prepared; what a pooler does to the
    protocol is not tested.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.made = 0
        self.prepared: set[str] = set()

    async def getconn(self, timeout: float) -> Connection:  # noqa: ASYNC109  # the pool's own signature
        del timeout
        self.made += 1
        connection = await Connection.connect(self._url, autocommit=True)
        connection.prepare_threshold = None
        return connection

    async def putconn(self, connection: Connection) -> None:
        if not connection.closed:
            cursor = await connection.execute("SELECT name FROM pg_prepared_statements")
            self.prepared |= {row[0] for row in await cursor.fetchall()}
        await connection.close()


async def test_case_158_every_transaction_may_have_another_connection(gathered_postgres: Gathered) -> None:
    clock = ManualClock()
    async with crew(gathered_postgres, clock=clock) as team:
        store = team.server.store
        assert isinstance(store, PostgresStore)
        ample, fresh = (store._writers, store._readers), FreshConnections(gathered_postgres.url)  # noqa: SLF001
        store._writers = store._readers = fresh  # type: ignore[assignment]  # noqa: SLF001  # quacks like a pool
        answers = await everything(team, clock)
        store._writers, store._readers = ample  # noqa: SLF001

    assert [answer.body for answer in answers if not answer.ok] == []
    assert fresh.made > len(answers)
    assert fresh.prepared == set()


async def test_case_158_a_pooler_in_the_url_turns_prepared_statements_off(gathered_postgres: Gathered) -> None:
    clock = ManualClock()
    through = Gathered(f"{gathered_postgres.url}&pooler=transaction", gathered_postgres.tokens)
    async with crew(through, clock=clock) as team:
        for _ in range(3):
            await team.verb("a1", "renew")
        store = team.server.store
        assert isinstance(store, PostgresStore)
        async with store._writers.connection() as connection:  # noqa: SLF001
            assert await scalar(connection, "SELECT count(*) FROM pg_prepared_statements") == 0


@pytest.mark.parametrize(
    "url, kept, pooled",
    [
        ("postgresql://h/db", "postgresql://h/db", False),
        ("postgresql://h/db?pooler=transaction", "postgresql://h/db", True),
        (
            "postgresql://h/db?options=-c%20TimeZone%3DUTC&pooler=transaction&host=%2Ftmp",
            "postgresql://h/db?options=-c%20TimeZone%3DUTC&host=%2Ftmp",
            True,
        ),
    ],
)
def test_a_url_reaches_the_driver_as_it_was_but_for_our_own_option(url: str, kept: str, *, pooled: bool) -> None:
    assert split_pooler(url) == (kept, pooled)
