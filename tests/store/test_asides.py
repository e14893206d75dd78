"""Reads beside the event loop: they run elsewhere, few at once, and one that is broken off harms no other."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

import pytest

from batonpass.core.errors import Unavailable
from batonpass.store.base import Statement, q
from batonpass.store.open import open_store
from batonpass.store.sqlite import ASIDES_MAX, SqliteReader, SqliteStore

pytestmark = pytest.mark.anyio

COUNT: Final = q("schema.node_count")
WAIT_S_MAX: Final = 10.0


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[SqliteStore]:
    """A store over a fresh file: PostgreSQL computes in a process of its own."""
    opened = await open_store(sqlite_url)
    assert isinstance(opened, SqliteStore)
    try:
        yield opened
    finally:
        await opened.close()


async def test_statements_run_in_a_thread_that_is_not_the_loops(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    run = SqliteReader._run  # noqa: SLF001 — where it runs is what this is about

    def noted(self: SqliteReader, statement: Statement) -> sqlite3.Cursor:
        threads.append(threading.current_thread().name)
        return run(self, statement)

    monkeypatch.setattr(SqliteReader, "_run", noted)
    for _ in range(2):
        async with store.read_aside() as tx:
            assert await tx.fetch(COUNT) == [[(0,)]]

    assert threads == ["sqlite aside_0"] * 2, "one thread and one connection do for reads one after the other"


async def test_who_comes_when_all_are_busy_waits_for_the_first_to_leave(store: SqliteStore) -> None:
    async def look() -> int:
        async with store.read_aside() as tx:
            ((row,),) = await tx.fetch(COUNT)
            return int(row[0])

    async with AsyncExitStack() as others:
        for _ in range(ASIDES_MAX - 1):
            await others.enter_async_context(store.read_aside())
        async with store.read_aside():
            late = asyncio.create_task(look())
            done, _ = await asyncio.wait({late}, timeout=0)
            assert not done
        assert await asyncio.wait_for(late, WAIT_S_MAX) == 0


async def test_a_read_that_is_broken_off_lets_go_and_the_next_works(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    run = SqliteReader._run  # noqa: SLF001 — see above

    def slow(self: SqliteReader, statement: Statement) -> sqlite3.Cursor:
        begun.set()
        go_on.wait(WAIT_S_MAX)
        return run(self, statement)

    async def look() -> None:
        async with store.read_aside() as tx:
            await tx.fetch(COUNT)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteReader, "_run", slow)
        task = asyncio.create_task(look())
        await asyncio.to_thread(begun.wait, WAIT_S_MAX)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    await look()
    async with AsyncExitStack() as all_:
        for _ in range(ASIDES_MAX):
            await asyncio.wait_for(all_.enter_async_context(store.read_aside()), WAIT_S_MAX)


async def test_an_error_of_the_database_is_ours_and_any_other_its_own(store: SqliteStore) -> None:
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorcode = sqlite3.SQLITE_IOERR
    with pytest.raises(Unavailable):
        async with store.read_aside():
            raise failed
    with pytest.raises(KeyError):
        async with store.read_aside():
            raise KeyError

    async with store.read_aside() as tx:
        assert await tx.fetch(COUNT) == [[(0,)]]
