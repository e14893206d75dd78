"""The line by itself: who is tried when."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pytest

from batonpass.core.feed import StoredEvent
from batonpass.core.ids import HolderId, Instant
from batonpass.server.services import lines
from batonpass.server.services.lines import MISSES_MAX, Found, Launched, Line, Waiter
from batonpass.store.lines import Favoured

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

    async def favoured(holders: Collection[HolderId]) -> Favoured:
        del holders
        resting.set()
        await go_on.wait()
        return Favoured()

    def waiter(n: int) -> Waiter[str]:
        async def attempt() -> Found[str]:
            if not there:
                return Found(None)
            served.append(n)
            return Found(there.pop())

        place: Any = Standing()
        return Waiter(HolderId(f"agent-{n}"), n, attempt, place)

    line: Line[str] = Line(favoured)
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


async def test_who_sees_that_nothing_is_left_spares_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for who has something reserved, and who looks at something else."""
    monkeypatch.setattr(lines, "PACE_S", 0)
    tried: list[int] = []
    done = asyncio.Event()
    reserving, other = WAITERS - 1, WAITERS - 2

    async def favoured(holders: Collection[HolderId]) -> Favoured:
        return Favoured(reserving=frozenset(holders) & {HolderId(f"agent-{reserving}")})

    def waiter(n: int) -> Waiter[str]:
        async def attempt() -> Found[str]:
            tried.append(n)
            if {reserving, other} <= set(tried):
                done.set()
            return Found("the last" if n == 0 else None, rest=n == other)

        place: Any = Standing()
        one = Waiter(HolderId(f"agent-{n}"), n, attempt, place, part="others" if n == other else "all")
        one.tried = True
        return one

    line: Line[str] = Line(favoured)
    everybody = [waiter(n) for n in range(WAITERS)]
    for one in everybody:
        line.join(one)

    line.hear()
    await asyncio.wait_for(done.wait(), 10)
    for one in everybody:
        line.leave(one)

    assert set(tried) == {0, 1, other, reserving}, "the first of those who are left looks once more a little later"


def claimed(by: str, session: str) -> StoredEvent:
    return StoredEvent(
        seq=1,
        at=Instant(0),
        kind="lease.claimed",
        node="task-a",
        project=None,
        actor=by,
        owner=None,
        session=session,
        revision=None,
        epoch=1,
        data="{}",
    )


async def test_that_an_item_was_claimed_wakes_only_who_asks_for_that_claim() -> None:
    """Its first sending may have been answered where nobody heard it, at another server even."""
    tried: list[int] = []
    done = asyncio.Event()

    async def favoured(holders: Collection[HolderId]) -> Favoured:
        raise AssertionError(holders)

    def waiter(n: int, launch: Launched | None) -> Waiter[str]:
        async def attempt() -> Found[str]:
            tried.append(n)
            done.set()
            return Found("its own claim", rest=False)

        place: Any = Standing()
        one = Waiter(HolderId("agent-a"), n, attempt, place, part="all", launch=launch)
        one.tried = True
        return one

    line: Line[str] = Line(favoured)
    agent = HolderId("agent-a")
    everybody = [waiter(0, None), waiter(1, Launched(agent, "s2")), waiter(2, Launched(agent, "s1"))]
    for one in everybody:
        line.join(one)

    line.hear([claimed("agent-a", "s1")])
    await asyncio.wait_for(done.wait(), 10)
    await asyncio.wait_for(everybody[2].answer, 10)
    for one in everybody:
        line.leave(one)

    assert tried == [2]
