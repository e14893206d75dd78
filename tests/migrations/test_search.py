"""The index of words comes to a graph that is there already: numbered by the migration, read by whoever serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from batonpass.server.app import keep_house
from batonpass.server.services import search as service
from batonpass.store import migrate, operations, search
from batonpass.store.base import Store
from batonpass.store.open import open_session, open_store
from batonpass.testing.populated import Populated, serving

pytestmark = pytest.mark.anyio

BEFORE: Final = [step.name.rpartition("_")[2] for step in migrate.known("sqlite")].index("search")
"""How many migrations there were without it."""
OLD: Final = (
    "INSERT INTO nodes (id, type, title, summary, body, revision, created_at, updated_at, born, dead, resolving,"
    " queueable, rank) VALUES ('{id}', 'task', '{title}', '', '', '', {at}, 0, 0, {no}, {no}, {no}, 9);"
)


def write_as_before(session: migrate.Session) -> None:
    """Write nodes as programs did that knew no index, not in the order of their ids."""
    no = "0" if session.dialect == "sqlite" else "false"
    for name, at in (("task-c", 1), ("task-a", 2), ("task-b", 2)):
        session.run_script(OLD.format(id=name, title=f"Fix {name[-1]}", at=at, no=no))


async def numbers(store: Store) -> list[str]:
    """Return the nodes of the index as they were filed."""
    async with store.read() as tx:
        (docs,) = await search.found(tx, ["'wfix'"], most=10)
        return [*await search.named(tx, docs[::-1])]


async def unread(store: Store) -> int:
    """Return how many nodes are missing in the index."""
    async with store.read() as tx:
        return await search.unread(tx, most=1000)


def forget_all(url: str) -> None:
    """Leave the index as the migration leaves it: every node has its number, and none has been read."""
    with open_session(url) as session, session.transaction():
        session.run_script("UPDATE search_nodes SET words = NULL, counts = NULL;")
        if session.dialect == "sqlite":
            session.run_script("INSERT INTO search_words (search_words) VALUES ('rebuild');")


async def test_nodes_that_were_there_are_numbered_by_age_and_read_by_a_server(
    database_url: str, knowing: Callable[[int], AbstractContextManager[None]]
) -> None:
    with knowing(BEFORE):
        operations.upgrade(database_url)
        with open_session(database_url) as session, session.transaction():
            write_as_before(session)
    store = await open_store(database_url)
    try:
        assert (await unread(store), await numbers(store)) == (3, [])

        await service.catch_up(store)

        assert (await unread(store), await numbers(store)) == (0, ["task-c", "task-a", "task-b"])
    finally:
        await store.close()


async def test_a_search_reads_what_is_missing_and_says_how_much_still_is(
    populated: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_all(populated.url)
    monkeypatch.setattr(service, "READ_AT_ONCE", 2)
    monkeypatch.setattr(service, "READ_BY_A_SEARCH_MAX", 2)

    async with serving(populated.url, clock=populated.fleet.clock(), token=populated.fleet.admin) as server:

        async def ask() -> Any:  # noqa: ANN401 — a reply as JSON
            return await server.ask("GET", "/v1/search?q=what+was+found")

        first = await ask()
        missing = await unread(server.store)
        last = first
        for _ in range(missing):
            last = await ask()

    assert missing > 2
    assert first["warnings"] == [
        f"{missing} nodes written before an upgrade are not in the index yet; the server is reading them"
    ]
    assert [item["id"] for item in last["items"]] == ["art-report"]
    assert "warnings" not in last


async def test_what_was_written_meanwhile_is_not_overwritten_by_what_was_read_late(populated: Populated) -> None:
    forget_all(populated.url)

    async with serving(populated.url, clock=populated.fleet.clock(), token=populated.fleet.admin) as server:
        known = await server.ask("GET", "/v1/nodes/art-report")
        node = {"id": "art-report", "type": "artifact", "title": "Renamed", "summary": "x", "date": "2026-06-01"}
        entry = {"node": node, "if_exists": "update", "revision": known["revision"]}
        await server.ask("POST", "/v1/nodes", {"nodes": [entry]})
        await service.catch_up(server.store)
        found = {word: (await server.ask("GET", f"/v1/search?q={word}"))["count"] for word in ("renamed", "what")}

    assert found == {"renamed": 1, "what": 0}


async def test_any_number_of_processes_read_it_together_each_node_once(
    populated: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_all(populated.url)
    monkeypatch.setattr(service, "READ_AT_ONCE", 1)
    stores = [await open_store(populated.url) for _ in range(3)]
    try:
        nodes = await unread(stores[0])
        read: list[int] = []
        some = search.read_some

        async def counted(*args: Any, **kwargs: Any) -> int:  # noqa: ANN401 — as it is called
            read.append(await some(*args, **kwargs))
            return read[-1]

        monkeypatch.setattr(search, "read_some", counted)
        await asyncio.gather(*(service.catch_up(store) for store in stores))
        assert await unread(stores[0]) == 0
    finally:
        for store in stores:
            await store.close()

    assert sum(read) == nodes


async def test_a_server_does_it_by_itself_when_it_starts(populated: Populated, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_all(populated.url)
    done = asyncio.Event()
    catch_up = service.catch_up

    async def noted(store: Store) -> None:
        await catch_up(store)
        done.set()

    monkeypatch.setattr("batonpass.server.app.catch_up", noted)
    store = await open_store(populated.url)
    house = asyncio.create_task(keep_house(store))
    try:
        await asyncio.wait_for(done.wait(), 30)
        assert await unread(store) == 0
    finally:
        house.cancel()
        await asyncio.wait([house])
        await store.close()
