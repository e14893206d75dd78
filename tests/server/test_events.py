"""The feed through its door: what happened, in order, page by page, waited for, and as a stream (D15a)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_waiting

pytestmark = pytest.mark.anyio

NODE = {"type": "task", "summary": "To do", "date": "2026-06-01"}


async def put(server: InProcessServer, *ids: str, project: str = "web") -> None:
    nodes = [{**NODE, "id": id_, "title": id_, "project": project} for id_ in ids]
    reply = await server.ask("POST", "/v1/nodes", {"nodes": nodes})
    assert all(result["ok"] for result in reply["results"]), reply


async def read(server: InProcessServer, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await server.ask("GET", f"/v1/events?{asked}")


def nodes_of(reply: Any) -> list[str]:  # noqa: ANN401 — a reply as JSON
    return [event["node"] for event in reply["events"]]


async def test_the_feed_tells_what_happened_by_whom_and_in_which_order(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]

    await put(server, "task-a")
    await server.ask("POST", "/v1/nodes/task-a/claim", {"session": "s-1"})
    await server.ask("POST", "/v1/nodes/task-a/release")
    told = await read(server, after=start)

    assert [event["kind"] for event in told["events"]] == ["node.put", "lease.claimed", "lease.released"]
    put_, claimed, _ = told["events"]
    assert (put_["node"], put_["project"], put_["actor"]) == ("task-a", "web", server.admin.id)
    assert put_["at"] == "2026-06-01T12:00:00.000+00:00"
    assert (claimed["epoch"], claimed["session"], claimed["data"]) == (1, "s-1", {})
    seqs = [event["seq"] for event in told["events"]]
    assert seqs == sorted(set(seqs))
    assert not told["more"]
    assert (await read(server, after=told["next"]))["events"] == []


async def test_a_wait_is_answered_by_the_next_event_of_its_topic(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    waiting = asyncio.create_task(read(server, after=start, wait=30, project="web", kind="node"))
    await until_waiting(server.services.feed)

    await put(server, "task-other", project="mail")
    await put(server, "task-mine")

    assert nodes_of(await waiting) == ["task-mine"]


async def test_a_wait_that_nothing_ends_answers_empty_with_a_position_to_go_on_from(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    waiting = asyncio.create_task(read(server, after=start, wait=1, project="web"))
    await until_waiting(server.services.feed)

    await put(server, "task-other", project="mail")
    answer = await waiting

    assert answer["events"] == []
    assert answer["next"] != start
