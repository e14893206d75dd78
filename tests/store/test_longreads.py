"""Reads that last: nobody's time limit cuts them, and they keep nobody waiting."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from batonpass.core.errors import Unavailable
from batonpass.core.nodes import Node
from batonpass.store import longreads, transfer
from batonpass.store.open import open_store
from batonpass.store.postgres import READERS_MAX
from batonpass.testing.crew import until
from batonpass.testing.populated import Populated

pytestmark = pytest.mark.anyio


async def test_a_limit_that_the_database_sets_on_idling_does_not_cut_a_long_read(
    populated_postgres: Populated,
) -> None:
    name = populated_postgres.url.partition("?")[0].rpartition("/")[2]
    async with await psycopg.AsyncConnection.connect(populated_postgres.url, autocommit=True) as other:
        await other.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '20ms'".encode())
        store = await open_store(populated_postgres.url)
        try:
            async with store.read() as short, store.read_long() as long:
                await short.now()
                count = await transfer.count(long, project=None)

                async def short_has_ended() -> bool:
                    found = await other.execute(
                        "SELECT count(*) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND state = 'idle in transaction'"
                    )
                    return await found.fetchone() == (1,)

                await until(short_has_ended)
                nodes = [found.node async for page in transfer.pages(long, project=None) for found in page]
                with pytest.raises(Unavailable):
                    await short.now()
        finally:
            await store.close()

    assert len(nodes) == count > 0
    assert all(isinstance(node, Node) for node in nodes)


async def test_long_reads_take_no_connection_from_short_ones(populated: Populated) -> None:
    store = await open_store(populated.url)
    try:
        async with AsyncExitStack() as stack:
            for _ in range(longreads.LONG_READS_MAX):
                await (await stack.enter_async_context(store.read_long())).now()
            for _ in range(READERS_MAX):
                await (await stack.enter_async_context(store.read())).now()
            with pytest.raises(Unavailable, match="exports are being read"):
                await stack.enter_async_context(store.read_long())
        async with store.read_long() as tx:
            assert await tx.now()
    finally:
        await store.close()


async def test_on_sqlite_a_long_read_runs_in_a_thread_of_its_own(
    populated_sqlite: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_in: set[str] = set()
    store = await open_store(populated_sqlite.url)

    def traced(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
        del read_only
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.set_trace_callback(lambda _: ran_in.add(threading.current_thread().name))
        return connection

    try:
        monkeypatch.setattr("batonpass.store.sqlite.connect", traced)
        async with store.read_long() as tx:
            ran_in.clear()
            assert await transfer.count(tx, project=None) > 0
    finally:
        await store.close()

    assert ran_in == {"sqlite long read_0"}
