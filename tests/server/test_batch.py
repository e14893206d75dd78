"""Reading many nodes at once: in the order asked for, in pages of a bounded size, each id exactly once."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any, Final
from zlib import compress

import pytest

from batonpass.testing.server import InProcessServer
from batonpass.wire.batch import PAGE_BYTES_MAX, cursor_of

pytestmark = pytest.mark.anyio

BATCH: Final = "/v1/nodes/batch"


def task(id_: str, *, body: str = "") -> dict[str, object]:
    return {"id": id_, "type": "task", "title": id_, "summary": "In short", "date": "2026-05-01", "body": body}


async def put(server: InProcessServer, *nodes: dict[str, object]) -> None:
    await server.ask("POST", "/v1/nodes", {"nodes": list(nodes)})


async def pages(server: InProcessServer, ids: list[str]) -> list[Any]:
    """Read `ids` page by page to the end."""
    found = [await server.ask("POST", BATCH, {"ids": ids})]
    while found[-1]["next_cursor"] is not None:
        found.append(await server.ask("POST", BATCH, {"cursor": found[-1]["next_cursor"]}))
    return found


async def test_nodes_come_as_each_is_read_alone_in_the_order_asked_for(server: InProcessServer) -> None:
    await put(server, task("task-b"), task("task-a"))
    resolver = {**task("art-a"), "type": "artifact", "edges": [{"type": "resolves", "to": "task-a"}]}
    finding = {**task("find-a"), "type": "finding", "edges": [{"type": "relates-to", "to": "task-b"}]}
    await put(server, resolver, finding)
    await server.ask("POST", "/v1/nodes/task-b/claim", {})

    page = await server.ask("POST", BATCH, {"ids": ["task-b", "task-nobody", "task-a", "task-b"]})

    alone = [await server.ask("GET", f"/v1/nodes/{id_}") for id_ in ("task-b", "task-a")]
    assert page == {
        "nodes": alone,
        "returned_ids": ["task-b", "task-a"],
        "missing_ids": ["task-nobody"],
        "truncated": False,
        "next_cursor": None,
    }
    assert ("lease" in alone[0], "open_findings" in alone[0], "resolution" in alone[1]) == (True, True, True)


async def test_pages_are_small_split_no_node_and_tell_of_each_id_once(server: InProcessServer) -> None:
    nodes = [task(f"task-{i:03}", body="x" * (i * 79 % 8000)) for i in range(80)]
    await put(server, *nodes)
    ids = [id_ for node in nodes for id_ in (str(node["id"]), f"{node['id']}-nobody")][:100]

    found = await pages(server, ids)

    assert len(found) > 3
    assert all(len(json.dumps(page["nodes"], separators=(",", ":"))) <= PAGE_BYTES_MAX for page in found)
    assert [page["truncated"] for page in found] == [True] * (len(found) - 1) + [False]
    assert [id_ for page in found for id_ in page["returned_ids"]] == ids[::2]
    assert [id_ for page in found for id_ in page["missing_ids"]] == ids[1::2]
    assert [node["id"] for page in found for node in page["nodes"]] == ids[::2]


async def test_a_node_that_is_bigger_than_a_page_comes_alone(server: InProcessServer) -> None:
    """A body of control characters is six times as long in JSON, and stands there twice."""
    await put(server, task("task-a"), task("task-big", body="\x01" * 8000), task("task-c"))

    found = await pages(server, ["task-a", "task-big", "task-c"])

    assert [page["returned_ids"] for page in found] == [["task-a"], ["task-big"], ["task-c"]]
    assert len(json.dumps(found[1]["nodes"])) > PAGE_BYTES_MAX


async def test_a_page_is_of_what_is_there_when_it_is_asked_for(server: InProcessServer) -> None:
    await put(server, task("task-a", body="\x01" * 8000), task("task-b"))
    first = await server.ask("POST", BATCH, {"ids": ["task-a", "task-b"]})
    await server.ask("DELETE", "/v1/nodes/task-b", {"reason": "filed twice"})

    second = await server.ask("POST", BATCH, {"cursor": first["next_cursor"]})

    assert (second["returned_ids"], second["missing_ids"]) == ([], ["task-b"])


@pytest.mark.parametrize(
    "body, field",
    [
        ({}, "ids"),
        ({"ids": ["task-a"], "cursor": "x"}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": [f"task-{i}" for i in range(101)]}, "ids"),
        ({"ids": "task-a"}, "ids"),
        ({"ids": ["task-a", "TASK"]}, "ids[1]"),
        ({"ids": [7]}, "ids[0]"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "no cursor"}, "cursor"),
        ({"cursor": "ü"}, "cursor"),
        ({"cursor": urlsafe_b64encode(compress(b"TASK")).decode()}, "cursor"),
        ({"cursor": urlsafe_b64encode(compress(b"a" * 10_000_000)).decode()}, "cursor"),
        ({"cursor": cursor_of([])}, "cursor"),
    ],
)
async def test_what_is_no_question_is_refused_by_name(
    server: InProcessServer, body: dict[str, object], field: str
) -> None:
    refused = await server.send("POST", BATCH, body)

    assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)


async def test_a_token_that_may_only_read_may_ask(server: InProcessServer) -> None:
    await put(server, task("task-a"))
    token = (await server.ask("POST", "/v1/me/tokens", {"label": "r", "scope": "read"}))["token"]

    assert (await server.ask("POST", BATCH, {"ids": ["task-a"]}, token=token))["returned_ids"] == ["task-a"]
