"""Sets: what waits together goes together, no key twice at a time, and nobody is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from batonpass.server.services.coalesce import FURTHER_SET_MIN, Alone, Coalescer

pytestmark = pytest.mark.anyio


class Database:
    """Answers an ask with itself, set by set, when a test lets a set go."""

    def __init__(self) -> None:
        self.under_way: list[tuple[list[str], asyncio.Event]] = []
        self.begun = asyncio.Condition()

    async def run_set(self, asks: Sequence[str]) -> list[str | Alone]:
        let_go = asyncio.Event()
        async with self.begun:
            self.under_way.append((list(asks), let_go))
            self.begun.notify_all()
        await let_go.wait()
        return list(asks)

    async def run_alone(self, ask: str) -> str:
        return f"{ask}, alone"

    async def sets(self, count: int) -> list[list[str]]:
        """Wait until so many sets have begun, and return what is in each."""
        async with self.begun, asyncio.timeout(5):
            await self.begun.wait_for(lambda: len(self.under_way) >= count)
        return [asks for asks, _ in self.under_way]

    def let_go(self, number: int) -> None:
        self.under_way[number][1].set()


@pytest.fixture
def database() -> Database:
    return Database()


MANY = [f"{number}" for number in range(FURTHER_SET_MIN)]


def key(ask: str) -> str:
    return ask.partition("-")[0]


def coalescer(database: Database, *, sets_max: int) -> Coalescer[str, str]:
    return Coalescer(database.run_set, database.run_alone, key=key, sets_max=sets_max)


async def test_what_comes_while_a_set_is_under_way_is_the_next_set(database: Database) -> None:
    queue = coalescer(database, sets_max=1)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.submit(["a"]))
        await database.sets(1)
        second, third = group.create_task(queue.submit(["b"])), group.create_task(queue.submit(MANY))
        database.let_go(0)

        assert await database.sets(2) == [["a"], ["b", *MANY]]
        database.let_go(1)

    assert (first.result(), second.result(), third.result()) == (["a"], ["b"], MANY)


async def test_many_are_a_set_beside_another_where_the_database_lets_them(database: Database) -> None:
    queue = coalescer(database, sets_max=2)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.submit(["a"]))
        await database.sets(1)
        second = group.create_task(queue.submit(MANY))

        assert await database.sets(2) == [["a"], MANY]
        database.let_go(1)
        assert await second == MANY
        assert not first.done()
        database.let_go(0)


async def test_few_wait_for_the_set_that_is_under_way(database: Database) -> None:
    queue = coalescer(database, sets_max=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.submit(["a"]))
        await database.sets(1)
        for asks in (MANY[1:], ["b"]):
            group.create_task(queue.submit(asks))
        assert await database.sets(2) == [["a"], [*MANY[1:], "b"]]
        few = group.create_task(queue.submit(["c"]))
        database.let_go(0)
        database.let_go(1)

        assert (await database.sets(3))[2] == ["c"]
        database.let_go(2)

    assert few.result() == ["c"]


async def test_a_key_is_in_one_set_at_a_time(database: Database) -> None:
    queue = coalescer(database, sets_max=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.submit(["a-1"]))
        await database.sets(1)
        again = group.create_task(queue.submit(["a-2", *MANY]))

        assert await database.sets(2) == [["a-1"], MANY]
        database.let_go(1)
        assert not again.done()
        database.let_go(0)

        assert (await database.sets(3))[2] == ["a-2"]
        database.let_go(2)

    assert again.result() == ["a-2", *MANY]


@pytest.mark.parametrize("sets_max", [1, 2])
async def test_whoever_comes_as_a_set_ends_is_not_forgotten(sets_max: int) -> None:
    async def at_once(asks: Sequence[int]) -> list[int | Alone]:
        return list(asks)

    async def alone(ask: int) -> int:
        return ask

    queue = Coalescer(at_once, alone, key=lambda ask: ask % 3, sets_max=sets_max)

    async def one_after_another(caller: int) -> list[int]:
        answers: list[int] = []
        for number in range(caller, 1000, 7):
            (answer,) = await queue.submit([number])
            assert isinstance(answer, int), answer
            answers.append(answer)
        return answers

    async with asyncio.timeout(20):
        answered = await asyncio.gather(*map(one_after_another, range(7)))

    assert sorted(number for numbers in answered for number in numbers) == list(range(1000))
