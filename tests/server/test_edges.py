"""Edges one by one: aliases, inverses, replacement, reviews, removal, and reading them from either end."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from batonpass.core.ids import NodeId
from batonpass.store import history
from batonpass.store.events import StoredEvent, events_after
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def make(server: InProcessServer, *ids: str, **types: str) -> None:
    """Make a task for each id, or what `types` says of the first part of it."""
    kinds = {"task": "task", "art": "artifact", "dec": "decision", **types}
    entries = [{"id": i, "type": kinds[i.partition("-")[0]], "title": f"About {i}", "summary": "S"} for i in ids]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": entries}))["results"]
    assert all(result["ok"] for result in results), results


async def add(server: InProcessServer, src: str, type_: str, to: str, **attrs: str) -> Any:  # noqa: ANN401
    return await server.ask("POST", f"/v1/nodes/{src}/edges", {"type": type_, "to": to, "attrs": attrs})


async def remove(server: InProcessServer, src: str, type_: str, to: str) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("DELETE", f"/v1/nodes/{src}/edges", {"type": type_, "to": to})


async def stored(server: InProcessServer, id_: str) -> Any:  # noqa: ANN401 — a list of flat edges
    return (await server.ask("GET", f"/v1/nodes/{id_}"))["frontmatter"].get("edges", [])


async def happened(server: InProcessServer, kind: str) -> list[StoredEvent]:
    async with server.store.read() as tx:
        return [event for event in await events_after(tx, 0, most=1_000) if event.kind == kind]


async def test_an_edge_is_added_replaced_and_removed(server: InProcessServer) -> None:
    await make(server, "task-a", "task-b")
    before = (await server.ask("GET", "/v1/nodes/task-a"))["revision"]

    added = await add(server, "task-a", "related-to", "task-b", why="x")
    same = await add(server, "task-a", "relates-to", "task-b", why="x")
    replaced = await add(server, "task-a", "relates-to", "task-b", also="y")
    shown = await stored(server, "task-a")
    removed = await remove(server, "task-a", "related-to", "task-b")
    again = await remove(server, "task-a", "relates-to", "task-b")

    assert [reply["status"] for reply in (added, same, replaced, removed, again)] == [
        "updated",
        "skipped",
        "updated",
        "updated",
        "skipped",
    ]
    assert shown == [{"type": "relates-to", "to": "task-b", "also": "y"}]
    assert added["revision"] == same["revision"] != replaced["revision"]
    assert removed["revision"] == again["revision"] == before
    async with server.store.read() as tx:
        rows = await history.page(tx, NodeId("task-a"), before=100, most=100)
    assert [row.verb for row in rows] == ["edge_removed", "edge_added", "edge_added", "put"]
    assert [json.loads(event.data) for event in await happened(server, "node.edge_removed")] == [
        {"type": "relates-to", "to": "task-b"}
    ]


@pytest.mark.parametrize(
    "named,other,canonical",
    [
        ("blocked-by", "task-b", "blocks"),
        ("superseded-by", "art-b", "supersedes"),
        ("answered-by", "art-b", "answers"),
        ("has-program-member", "task-b", "member-of-program"),
        ("groups", "task-b", "grouped-under"),
    ],
)
async def test_an_inverse_label_writes_on_the_other_node_and_says_so(
    server: InProcessServer, named: str, other: str, canonical: str
) -> None:
    await make(server, "task-a", other)

    added = await add(server, "task-a", named, other)
    shown = await stored(server, other)
    removed = await remove(server, "task-a", named, other)

    assert (added["id"], added["status"]) == (other, "updated")
    assert added["warnings"] == [f"type: {named} is written as {canonical} on {other}"]
    assert shown == [{"type": canonical, "to": "task-a"}]
    assert (removed["id"], removed["status"]) == (other, "updated")
    assert await stored(server, other) == []


async def test_both_ends_must_exist_to_add_and_only_the_one_written_to_remove(server: InProcessServer) -> None:
    await make(server, "task-a")
    entry = {
        "id": "task-b",
        "type": "task",
        "title": "B",
        "summary": "S",
        "edges": [{"type": "blocks", "to": "task-z"}],
    }
    await server.ask("POST", "/v1/nodes", {"nodes": [entry]})

    for type_ in ("blocks", "blocked-by"):
        body = {"type": type_, "to": "task-nowhere"}
        response = await server.send("POST", "/v1/nodes/task-a/edges", body)
        assert (response.status_code, response.json()["error"]["message"]) == (404, "there is no node task-nowhere")

    assert (await remove(server, "task-b", "blocks", "task-z"))["status"] == "updated"
    assert (await remove(server, "task-a", "blocks", "task-z"))["status"] == "skipped"


async def test_one_review_outcome_takes_the_place_of_another(server: InProcessServer) -> None:
    await make(server, "art-a")
    await server.add_person("Ben")
    person = "person-ben"

    for type_ in ("review-requested", "changes-requested-by", "approved-by"):
        await add(server, "art-a", type_, person)
    await add(server, "art-a", "review-requested", "person-ada-admin")

    assert await stored(server, "art-a") == [
        {"type": "review-requested", "to": "person-ada-admin"},
        {"type": "reviewed-by", "to": person},
    ]


@pytest.mark.parametrize(
    "body,status,finding",
    [
        ({"type": "resolved-by", "to": "task-b"}, 422, 'type: "resolved-by" is not an edge type'),
        ({"type": "blocks", "to": "Task"}, 422, 'to: "Task" is not an id'),
        ({"type": "blocks", "to": "task-a"}, 422, "edges: blocks may not lead from a node to itself"),
        ({"type": "blocks", "to": "task-b", "attrs": {"a": "b c"}}, 422, 'attrs.a: "b c" is not a token'),
        ({"type": "blocks", "to": "task-b", "attrs": {"a": 1}}, 422, "attrs.a: must be a string, not a number"),
        ({"type": "blocks", "to": "task-b", "attrs": {"to": "x"}}, 422, 'attrs: "to" cannot name an attribute'),
        ({"type": "blocks", "to": "task-b", "attrs": []}, 422, "attrs: "),
        (
            {"type": "assigned", "to": "agent-x", "attrs": {"via": "claim"}},
            422,
            "attrs.via: a claim's edge is read off",
        ),
        ({"type": 3, "to": "task-b"}, 422, "type: "),
        ({"to": "task-b"}, 422, "type: "),
        ({"type": "blocks"}, 422, "to: "),
        ({"type": "blocks", "to": "task-b", "based_on": [{}]}, 400, "based_on[0]: must be "),
        ({"type": "blocks", "to": "task-b", "if_epoch": "1"}, 422, "if_epoch: "),
    ],
)
async def test_a_bad_edge_is_refused_and_nothing_is_written(
    server: InProcessServer, body: dict[str, object], status: int, finding: str
) -> None:
    await make(server, "task-a", "task-b")

    response = await server.send("POST", "/v1/nodes/task-a/edges", body)

    assert response.status_code == status, response.text
    assert response.json()["error"]["message"].startswith(finding)
    assert await stored(server, "task-a") == []


async def test_a_cycle_is_refused_however_long_it_is_and_whichever_way_it_is_said(server: InProcessServer) -> None:
    names = [f"task-{n}" for n in range(8)]
    await make(server, *names)
    for src, dst in pairwise(names):
        await add(server, src, "blocks", dst)

    forward = await server.send("POST", "/v1/nodes/task-7/edges", {"type": "blocks", "to": "task-0"})
    inverse = await server.send("POST", "/v1/nodes/task-0/edges", {"type": "blocked-by", "to": "task-3"})

    for response in (forward, inverse):
        assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid_edge")
    assert forward.json()["error"]["details"] == ["task-7", *names]
    assert inverse.json()["error"]["details"] == ["task-3", *names[:4]]
    assert (await add(server, "task-0", "blocks", "task-7"))["status"] == "updated"


async def test_the_forty_first_edge_is_refused(server: InProcessServer) -> None:
    await make(server, "task-a", *(f"task-{n}" for n in range(41)))
    for n in range(40):
        await add(server, "task-a", "mentions", f"task-{n}")

    response = await server.send("POST", "/v1/nodes/task-a/edges", {"type": "mentions", "to": "task-40"})

    assert response.json()["error"]["details"] == ["edges: 41 edges; the limit is 40 edges"]


async def test_edges_are_read_from_either_end_a_page_at_a_time(server: InProcessServer) -> None:
    await make(server, "task-a", "task-b", "art-x", "dec-y")
    await add(server, "task-a", "blocks", "task-b")
    await add(server, "task-a", "mentions", "art-x", why="x")
    await add(server, "art-x", "relates-to", "task-a")
    await add(server, "dec-y", "relates-to", "task-a")
    await server.ask("POST", "/v1/nodes/task-a/claim", {})

    async def page(query: str = "") -> Any:  # noqa: ANN401 — a reply as JSON
        return await server.ask("GET", f"/v1/nodes/task-a/edges{query}")

    def brief(reply: Any) -> list[tuple[str, str, str, str]]:  # noqa: ANN401 — a reply as JSON
        return [(one["direction"], one["type"], one["from"], one["to"]) for one in reply["edges"]]

    everything = await page()
    assert brief(everything) == [
        ("in", "relates-to", "art-x", "task-a"),
        ("in", "relates-to", "dec-y", "task-a"),
        ("out", "assigned", "task-a", "person-ada-admin"),
        ("out", "blocks", "task-a", "task-b"),
        ("out", "mentions", "task-a", "art-x"),
    ]
    assert (everything["id"], everything["count"], everything["next"]) == ("task-a", 5, None)
    assert everything["edges"][4]["attrs"] == {"why": "x"}
    assert (everything["edges"][4]["title"], everything["edges"][4]["status"]) == ("About art-x", None)
    assert brief(await page("?direction=in")) == brief(everything)[:2]
    assert brief(await page("?direction=out&type=blocks,mentions")) == brief(everything)[3:]
    assert brief(await page("?type=related-to")) == brief(everything)[:2]
    assert brief(await page("?type=assigned")) == brief(everything)[2:3]

    walked: list[tuple[str, str, str, str]] = []
    query = "?limit=1"
    while True:
        reply = await page(query)
        walked += brief(reply)
        if reply["next"] is None:
            break
        query = f"?limit=1&after={reply['next']}"
    assert walked == brief(everything)


@pytest.mark.parametrize(
    "query", ["direction=up", "type=stops", "type=blocked-by", "after=x", "after=in|stops|task-a", "after=in|blocks|X",
              "limit=0", "colour=red"],
)  # fmt: skip
async def test_a_page_that_cannot_be_meant_is_refused(server: InProcessServer, query: str) -> None:
    await make(server, "task-a")

    assert (await server.send("GET", f"/v1/nodes/task-a/edges?{query}")).status_code == 422


# --- edges onto what is live, and onto what is not there -------------------------------------------------------------


@pytest.mark.parametrize(
    "retire, words",
    [
        ({"status": "abandoned"}, "task-b has status abandoned"),
        ({"by": "art-b", "edge": "resolves"}, "task-b is resolved by art-b"),
        ({"by": "task-c", "edge": "supersedes"}, "task-b is superseded by task-c"),
    ],
)
async def test_an_edge_is_written_onto_what_is_live_and_refused_onto_what_is_not(
    server: InProcessServer, retire: dict[str, str], words: str
) -> None:
    await make(server, "task-a", "task-b", "task-c", "art-b")
    live, asked = "/v1/nodes/task-a/edges/live", {"type": "relates-to", "to": "task-b"}
    first = await server.ask("POST", live, asked)
    await server.ask("DELETE", "/v1/nodes/task-a/edges", asked)

    if "status" in retire:
        await server.ask("POST", "/v1/nodes/task-b/status", retire)
    else:
        await server.ask("POST", f"/v1/nodes/{retire['by']}/edges", {"type": retire["edge"], "to": "task-b"})
    refused = await server.send("POST", live, asked)
    missing = await server.send("POST", live, {"type": "relates-to", "to": "task-nobody"})

    assert first["status"] == "updated"
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_ready")
    assert words in refused.json()["error"]["message"]
    assert missing.status_code == 404
    edges = (await server.ask("GET", "/v1/nodes/task-a/edges"))["edges"]
    assert edges == []


async def test_a_finding_that_was_resolved_or_superseded_is_open_no_more(server: InProcessServer) -> None:
    await make(server, "task-a", "find-a", "find-b", "find-c", "art-b", find="finding")
    for name in "abc":
        await add(server, f"find-{name}", "relates-to", "task-a")
    await server.ask("POST", "/v1/nodes/art-b/edges", {"type": "resolves", "to": "find-b"})
    await server.ask("POST", "/v1/nodes/find-a/edges", {"type": "supersedes", "to": "find-c"})

    found = (await server.ask("GET", "/v1/nodes/task-a"))["open_findings"]

    assert [finding["id"] for finding in found] == ["find-a"]
