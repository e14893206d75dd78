"""What an item of the queue is told by: routings to agents, open findings, commits (companion 3.3, 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.test_queue import put, take, task

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def item(server: InProcessServer, node: str) -> Any:  # noqa: ANN401 — a reply as JSON
    """Return an item of the page, by its id."""
    (found,) = [one for one in (await server.ask("GET", "/v1/queue"))["items"] if one["id"] == node]
    return found


async def test_an_item_that_was_routed_to_an_agent_before_there_was_one_is_taken_by_it(server: InProcessServer) -> None:
    await put(server, task("a", edges=[{"type": "assigned", "to": "agent-seven"}]), ready=False)
    assert (await item(server, "task-a"))["readiness_reasons"] == ["assigned to agent agent-seven"]

    seven = await server.add_agent("seven")

    assert (await take(server, seven))["item"]["id"] == "task-a"


async def test_a_finding_rides_on_an_item_until_it_is_retired_resolved_or_superseded(server: InProcessServer) -> None:
    on_it = {"edges": [{"type": "relates-to", "to": "task-a"}], "status": "open"}
    findings = [task(name, type="finding", **on_it) for name in ("retired", "resolved", "succeeded", "open")]
    for finding in findings:
        finding["id"] = str(finding["id"]).replace("finding-", "find-")
    await put(server, task("a"))
    await put(server, *findings, ready=False)
    await server.ask("POST", "/v1/nodes/find-retired/status", {"status": "dismissed"})
    ends = {"title": "T", "summary": "S"}
    await put(
        server,
        {"id": "dec-d", "type": "decision", "edges": [{"type": "resolves", "to": "find-resolved"}], **ends},
        {"id": "art-a", "type": "artifact", "edges": [{"type": "supersedes", "to": "find-succeeded"}], **ends},
        ready=False,
    )

    assert (await item(server, "task-a"))["findings"] == ["find-open"]
    node = await server.ask("GET", "/v1/nodes/task-a")
    assert [one["id"] for one in node["open_findings"]] == ["find-open"]


async def test_however_many_findings_there_are_a_decline_is_among_those_told(server: InProcessServer) -> None:
    edges = [{"type": "relates-to", "to": "task-a"}]
    on_it: dict[str, object] = {"edges": edges, "type": "finding", "title": "T", "summary": "S"}
    await put(server, task("a"))
    await put(
        server, *({"id": f"find-{n:02}", **on_it} for n in range(60)), {"id": "find-declined-a", **on_it}, ready=False
    )

    told = (await item(server, "task-a"))["findings"]

    assert told[:2] == ["find-declined-a", "find-00"]
    assert len(told) == 50


async def test_an_item_brings_its_commits(server: InProcessServer) -> None:
    await put(server, task("a", commits=["web@abcdef1"]), task("b"))

    assert (await item(server, "task-a"))["commits"] == ["web@abcdef1"]
    assert "commits" not in await item(server, "task-b")


async def test_a_page_too_far_down_is_refused_with_the_way_out(server: InProcessServer) -> None:
    far = await server.send("GET", "/v1/queue?offset=10001")

    assert far.status_code == 422
    assert far.json()["error"]["message"] == (
        "offset: 10001 items; the limit is 10000 items: narrow the page by project, type or readiness"
    )
    assert (await server.ask("GET", "/v1/queue?offset=10000"))["items"] == []
