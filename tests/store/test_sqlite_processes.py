"""Two processes over one SQLite file: fair turns, a stopped one, a killed one (D42, D44; H25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from batonpass.core.errors import Unavailable
from batonpass.core.ids import Resource
from batonpass.store import leases, sqlite
from batonpass.store.base import SYSTEM, Fences
from batonpass.store.open import open_store
from batonpass.store.sqlite import SqliteStore
from batonpass.testing import points
from batonpass.testing.clock import SharedClock
from batonpass.testing.crew import Gathered
from batonpass.testing.processes import server_process

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(gathered_sqlite: Gathered) -> AsyncIterator[SqliteStore]:
    """A store in this process, beside the servers of the test."""
    opened = await open_store(gathered_sqlite.url)
    assert isinstance(opened, SqliteStore)
    try:
        yield opened
    finally:
        await opened.close()


async def write(store: SqliteStore, name: str) -> None:
    async with store.write(SYSTEM, Fences()) as tx:
        leases.create(tx, [Resource(name)])


def claim(url: str, gathered: Gathered) -> httpx.Response:
    headers = {"Authorization": f"Bearer {gathered.tokens['a1']}"}
    return httpx.post(f"{url}/v1/nodes/task-1/claim", json={}, headers=headers, timeout=60)


async def test_a_process_that_stopped_in_its_group_is_503_for_the_others_until_it_goes_on(
    store: SqliteStore, gathered_sqlite: Gathered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_WAIT_S_MAX", 0.2)
    paused, clock = tmp_path / "paused", SharedClock(tmp_path / "clock")
    with server_process(gathered_sqlite.url, clock=clock, points=f"group.opened:pause={paused}") as stopped:
        claiming = asyncio.create_task(asyncio.to_thread(claim, stopped.url, gathered_sqlite))
        await asyncio.to_thread(points.wait_paused, paused)

        with pytest.raises(Unavailable) as refused:
            await write(store, "while it is stopped")
        assert refused.value.retry_after_s >= 1

        await asyncio.to_thread(paused.unlink)
        assert (await claiming).status_code == httpx.codes.OK
        await write(store, "when it has gone on")


async def test_a_process_that_is_killed_in_its_group_frees_its_turn_at_once(
    store: SqliteStore, gathered_sqlite: Gathered, tmp_path: Path
) -> None:
    paused, clock = tmp_path / "paused", SharedClock(tmp_path / "clock")
    with server_process(gathered_sqlite.url, clock=clock, points=f"group.opened:pause={paused}") as stopped:
        claiming = asyncio.create_task(asyncio.to_thread(claim, stopped.url, gathered_sqlite))
        await asyncio.to_thread(points.wait_paused, paused)
        waiting = asyncio.create_task(write(store, "after it"))

        await asyncio.to_thread(stopped.kill)

        await asyncio.wait_for(waiting, 10)
        await asyncio.wait({claiming})
        assert isinstance(claiming.exception(), httpx.TransportError)


async def test_a_process_that_writes_without_pause_lets_another_have_its_turns(
    store: SqliteStore, gathered_sqlite: Gathered
) -> None:
    other = await open_store(gathered_sqlite.url)
    assert isinstance(other, SqliteStore)
    greedy_writes = 0

    async def be_greedy() -> None:
        nonlocal greedy_writes
        while True:
            await asyncio.gather(*(write(other, f"greedy-{greedy_writes}-{i}") for i in range(8)))
            greedy_writes += 1

    greedy = asyncio.create_task(be_greedy())
    for number in range(20):
        await asyncio.wait_for(write(store, f"modest-{number}"), 10)
    during = greedy_writes
    greedy.cancel()
    await asyncio.wait({greedy})
    await other.close()

    assert during <= 20 * 10, "a turn each, more or less"
