"""One read for all who ask at the same moment: never one that began before they asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from batonpass.core.errors import Unavailable
from batonpass.server.services.looks import Looks

pytestmark = pytest.mark.anyio


class Shelf:
    """What is read: each read waits at a gate, and finds what is there once that is open."""

    def __init__(self) -> None:
        self.there = {"a": 1, "b": 1}
        self.reads: list[frozenset[str]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.looks = Looks(self.read)

    async def read(self, keys: frozenset[str]) -> Mapping[str, int]:
        found = {key: self.there[key] for key in keys if key in self.there}
        self.reads.append(keys)
        self.begun.set()
        await self.gate.wait()
        if "broken" in keys:
            raise Unavailable("no database")
        return found


async def test_all_who_ask_in_one_turn_share_a_read() -> None:
    shelf = Shelf()

    found = await asyncio.gather(*(shelf.looks.at({key}) for key in ("a", "b", "a", "c")))

    assert shelf.reads == [{"a", "b", "c"}]
    assert [(one.get("a"), one.get("c")) for one in found] == [(1, None)] * 4


async def test_who_asks_while_a_read_is_under_way_gets_what_the_next_one_finds() -> None:
    shelf = Shelf()
    shelf.gate.clear()
    early = asyncio.create_task(shelf.looks.at({"a"}))
    await shelf.begun.wait()
    shelf.there["a"] = 2
    late = [asyncio.create_task(shelf.looks.at({key})) for key in ("a", "b")]
    shelf.gate.set()

    assert (await early)["a"] == 1
    assert [dict(await one) for one in late] == [{"a": 2, "b": 1}] * 2
    assert shelf.reads == [{"a"}, {"a", "b"}]


async def test_a_read_that_fails_does_so_for_those_who_share_it_and_the_next_one_works() -> None:
    shelf = Shelf()

    failed = await asyncio.gather(shelf.looks.at({"a"}), shelf.looks.at({"broken"}), return_exceptions=True)

    assert [type(one) for one in failed] == [Unavailable, Unavailable]
    assert (await shelf.looks.at({"a"}))["a"] == 1


async def test_one_who_goes_away_takes_nothing_from_the_others() -> None:
    shelf = Shelf()
    shelf.gate.clear()
    gone, there = (asyncio.create_task(shelf.looks.at({key})) for key in ("a", "b"))
    await shelf.begun.wait()

    gone.cancel()
    shelf.gate.set()

    assert (await there)["b"] == 1
    assert shelf.reads == [{"a", "b"}]
