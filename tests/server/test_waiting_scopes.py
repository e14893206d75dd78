"""Of what those hear who wait for a part of the queue, and that time set back hides nothing from them (D15)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.server.test_waiting import page, put, settled, take

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_in_line, until_waiting

pytestmark = pytest.mark.anyio


async def before_it_ends(waiting: asyncio.Task[Any]) -> Any:  # noqa: ANN401 — a reply as JSON
    """Return what a wait of a minute is answered with long before the minute is over."""
    return await asyncio.wait_for(waiting, timeout=20)


async def group(server: InProcessServer, *slugs: str) -> None:
    """Put repositories, all of one grouping."""
    under = {"edges": [{"type": "grouped-under", "to": "proj-suite"}]}
    nodes = [{"id": f"repo-{slug}", "type": "repo", "title": slug, "summary": slug, **under} for slug in slugs]
    await server.ask("POST", "/v1/nodes", {"nodes": nodes})


@pytest.mark.parametrize("asked", ["web", "proj-suite", "repo-mail"])
async def test_who_waits_for_a_grouping_hears_of_all_its_projects(server: InProcessServer, asked: str) -> None:
    await group(server, "web", "mail")
    await put(server, "task-a", project="mail")
    agent = await server.add_agent("seven")
    taking = asyncio.create_task(take(server, token=agent, project=asked, accept="ready", wait=30))
    await until_in_line(server.services.lines)

    await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"})

    assert (await taking)["item"]["id"] == "task-a"


async def test_a_page_of_a_grouping_is_answered_when_a_lease_of_any_of_its_projects_goes(
    server: InProcessServer,
) -> None:
    await group(server, "web", "mail")
    await put(server, "task-a", project="mail")
    rival = await server.add_person("Rosa")
    await server.ask("POST", "/v1/nodes/task-a/claim", token=rival)
    seq = await settled(server, project="web")
    waiting = asyncio.create_task(page(server, project="web", wait=60, after=seq))
    await until_waiting(server.services.feed)

    await server.ask("POST", "/v1/nodes/task-a/release", token=rival)

    assert [item["id"] for item in (await before_it_ends(waiting))["items"]] == ["task-a"]


async def test_what_ends_in_the_time_that_passes_twice_is_not_missed(
    server: InProcessServer, clock: ManualClock
) -> None:
    await put(server, "task-a")
    rival = await server.add_person("Rosa")
    waiting = asyncio.create_task(page(server, wait=60, after=await settled(server)))
    await until_waiting(server.services.feed)  # the feed knows what time it is, and is then set back
    clock.advance(timedelta(hours=-5))
    await server.ask("POST", "/v1/nodes/task-a/claim", token=rival)
    await before_it_ends(waiting)
    waiting = asyncio.create_task(page(server, wait=60, after=await settled(server)))
    await until_waiting(server.services.feed)

    clock.advance(timedelta(minutes=46))

    assert [item["id"] for item in (await before_it_ends(waiting))["items"]] == ["task-a"]
