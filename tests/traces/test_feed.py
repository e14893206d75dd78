"""H15: the feed is complete and in order, whatever order its writers commit in (`feed-complete`, D15a)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, LiteralString

import httpx
import psycopg
import pytest

from batonpass.core.ids import NodeId
from batonpass.store import events, postgres
from batonpass.store.base import SYSTEM, Fences, Store
from batonpass.store.bell import LOOK_DEAF_S
from batonpass.store.events import Event
from batonpass.testing.clock import ManualClock, SharedClock
from batonpass.testing.crew import Gathered
from batonpass.testing.points import held
from batonpass.testing.populated import serving
from batonpass.testing.processes import server_process
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_waiting

pytestmark = pytest.mark.anyio

WRITERS, ROUNDS = 8, 60
ROLLED_BACK_OF_TEN, PAUSED_OF_TEN, LET_GO_OF_TEN = 1, 6, 3
INSERT: Final[LiteralString] = """
INSERT INTO events (at, kind, node, project, actor) VALUES (0, 'node.put', %s, 'mail', 'person-ada-admin') RETURNING seq
"""
OTHERS: Final[LiteralString] = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
LISTENERS: Final[LiteralString] = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'
"""


class RolledBack(Exception):
    """A writer gives up after it has drawn its number."""


class Pauses:
    """Holds writers between drawing a number and committing, and lets them go in another order, never holding all."""

    def __init__(self, chance: random.Random, writers: int) -> None:
        self.chance = chance
        self.writers = writers
        self.held: list[asyncio.Event] = []

    async def maybe(self) -> None:
        """Hold this writer until others have committed."""
        if len(self.held) < self.writers - 1 and self.chance.randrange(10) < PAUSED_OF_TEN:
            mine = asyncio.Event()
            self.held.append(mine)
            await mine.wait()

    def committed(self) -> None:
        """Perhaps let one of those who are held go on, any of them."""
        if self.held and self.chance.randrange(10) < LET_GO_OF_TEN:
            self.let_go()

    def finished(self) -> None:
        """One writer fewer, who might have let the others go."""
        self.writers -= 1
        while len(self.held) >= max(self.writers, 1):
            self.let_go()

    def let_go(self) -> None:
        """Let one of those who are held go on."""
        self.held.pop(self.chance.randrange(len(self.held))).set()


async def write(store: Store, name: str, pauses: Pauses, *, rounds: int = ROUNDS, each: int = 1) -> None:
    """Write a node's events, so many in each transaction, some of which are rolled back."""
    for n in range(rounds):
        with suppress(RolledBack):
            async with store.write(SYSTEM, Fences()) as tx:
                numbers = range(n * each, (n + 1) * each)
                happened = [Event("node.put", NodeId(name), "mail", SYSTEM, data={"n": number}) for number in numbers]
                events.append(tx, happened, at=await tx.now())
                await tx.fetch()  # the number is drawn
                await pauses.maybe()
                if pauses.chance.randrange(10) < ROLLED_BACK_OF_TEN:
                    raise RolledBack
        pauses.committed()
    pauses.finished()


async def follow(server: InProcessServer, after: str, done: asyncio.Event) -> list[tuple[int, str, int]]:
    """Read the feed by waiting until the writers are done and there is no more."""
    seen: list[tuple[int, str, int]] = []
    while True:
        was_done = done.is_set()
        page = await server.ask("GET", f"/v1/events?after={after}&wait=1&limit=50")
        seen += [(event["seq"], event["node"], event["data"]["n"]) for event in page["events"]]
        after = page["next"]
        if was_done and not page["events"]:
            return seen


@asynccontextmanager
async def replicas(gathered: Gathered, many: int) -> AsyncIterator[list[InProcessServer]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(serving(gathered.url, clock=ManualClock(), token=gathered.tokens["ada"]))
            for _ in range(many)
        ]


