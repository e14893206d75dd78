"""The feed as server-sent events: resumed where it was cut, alive while it is silent, over when its client is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from batonpass.server.http import events
from batonpass.server.services.feed import Feed
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_waiting

pytestmark = pytest.mark.anyio

NODE = {"type": "task", "summary": "To do", "date": "2026-06-01", "project": "web"}


async def put(server: InProcessServer, *ids: str) -> None:
    nodes = [{**NODE, "id": id_, "title": id_} for id_ in ids]
    reply = await server.ask("POST", "/v1/nodes", {"nodes": nodes})
    assert all(result["ok"] for result in reply["results"]), reply


@dataclass
class Listener:
    """A client of a stream, which reads what the application sends and may hang up."""

    sent: asyncio.Queue[MutableMapping[str, Any]] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    asked: bool = False
    text: str = ""

    async def receive(self) -> MutableMapping[str, Any]:
        if not self.asked:
            self.asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.sent.put(message)

    async def start(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(10):
            return await self.sent.get()

    async def block(self) -> dict[str, str]:
        """Return the fields of the next block; a comment is the field without a name."""
        async with asyncio.timeout(10):
            while "\n\n" not in self.text:
                self.text += (await self.sent.get()).get("body", b"").decode()
        block, _, self.text = self.text.partition("\n\n")
        pairs = (line.partition(": ") for line in block.split("\n"))
        return {name.removeprefix(":").strip(): value for name, _, value in pairs}

    async def event(self) -> tuple[str, Any]:
        """Return the position and the data of the next event, passing over what is none."""
        while "data" not in (block := await self.block()):
            pass
        return block.get("id", ""), json.loads(block["data"])


@asynccontextmanager
async def listening(
    server: InProcessServer, query: str = "after=now", **headers: str
) -> AsyncIterator[tuple[Listener, asyncio.Task[None]]]:
    listener = Listener()
    sent = {"accept": "text/event-stream", "authorization": f"Bearer {server.admin_token}", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/events",
        "raw_path": b"/v1/events",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
        "server": ("baton.test", 80),
        "client": None,
    }
    answering = asyncio.create_task(server.app(scope, listener.receive, listener.send))
    try:
        yield listener, answering
    finally:
        listener.gone.set()
        async with asyncio.timeout(10):
            await answering


async def test_a_stream_tells_each_event_as_it_comes_with_its_position(server: InProcessServer) -> None:
    async with listening(server, "after=now&project=web") as (listener, _):
        head = await listener.start()
        await put(server, "task-a")
        await put(server, "task-b")
        first, second = await listener.event(), await listener.event()

    assert (head["status"], dict(head["headers"])[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
    assert [data["node"] for _, data in (first, second)] == ["task-a", "task-b"]
    assert first[0].endswith(f"-{first[1]['seq']}")


async def test_a_stream_that_was_cut_goes_on_behind_the_last_event_that_arrived(server: InProcessServer) -> None:
    async with listening(server) as (listener, _):
        await listener.start()
        await put(server, "task-a")
        position, _ = await listener.event()
    await put(server, "task-b", "task-c")

    async with listening(server, last_event_id=position) as (listener, _):
        await listener.start()
        again = [await listener.event() for _ in range(2)]

    assert [data["node"] for _, data in again] == ["task-b", "task-c"], "although the address still says now"


async def test_a_silent_stream_says_that_it_is_there_and_how_far_it_has_come(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.02)
    async with listening(server, "after=now&project=mail") as (listener, _):
        await listener.start()
        await listener.block()
        before = await listener.block()
        await put(server, "task-a")
        after = await listener.block()
        while after["id"] == before["id"]:
            after = await listener.block()

    assert before[""] == after[""] == "still here"


async def test_a_stream_ends_when_its_client_hangs_up_and_gives_its_place_back(server: InProcessServer) -> None:
    async with listening(server) as (listener, answering):
        await listener.start()
        await until_waiting(server.services.feed)

        listener.gone.set()
        async with asyncio.timeout(10):
            await answering

        assert server.services.feed.waiting == 0


async def test_a_stream_ends_properly_when_the_server_does(server: InProcessServer) -> None:
    async with listening(server) as (listener, answering):
        await listener.start()
        await until_waiting(server.services.feed)

        server.services.feed.stop()
        async with asyncio.timeout(10):
            await answering

        messages = [listener.sent.get_nowait() for _ in range(listener.sent.qsize())]
        assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_stream_is_refused_before_it_begins(server: InProcessServer) -> None:
    async with listening(server, "after=000000000000-1") as (listener, _):
        assert (await listener.start())["status"] == 410
    server.app.state.services = replace(server.services, feed=Feed(server.store, waits_max=0))
    async with listening(server) as (listener, _):
        assert (await listener.start())["status"] == 429
