"""`next` for an item to which something happened between two looks at it (D15, D41)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.server.test_queue import put, take, task

from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_in_line

pytestmark = pytest.mark.anyio


@pytest.fixture
async def seven(server: InProcessServer) -> str:
    return await server.add_agent("seven")


@pytest.mark.parametrize(
    "what, said",
    [
        ({"id": "dec-d", "type": "decision", "edges": [{"type": "resolves", "to": "task-a"}]}, "resolved or retired"),
        ({"id": "repo-demo", "type": "repo", "status": "archived"}, "archived with its project demo"),
    ],
)
async def test_a_repeated_call_for_what_has_no_work_any_more_is_refused_with_the_way_out(
    server: InProcessServer, seven: str, what: dict[str, object], said: str
) -> None:
    await put(server, task("a"))
    await take(server, seven, dispatch="u1")
    await put(server, {"title": "T", "summary": "S", **what}, ready=False)

    again = await server.send("POST", "/v1/queue/next", {"dispatch": "u1"}, token=seven)

    assert again.status_code == 409
    error = again.json()["error"]
    assert error["code"] == "not_ready"
    assert error["message"].startswith("task-a, which this launch has claimed, ")
    assert said in error["message"]
    assert error["message"].endswith("; release it")


async def test_a_repeated_call_for_what_was_put_to_sleep_says_until_when(
    server: InProcessServer, seven: str, clock: ManualClock
) -> None:
    await put(server, task("a"))
    await take(server, seven, dispatch="u1")
    stored = await server.ask("GET", "/v1/nodes/task-a")
    asleep = {"node": task("a", wake="2026-06-09"), "if_exists": "update", "revision": stored["revision"]}
    await server.ask("POST", "/v1/nodes", {"nodes": [asleep]})
    clock.advance(timedelta(seconds=30))

    again = await server.send("POST", "/v1/queue/next", {"dispatch": "u1"}, token=seven)

    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_ready")
    assert "sleeps until 2026-06-09" in again.json()["error"]["message"]
    held = (await server.ask("GET", "/v1/nodes/task-a"))["lease"]
    assert held["epoch"] == 1, "the refusal has changed nothing"


async def test_an_item_that_is_deleted_between_two_looks_is_passed_over(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"), task("b"))
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)
    await server.ask("POST", "/v1/nodes/task-a/reserve", {}, token=seven)  # so that the call is answered by itself
    async with points.held("next.chosen") as in_a_set:
        taking = asyncio.create_task(take(server, seven))
        await in_a_set.reached()
    async with points.held("next.chosen") as alone:
        await alone.reached()
        await server.ask("DELETE", "/v1/nodes/task-a", {"reason": "a mistake", "force": True})

    assert (await taking)["item"]["id"] == "task-b"


async def test_a_launch_that_asks_again_is_not_kept_waiting_behind_another_of_its_agent(
    server: InProcessServer, seven: str
) -> None:
    await put(server, task("a"))
    await take(server, seven, dispatch="u1")
    other = asyncio.create_task(take(server, seven, dispatch="u2", wait=60))
    await until_in_line(server.services.lines)
    await put(server, task("b", type="question"))  # so that the other is known to find nothing
    await until_tried(server)

    async with asyncio.timeout(10):
        again = await take(server, seven, dispatch="u1", wait=60)

    assert again["item"]["id"] == "task-a"
    server.services.feed.stop()
    assert (await other)["status"] == "empty"


async def until_tried(server: InProcessServer) -> None:
    """Return once the line has found out that there is nothing for whoever stands in it."""
    ((line, _),) = server.services.lines._lines.values()  # noqa: SLF001 — nothing outside tells of it
    async with asyncio.timeout(10):
        while not line._missed:  # noqa: ASYNC110, SLF001 — see above
            await asyncio.sleep(0.001)
