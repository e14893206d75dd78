"""The line by itself: who is tried when."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pytest

from batonpass.core.ids import HolderId
from batonpass.server.services import lines
from batonpass.server.services.lines import MISSES_MAX, Line, Waiter

pytestmark = pytest.mark.anyio

WAITERS = MISSES_MAX + 12


@dataclass
class Standing:
    """A place of somebody who does not go."""

    over: bool = False


async def test_what_happens_while_the_line_rests_is_for_those_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PACE_S", 0)
    resting, go_on = asyncio.Event(), asyncio.Event()
    there: list[str] = []
    served: list[int] = []

    async def routed(holders: Collection[HolderId]) -> Collection[HolderId]:
        del holders
        resting.set()
        await go_on.wait()
        return ()

    def waiter(n: int) -> Waiter[str]:
        async def attempt() -> str | None:
            if not there:
                return None
            served.append(n)
            return there.pop()

        place: Any = Standing()
        return Waiter(HolderId(f"agent-{n}"), n, attempt, place)

    line: Line[str] = Line(routed)
    everybody = [waiter(n) for n in range(WAITERS)]
    for one in everybody:
        one.resting.set()
        line.join(one)
    line.hear()
    await asyncio.wait_for(resting.wait(), 10)

    there += ["a", "b", "c"]
    line.hear()
    go_on.set()
    await asyncio.wait_for(asyncio.gather(*(one.answer for one in everybody[:3])), 10)
    for one in everybody:
        line.leave(one)

    assert sorted(served) == [0, 1, 2]
