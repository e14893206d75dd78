"""Corrections through the API: what they may be about, how they are numbered, and how they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

TOGETHER = 6


async def put(server: InProcessServer, *ids: str, **rest: object) -> None:
    nodes = [{"id": i, "type": "task", "title": i, "summary": "S", "date": "2026-06-01", **rest} for i in ids]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": nodes}))["results"]
    assert all(result["ok"] for result in results), results


async def correct(server: InProcessServer, target: str, text: str = "No.", **rest: object) -> Any:  # noqa: ANN401 — JSON
    return await server.ask("POST", "/v1/corrections", {"target": target, "text": text, **rest})


async def standing(server: InProcessServer, query: str = "") -> list[tuple[str, str]]:
    listed = (await server.ask("GET", f"/v1/corrections{query}"))["corrections"]
    return [(each["target"], each["id"]) for each in listed]


async def test_a_correction_is_filed_under_the_next_number_of_its_target(server: InProcessServer) -> None:
    await put(server, "task-a", project="mail")

    first = await correct(server, "task-a", "It listens on 8080.\nThe unit file is old.", title="The port")
    second = await correct(server, "task-a")
    node = await server.ask("GET", "/v1/nodes/corr-task-a-1")

    assert (first["status"], first["id"], first["warnings"], second["id"]) == (
        "created",
        "corr-task-a-1",
        [],
        "corr-task-a-2",
    )
    assert first["revision"] == node["revision"]
    front = node["frontmatter"]
    assert {key: front[key] for key in ("type", "title", "summary", "status", "project", "target")} == {
        "type": "correction",
        "title": "The port",
        "summary": "It listens on 8080. The unit file is old.",
        "status": "active",
        "project": "mail",
        "target": "task-a",
    }


@pytest.mark.parametrize(
    "target,id_,project",
    [("global", "corr-global-1", None), ("project:mail", "corr-project-mail-1", "mail")],
)
async def test_a_project_and_everything_can_be_corrected(
    server: InProcessServer, target: str, id_: str, project: str | None
) -> None:
    assert (await correct(server, target))["id"] == id_
    assert (await server.ask("GET", f"/v1/nodes/{id_}"))["frontmatter"].get("project") == project


async def test_an_unknown_node_is_not_found_and_named(server: InProcessServer) -> None:
    refused = await server.send("POST", "/v1/corrections", {"target": "task-nowhere", "text": "No."})

    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == "target: there is no node task-nowhere"


@pytest.mark.parametrize("target", ["project:", "project:No", "projekt:mail", "", "Task-a", "a:b"])
async def test_what_is_no_target_is_refused_by_name(server: InProcessServer, target: str) -> None:
    refused = await server.send("POST", "/v1/corrections", {"target": target, "text": "No."})

    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("target: ")


@pytest.mark.parametrize("text,words", [(" \n", "required"), ("x" * 8193, "8193 bytes; the limit is 8192 bytes")])
async def test_a_correction_needs_a_text_and_no_more_of_it_than_a_body_holds(
    server: InProcessServer, text: str, words: str
) -> None:
    refused = await server.send("POST", "/v1/corrections", {"target": "global", "text": text})

    assert refused.status_code == 422
    assert words in refused.json()["error"]["message"]
    assert await standing(server) == []


async def test_those_that_stand_are_listed_page_by_page_until_they_are_applied(
    server: InProcessServer,
) -> None:
    await put(server, "task-a", "task-b")
    for target in ("task-b", "global", "task-a", "task-a"):
        await correct(server, target)
    await server.ask("POST", "/v1/nodes/corr-task-b-1/status", {"status": "applied"})

    assert await standing(server) == [
        ("global", "corr-global-1"),
        ("task-a", "corr-task-a-1"),
        ("task-a", "corr-task-a-2"),
    ]
    assert await standing(server, "?target=task-a") == [("task-a", "corr-task-a-1"), ("task-a", "corr-task-a-2")]
    page = await server.ask("GET", "/v1/corrections?limit=2")
    assert (page["count"], page["next"]) == (2, "corr-task-a-1")
    assert await standing(server, f"?limit=2&after={page['next']}") == [("task-a", "corr-task-a-2")]


async def test_a_number_is_never_used_again_though_its_correction_is_deleted(server: InProcessServer) -> None:
    await correct(server, "global")
    deleted = await server.send("DELETE", "/v1/nodes/corr-global-1", {"reason": "A slip."})
    assert deleted.is_success, deleted.text

    assert (await correct(server, "global"))["id"] == "corr-global-2"


async def test_corrections_of_one_target_that_come_together_get_a_number_each(server: InProcessServer) -> None:
    replies = await asyncio.gather(*(correct(server, "global", f"Not {n}.") for n in range(TOGETHER)))

    assert sorted(reply["id"] for reply in replies) == [f"corr-global-{n}" for n in range(1, TOGETHER + 1)]


async def test_a_correction_put_by_hand_under_the_next_number_is_stepped_over(server: InProcessServer) -> None:
    by_hand = {"id": "corr-global-1", "type": "correction", "title": "T", "summary": "S", "target": "global"}
    both = await asyncio.gather(
        server.ask("POST", "/v1/nodes", {"nodes": [by_hand], "if_exists": "skip"}), correct(server, "global")
    )

    listed = {id_ for _, id_ in await standing(server)}
    assert both[0]["results"][0]["ok"]
    assert {"corr-global-1", both[1]["id"]} == listed