async def read(server: InProcessServer, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("GET", "/v1/events?" + "&".join(f"{name}={value}" for name, value in query.items()))


async def test_h15_readers_of_two_replicas_get_each_event_once_and_in_order(gathered_postgres: Gathered) -> None:
    """Writers pause between drawing a number and committing; one in ten is rolled back.

    On PostgreSQL: SQLite's writers draw and commit one after the other (D42).
    """
    pauses, done = Pauses(random.Random(15), WRITERS), asyncio.Event()  # noqa: S311 — the same pauses each time
    async with replicas(gathered_postgres, 2) as (one, other):
        start = (await read(one, after="now"))["next"]
        readers = [asyncio.create_task(follow(server, start, done)) for server in (one, one, other, other)]
        await asyncio.gather(*(write((one, other)[n % 2].store, f"task-{n}", pauses) for n in range(WRITERS)))
        done.set()
        seen = await asyncio.gather(*readers)
        async with one.store.read() as tx:
            table = await events.events_after(tx, int(start.rpartition("-")[2]), most=10_000)

    expected = [(event.seq, event.node) for event in table]
    assert WRITERS * ROUNDS * 8 // 10 < len(expected) < WRITERS * ROUNDS
    for reader in seen:
        assert [(seq, node) for seq, node, _ in reader] == expected, "each once, in the order of the table"
        for name in {node for _, node, _ in reader}:
            happened = [n for _, node, n in reader if node == name]
            assert happened == sorted(set(happened)), "for one node, in the order in which it happened"


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A transaction of somebody's that has its id and has not drawn a number yet; rolled back unless committed."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        try:
            await connection.execute("SELECT pg_current_xact_id()")
            yield connection
        finally:
            await connection.rollback()


async def draw(connection: psycopg.AsyncConnection, node: str) -> int:
    row = await (await connection.execute(INSERT, [node])).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_number_drawn_by_the_later_transaction_id_is_waited_for(gathered_postgres: Gathered) -> None:
    """It is no lower than any id that has finished, so no bound on finished ids says that it is still at work."""
    url = gathered_postgres.url
    async with replicas(gathered_postgres, 1) as (server,), transaction(url) as earlier, transaction(url) as later:
        start = (await read(server, after="now"))["next"]
        first, second = await draw(later, "task-1"), await draw(earlier, "task-2")
        await earlier.commit()

        before = [await read(server, after=start) for _ in range(3)]
        waiting = asyncio.create_task(read(server, after=start, wait=30))
        await until_waiting(server.services.feed)
        await later.commit()
        async with asyncio.timeout(10):
            after = await waiting

    assert [page["events"] for page in before] == [[], [], []]
    assert [event["seq"] for event in after["events"]] == [first, second]


async def test_a_number_that_was_rolled_back_holds_nobody_up(gathered_postgres: Gathered) -> None:
    url = gathered_postgres.url
    async with replicas(gathered_postgres, 1) as (server,), transaction(url) as mine, transaction(url) as given_up:
        start = (await read(server, after="now"))["next"]
        waiting = asyncio.create_task(read(server, after=start, wait=30))
        await until_waiting(server.services.feed)
        await draw(given_up, "task-1")
        seq = await draw(mine, "task-2")
        await mine.commit()
        await given_up.rollback()

        async with asyncio.timeout(10):
            answer = await waiting

    assert [event["seq"] for event in answer["events"]] == [seq]


async def test_somebody_who_writes_no_events_holds_nobody_up(gathered_postgres: Gathered) -> None:
    """A gap is no matter of whoever has been at work for hours on something else, in this database or another."""
    url = gathered_postgres.url
    async with replicas(gathered_postgres, 1) as (server,), transaction(url) as _, transaction(url) as given_up:
        start = (await read(server, after="now"))["next"]
        await draw(given_up, "task-1")
        async with transaction(url) as mine:
            seq = await draw(mine, "task-2")
            await mine.commit()
        await read(server, after=start)  # the gap is seen
        await given_up.rollback()

        assert [event["seq"] for event in (await read(server, after=start))["events"]] == [seq]


async def test_a_feed_that_is_first_read_while_somebody_writes_begins_behind_them(gathered_postgres: Gathered) -> None:
    url = gathered_postgres.url
    async with replicas(gathered_postgres, 1) as (server,), transaction(url) as writer:
        seq = await draw(writer, "task-1")
        asking = asyncio.create_task(read(server, after="now"))
        reading = asyncio.create_task(read(server, kind="node.put", node="task-1", limit=500))
        await server.ask("GET", "/v1/me")  # others are answered meanwhile
        assert not asking.done()
        await writer.commit()

        async with asyncio.timeout(10):
            now, whole = (await asking)["next"], await reading

    assert int(now.rpartition("-")[2]) >= seq
    assert seq in [event["seq"] for event in whole["events"]]


async def test_what_commits_between_reading_and_looking_for_writers_is_not_passed_over(
    gathered_postgres: Gathered,
) -> None:
    """The gap is read once more after its writer is gone: in the first reading the event was not there yet."""
    url = gathered_postgres.url
    async with replicas(gathered_postgres, 1) as (server,), transaction(url) as late, transaction(url) as early:
        start = (await read(server, after="now"))["next"]
        first, second = await draw(late, "task-1"), await draw(early, "task-2")
        await early.commit()
        async with held("feed.read") as door:
            reading = asyncio.create_task(read(server, after=start))
            await door.reached()  # the second was read, the first was missing
            await late.commit()  # and nobody is writing any more
            door.open()
            seen = (await reading)["events"]
        seen += (await read(server, after=start if not seen else f"{start[:12]}-{seen[-1]['seq']}"))["events"]

    assert [event["seq"] for event in seen] == [first, second]


async def test_a_server_that_is_not_told_any_more_looks_by_itself(gathered_postgres: Gathered) -> None:
    async with replicas(gathered_postgres, 2) as (one, other):
        start = (await read(one, after="now"))["next"]
        waiting = asyncio.create_task(read(one, after=start, wait=30))
        await until_waiting(one.services.feed)
        async with await psycopg.AsyncConnection.connect(gathered_postgres.url, autocommit=True) as connection:
            await until_listening(connection)
            await connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS l")

        await other.ask("POST", "/v1/nodes/task-1/claim")
        async with asyncio.timeout(10):
            answer = await waiting

    assert [event["kind"] for event in answer["events"]] == ["lease.claimed"]


async def test_a_server_whose_connections_are_all_lost_goes_on(gathered_postgres: Gathered) -> None:
    async with replicas(gathered_postgres, 1) as (server,):
        start = (await read(server, after="now"))["next"]
        waiting = asyncio.create_task(read(server, after=start, wait=30))
        await until_waiting(server.services.feed)
        async with await psycopg.AsyncConnection.connect(gathered_postgres.url, autocommit=True) as connection:
            await until_listening(connection)
            await connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({OTHERS}) AS o")

        async with asyncio.timeout(20):
            while not (await server.send("POST", "/v1/nodes/task-1/claim", {})).is_success:
                pass
            answer = await waiting

    assert [event["node"] for event in answer["events"]] == ["task-1"]


async def test_a_server_behind_a_pooler_hears_by_looking_often(gathered_postgres: Gathered) -> None:
    pooled = replace(gathered_postgres, url=f"{gathered_postgres.url}&pooler=transaction")
    async with replicas(pooled, 2) as (one, other):
        assert one.store.bell.silence_s_max == LOOK_DEAF_S
        start = (await read(one, after="now"))["next"]
        waiting = asyncio.create_task(read(one, after=start, wait=30))
        await until_waiting(one.services.feed)

        await other.ask("POST", "/v1/nodes/task-1/claim")
        async with asyncio.timeout(10):
            assert [event["node"] for event in (await waiting)["events"]] == ["task-1"]


async def test_two_processes_over_one_file_hear_of_each_other(gathered_sqlite: Gathered, tmp_path: Path) -> None:
    """SQLite: by a counter in the file (D42); the other process is a real one."""
    clock = SharedClock(tmp_path / "clock")
    with server_process(gathered_sqlite.url, clock=clock) as other:
        async with replicas(gathered_sqlite, 1) as (one,):
            start = (await read(one, after="now"))["next"]
            waiting = asyncio.create_task(read(one, after=start, wait=30))
            await until_waiting(one.services.feed)
            async with httpx.AsyncClient(base_url=other.url) as there:
                headers = {"Authorization": f"Bearer {gathered_sqlite.tokens['ada']}"}
                claimed = await there.post("/v1/nodes/task-1/claim", json={}, headers=headers)
            async with asyncio.timeout(10):
                answer = await waiting

    assert claimed.status_code == 200
    assert [event["kind"] for event in answer["events"]] == ["lease.claimed"]


async def test_case_156_those_who_wait_hold_no_connection(
    gathered_postgres: Gathered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred waits of each kind on pools of two, and thirty claims go through at once."""

    async def small_pools(url: str) -> tuple[postgres.Pool, postgres.Pool]:
        return await postgres.open_pool(url, most=2), await postgres.open_pool(url, most=2)

    monkeypatch.setattr(postgres, "open_pools", small_pools)
    async with replicas(gathered_postgres, 1) as (server,):
        start = (await read(server, after="now"))["next"]
        nobody = {"accept": "open", "project": "nowhere", "wait": 30}
        waits = [asyncio.create_task(server.ask("POST", "/v1/queue/next", nobody)) for _ in range(100)]
        waits += [asyncio.create_task(read(server, after=start, wait=30, project="nowhere")) for _ in range(100)]
        await until_waiting(server.services.feed, requests=200)
        nodes = [
            {"id": f"task-x{n}", "type": "task", "title": "x", "summary": "x", "project": "mail"} for n in range(30)
        ]
        await server.ask("POST", "/v1/nodes", {"nodes": nodes})

        claims = [server.send("POST", f"/v1/nodes/task-x{n}/claim", {}) for n in range(30)]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*claims)
            server.services.feed.stop()
            ended = await asyncio.gather(*waits)

    assert [answer.status_code for answer in answers] == [200] * 30
    assert [answer["status"] for answer in ended[:100]] == ["empty"] * 100
    assert all(answer["events"] == [] for answer in ended[100:])


async def until_listening(connection: psycopg.AsyncConnection, within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not (await (await connection.execute(LISTENERS)).fetchall()):
            pass
