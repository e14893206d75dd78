"""What a server does that is nobody's request ends with the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from batonpass.server.app import keep_house
from batonpass.store.base import Store
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def test_a_house_whose_work_lost_its_cancellation_is_closed_all_the_same(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Python 3.12 a driver's wait may take its cancellation for its end, and the work goes on."""
    began = asyncio.Event()

    async def hard_of_hearing(store: Store) -> None:
        del store
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    monkeypatch.setattr("batonpass.server.services.ranking.keep_ranking", hard_of_hearing)
    house = asyncio.create_task(keep_house(server.store))
    async with asyncio.timeout(10):
        await began.wait()
    house.cancel()

    _, going = await asyncio.wait({house}, timeout=10)
    assert going == set()
    assert house.cancelled()


async def test_work_that_fails_ends_the_house_and_is_told(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(store: Store) -> None:
        del store
        raise RuntimeError("a bug")

    monkeypatch.setattr("batonpass.server.services.ranking.keep_ranking", broken)

    with pytest.raises(RuntimeError, match="a bug"):
        async with asyncio.timeout(10):
            await keep_house(server.store)
