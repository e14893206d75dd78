"""The bell: who waits is told after COMMIT, here and in other processes, and as seldom as will do (D15a)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, LiteralString

import psycopg
import pytest

from batonpass.core.ids import NodeId
from batonpass.store import events
from batonpass.store.base import SYSTEM, Fences, Store
from batonpass.store.bell import LOOK_DEAF_S, LOOK_S, Bell
from batonpass.store.open import open_store
from batonpass.store.postgres_bell import LISTEN, NOTIFY
from batonpass.testing.points import held

pytestmark = pytest.mark.anyio

COMMITS = 60
EVENT = events.Event("node.put", NodeId("task-1"), "web", SYSTEM)
TELLERS: Final[LiteralString] = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%pg_notify%' AND pid <> pg_backend_pid()
"""


@asynccontextmanager
async def opened(url: str, listen_url: str | None = None) -> AsyncIterator[Store]:
    store = await open_store(url, listen_url=listen_url)
    try:
        yield store
    finally:
        await store.close()


async def happen(store: Store) -> None:
    async with store.write(SYSTEM, Fences()) as tx:
        events.append(tx, [EVENT], at=await tx.now())


async def until_set(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()
    event.clear()


async def test_who_waits_is_told_once_the_commit_has_returned_and_not_before(postgres_url: str) -> None:
    told = asyncio.Event()
    async with opened(postgres_url) as store:
        with store.bell.heard(told.set):
            await until_set(told)  # others are heard from now on, so there may be something
            async with held("commit.returned") as door:
                writing = asyncio.create_task(happen(store))
                await door.reached()
                assert not told.is_set()
                door.open()
                await writing

    assert told.is_set()


async def test_what_is_rolled_back_rings_nobody(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []

    async def give_up(store: Store) -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            events.append(tx, [EVENT], at=await tx.now())
            raise ZeroDivisionError

    async with opened(database_url) as store:
        monkeypatch.setattr(store.bell, "ring", lambda: rung.append("rung"))
        with pytest.raises(ZeroDivisionError):
            await give_up(store)
        assert rung == []
        await happen(store)

    assert rung == ["rung"]


async def test_many_commits_are_one_notice_to_other_processes(postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as listener:
        await listener.execute(LISTEN)
        async with opened(postgres_url) as store:
            for _ in range(COMMITS):
                store.bell.ring()
        await listener.execute(NOTIFY, ["the end"])
        notices = 0
        async for notice in listener.notifies():
            if notice.payload == "the end":
                break
            notices += 1

    assert notices in (1, 2)


async def test_a_server_behind_a_pooler_listens_past_it_where_it_is_told_to(postgres_url: str) -> None:
    told, pooled = asyncio.Event(), f"{postgres_url}&pooler=transaction"
    async with opened(postgres_url) as other, opened(pooled, listen_url=postgres_url) as store:
        with store.bell.heard(told.set):
            await until_set(told)
            await happen(other)
            await until_set(told)
            assert store.bell.silence_s_max == LOOK_S
        assert other.bell.silence_s_max == LOOK_DEAF_S, "nobody listens where nobody waits"


async def test_a_connection_that_was_lost_is_made_anew_for_the_next_notice(postgres_url: str) -> None:
    told = asyncio.Event()
    async with opened(postgres_url) as other, opened(postgres_url) as store:
        with store.bell.heard(told.set):
            await until_set(told)
            await happen(other)
            await until_set(told)
            async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as killer:
                await killer.execute(TELLERS)
            await happen(other)  # this notice is lost with the connection: whoever waits looks by itself in a second
            await happen(other)
            while not told.is_set():
                await happen(other)


class HardOfHearing(Bell):
    """Takes its first cancellation for the end of a wait, as a driver may, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.over = asyncio.Event(), asyncio.Event()

    async def _listen(self) -> None:
        self.began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            self.over.set()


async def test_a_listener_that_lost_its_cancellation_is_over_when_the_bell_is_closed() -> None:
    bell = HardOfHearing()
    with bell.heard(lambda: None):
        await bell.began.wait()

        await bell.close()

        assert bell.over.is_set()


async def test_a_listener_that_lost_its_cancellation_goes_when_nobody_hears_any_more() -> None:
    bell = HardOfHearing()
    with bell.heard(lambda: None):
        await bell.began.wait()

    await asyncio.wait_for(bell.over.wait(), 10)
    await bell.close()
