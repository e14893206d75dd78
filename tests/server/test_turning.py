"""What the day alone changes in the index of the queue: heat that has cooled, and many that turn at once (D16)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.server.test_eligibility import ids, node, put

from batonpass.server.services import ranking
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import calling
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def test_next_does_not_take_for_hot_what_nobody_has_touched_for_weeks(
    server: InProcessServer, clock: ManualClock
) -> None:
    seven = await server.add_agent("seven", standing=True)
    await put(server, node("hot"), node("urgent", priority="p2"))
    for priority in ("p3", "none") * 8:  # heat of 16 is worth four points, p2 three
        await server.ask("POST", "/v1/nodes/task-hot/priority", {"priority": priority})
    assert await ids(server) == ["task-hot", "task-urgent"]
    clock.advance(timedelta(days=40))

    await ranking.note_turned(server.store)
    assert not await ranking.refresh(server.store)

    taken = await server.ask("POST", "/v1/queue/next", {"accept": "open"}, token=seven)
    assert taken["item"]["id"] == "task-urgent"


async def test_however_many_turn_on_one_day_a_server_derives_them_without_a_pause(
    server: InProcessServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "TURNED_MAX", 2)
    monkeypatch.setattr(ranking, "EVERY_S", 3600.0)
    await put(server, *(node(f"{n}", wake="2026-06-05") for n in range(7)))
    clock.advance(timedelta(days=5))

    done = asyncio.Event()
    with calling("rank.derived", done.set, nth=4):
        keeping = asyncio.create_task(ranking.keep_ranking(server.store))
        try:
            await asyncio.wait_for(done.wait(), timeout=20)
        finally:
            keeping.cancel()
