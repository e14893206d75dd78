"""The feed as server-sent events: resumed where it was cut, alive while it is silent, over when its client is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from batonpass.server.http import events
from batonpass.server.services.feed import Feed
from batonpass.testing.callers import Caller, Message, calling
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
    """A client of a stream, block by block."""

    caller: Caller
    text: str = ""

    async def block(self) -> dict[str, str]:
        """Return the fields of the next block; a comment is the field without a name."""
        while "\n\n" not in self.text:
            self.text += (await self.caller.message()).get("body", b"").decode()
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
) -> AsyncIterator[tuple[Listener, Message]]:
    """Listen until the end of the block; also give the head of the answer."""
    async with calling(server, "GET", f"/v1/events?{query}", accept="text/event-stream", **headers) as caller:
        yield Listener(caller), await caller.message()


async def test_a_stream_tells_each_event_as_it_comes_with_its_position(server: InProcessServer) -> None:
    async with listening(server, "after=now&project=web") as (listener, head):
        await put(server, "task-a")
        await put(server, "task-b")
        first, second = await listener.event(), await listener.event()

    assert (head["status"], dict(head["headers"])[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
    assert [data["node"] for _, data in (first, second)] == ["task-a", "task-b"]
    assert first[0].endswith(f"-{first[1]['seq']}")


async def test_a_stream_that_was_cut_goes_on_behind_the_last_event_that_arrived(server: InProcessServer) -> None:
    async with listening(server) as (listener, _):
        await put(server, "task-a")
        position, _ = await listener.event()
    await put(server, "task-b", "task-c")

    async with listening(server, last_event_id=position) as (listener, _):
        again = [await listener.event() for _ in range(2)]

    assert [data["node"] for _, data in again] == ["task-b", "task-c"], "although the address still says now"


async def test_a_silent_stream_says_that_it_is_there_and_how_far_it_has_come(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.02)
    async with listening(server, "after=now&project=mail") as (listener, _):
        await listener.block()
        before = await listener.block()
        await put(server, "task-a")
        after = await listener.block()
        while after["id"] == before["id"]:
            after = await listener.block()

    assert before[""] == after[""] == "still here"


async def test_a_stream_ends_when_its_client_hangs_up_and_gives_its_place_back(server: InProcessServer) -> None:
    async with listening(server) as (listener, _):
        await until_waiting(server.services.feed)

        listener.caller.hang_up()
        await listener.caller.answered()

        assert server.services.feed.waiting == 0


async def test_a_stream_ends_properly_when_the_server_does(server: InProcessServer) -> None:
    async with listening(server) as (listener, _):
        await until_waiting(server.services.feed)

        server.services.feed.stop()
        await listener.caller.answered()

        assert listener.caller.rest()[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_stream_is_refused_before_it_begins(server: InProcessServer) -> None:
    async with listening(server, "after=000000000000-1") as (_, head):
        assert head["status"] == 410
    server.app.state.services = replace(server.services, feed=Feed(server.store, waits_max=0))
    async with listening(server) as (_, head):
        assert head["status"] == 429


async def test_a_stream_ends_with_its_token(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.02)
    token = await server.add_person("Rosa")
    async with calling(server, "GET", "/v1/events?after=now", token=token, accept="text/event-stream") as caller:
        listener, head = Listener(caller), await caller.message()
        await listener.block()
        (mine,) = (await server.ask("GET", "/v1/me/tokens", token=token))["tokens"]
        await server.ask("DELETE", f"/v1/admin/tokens/{mine['hash_prefix']}")

        while (last := await listener.block()).get("event") is None:
            pass
        await caller.answered()

    assert head["status"] == 200
    assert (last["event"], json.loads(last["data"])["error"]["code"]) == ("unauthorized", "unauthorized")
