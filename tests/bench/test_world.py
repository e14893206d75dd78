"""The made-up graph: the same each time, whole on either database, and judged as the server judges it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from batonpass.core.ids import HolderId, Instant, PersonId
from batonpass.core.nodes import validate
from batonpass.server.services.identity import bootstrap
from batonpass.store.check import check
from batonpass.store.open import open_store
from bench.bulk import Unlike, fill
from bench.world import CELL, Made, World

NOW = Instant(1_790_000_000_000_000)


AUTHOR = PersonId(HolderId("person-bench"))


def world(author: PersonId = AUTHOR) -> World:
    return World(20 * CELL, NOW, author, "Bench <bench@example.org>")


def test_a_world_is_the_same_each_time() -> None:
    assert list(world().made()) == list(world().made())


def test_what_a_world_is_made_of_may_be_stored() -> None:
    assert [finding for made in world().made() for finding in validate(made.node.authored)] == []


def test_held_items_are_of_every_project() -> None:
    made = {one.node.id: one.node.authored.project for one in world().made()}

    assert len(world().held(7)) <= 7
    assert {made[node] for node in world().held(20)} == set(made.values())


def test_a_filled_database_is_whole(database_url: str) -> None:
    filled = fill(database_url, world(founded(database_url)))

    assert filled.nodes == world().size
    assert check(database_url).findings == ()


def test_a_world_that_says_something_else_than_the_server_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = World.made

    def untrue(self: World) -> Iterator[Made]:
        for one in told(self):
            yield replace(one, candidate=replace(one.candidate, blocking=3)) if one.candidate is not None else one

    monkeypatch.setattr(World, "made", untrue)

    with pytest.raises(Unlike):
        fill(database_url, world(founded(database_url)))


def founded(url: str) -> PersonId:
    """Give a new database its first person, and return their id."""

    async def found() -> PersonId:
        store = await open_store(url)
        person, _ = await bootstrap(store, name="Bench", email="bench@example.org")
        await store.close()
        return person.id

    return asyncio.run(found())
