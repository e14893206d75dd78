"""The batch door, one node read whole, and the verbs that set one thing of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.core import points
from batonpass.core.ids import NodeId
from batonpass.store import history as past
from batonpass.store.events import StoredEvent, events_after
from batonpass.store.history import Entry
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import held
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import deadlocks_of

pytestmark = pytest.mark.anyio

NOTICE_S: Final = 0.3
"""How long a racer waits for the others to come as far; with a lock in between, they never do."""


def node(id_: str, type_: str | None = None, **keys: object) -> dict[str, object]:
    """A node with the least it needs."""
    kind = type_ or {"task": "task", "art": "artifact", "dec": "decision"}[id_.partition("-")[0]]
    return {"id": id_, "type": kind, "title": f"About {id_}", "summary": "In short", "date": "2026-05-01", **keys}


def edge(type_: str, to: str, **attrs: str) -> dict[str, str]:
    return {"type": type_, "to": to, **attrs}


async def put(server: InProcessServer, *entries: object, token: str | None = None, **request: object) -> list[Any]:
    """Put entries and return their results, whatever became of them."""
    response = await server.send("POST", "/v1/nodes", {"nodes": list(entries), **request}, token=token)
    assert response.status_code in (200, 207), response.text
    results: list[Any] = response.json()["results"]
    assert (response.status_code == 200) is all(result["ok"] for result in results)
    return results


async def put_one(server: InProcessServer, entry: object, token: str | None = None, **request: object) -> Any:  # noqa: ANN401
    (result,) = await put(server, entry, token=token, **request)
    return result


async def send_raw(server: InProcessServer, body: str) -> httpx.Response:
    """Post `body` as it is, whether or not it is JSON."""
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://baton.test") as http:
        return await http.post("/v1/nodes", content=body, headers=headers)


async def read(server: InProcessServer, id_: str) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("GET", f"/v1/nodes/{id_}")


async def history(server: InProcessServer, id_: str) -> list[Entry]:
    async with server.store.read() as tx:
        return await past.page(tx, NodeId(id_), before=1_000, most=1_000)


async def happened(server: InProcessServer, *, after: int = 0) -> list[StoredEvent]:
    async with server.store.read() as tx:
        return await events_after(tx, after, most=1_000)


async def position(server: InProcessServer) -> int:
    return max((event.seq for event in await happened(server)), default=0)


# --- the batch door --------------------------------------------------------------------------------------------------


async def test_markdown_and_json_make_the_same_node(server: InProcessServer) -> None:
    text = (
        "---\r\nid: task-a\r\ntype: task\r\ntitle: 'About task-a'\r\nsummary: In short\r\ndate: 2026-05-01\r\n"
        "edges:\r\n  - {type: blocks, to: task-nowhere}\r\n---\r\n\r\nText\r\n"
    )
    by_json = node("task-b", body="Text", edges=[edge("blocks", "task-nowhere")])
    made = await put(server, text, by_json)

    assert [(result["status"], result["id"], result["warnings"]) for result in made] == [
        ("created", "task-a", []),
        ("created", "task-b", []),
    ]
    a, b = await read(server, "task-a"), await read(server, "task-b")
    assert a["body"] == b["body"] == "Text"
    assert a["revision"] == made[0]["revision"]
    assert a["raw"].replace("task-a", "task-b") == b["raw"]
    assert a["frontmatter"]["edges"] == [{"type": "blocks", "to": "task-nowhere"}]


async def test_entries_are_applied_in_order_so_a_resolver_comes_before_what_it_completes(
    server: InProcessServer,
) -> None:
    done_first = await put(
        server, node("task-a", status="done"), node("art-a", edges=[edge("resolves", "task-a")]), node("task-b")
    )
    resolver_first = await put(
        server, node("art-c", edges=[edge("resolves", "task-c")]), node("task-c", status="done"), {"id": "task-d"}
    )

    assert [(result["status"], result.get("code")) for result in done_first] == [
        ("error", "transition_denied"),
        ("created", None),
        ("created", None),
    ]
    assert [(result["status"], result.get("code")) for result in resolver_first] == [
        ("created", None),
        ("created", None),
        ("error", "invalid_node"),
    ]
    assert resolver_first[2]["details"] == ["type: required", "title: required", "summary: required"]


@pytest.mark.parametrize(
    "resolver",
    [
        node("art-a", status="in-review", edges=[edge("resolves", "task-a")]),
        node("art-a", edges=[edge("relates-to", "task-a")]),
        node("find-a", "finding", edges=[edge("resolves", "task-a")]),
    ],
)
async def test_nothing_is_born_done_or_becomes_it_without_a_resolver_that_counts(
    server: InProcessServer, resolver: dict[str, object]
) -> None:
    await put(server, resolver)

    born = await put_one(server, node("task-a", status="done"))
    await put(server, node("task-a"))
    moved = await server.send("POST", "/v1/nodes/task-a/status", {"status": "done"})

    assert born["code"] == "transition_denied"
    assert (moved.status_code, moved.json()["error"]["code"]) == (409, "transition_denied")
    assert "status" not in (await read(server, "task-a"))["frontmatter"]


async def test_what_an_entry_expects_of_a_node_that_exists(server: InProcessServer) -> None:
    first = await put_one(server, node("task-a"))
    changed = node("task-a", title="Changed")

    again = await put_one(server, changed)
    skipped = await put_one(server, changed, if_exists="skip")
    blind = await put_one(server, changed, if_exists="update")
    stale = await put_one(server, {"node": changed, "if_exists": "update", "revision": "0" * 40})
    updated = await put_one(server, {"node": changed, "if_exists": "update", "revision": first["revision"]})
    missing = await put_one(server, {"node": node("task-b"), "if_exists": "update", "revision": first["revision"]})

    assert (again["code"], again["revision"]) == ("conflict", first["revision"])
    assert (skipped["ok"], skipped["status"], skipped["revision"]) == (True, "skipped", first["revision"])
    assert (blind["code"], blind["revision"]) == ("invalid_request", first["revision"])
    assert (stale["code"], stale["revision"]) == ("conflict", first["revision"])
    assert (updated["status"], (await read(server, "task-a"))["frontmatter"]["title"]) == ("updated", "Changed")
    assert (missing["code"], missing["revision"]) == ("not_found", None)
    assert [row.revision for row in await history(server, "task-a")] == [updated["revision"], first["revision"]]


async def test_a_put_of_what_is_there_already_writes_nothing(server: InProcessServer) -> None:
    body = node("task-a", tags=["x"], edges=[edge("blocks", "task-b"), edge("mentions", "task-c", why="y")])
    first = await put_one(server, body)
    before = await position(server)

    same = await put_one(server, {**body, "edges": list(reversed(body["edges"]))})  # type: ignore[call-overload]  # a list
    retried = await put_one(server, {"node": body, "if_exists": "update", "revision": "0" * 40})
    whole = await put_one(server, (await read(server, "task-a"))["raw"])

    for result in (same, retried, whole):
        assert (result["status"], result["revision"]) == ("skipped", first["revision"])
    assert await happened(server, after=before) == []
    assert len(await history(server, "task-a")) == 1


async def test_who_wrote_a_node_comes_from_the_token_and_never_from_the_body(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    agent = await server.add_agent("seven", token=ben, session="s1")
    forged = {
        "author": "person-ada-admin",
        "authored_by_agent": "agent-other",
        "session": "s9",
        "authored_via": "mcp",
        "created_at": "1999-01-01",
        "priority_by": "Somebody",
        "priority": "p1",
    }

    await put(server, node("task-a", **forged), token=agent)
    await put(server, node("task-b", **forged), token=ben)

    a, b = [(await read(server, id_))["frontmatter"] for id_ in ("task-a", "task-b")]
    assert {key: a.get(key) for key in forged} == {
        "author": "person-ben",
        "authored_by_agent": "agent-seven",
        "session": "s1",
        "authored_via": "dispatch",
        "created_at": "2026-06-01T12:00:00.000+00:00",
        "priority_by": "agent-seven for Ben <ben@example.org>",
        "priority": "p1",
    }
    assert (b["author"], b["authored_via"], b["priority_by"]) == ("person-ben", "rest", "Ben <ben@example.org>")
    assert "authored_by_agent" not in b
    (row,) = await history(server, "task-a")
    assert (row.verb, row.author, row.agent, row.session) == ("put", "person-ben", "agent-seven", "s1")
    (event,) = [event for event in await happened(server) if event.node == "task-a"]
    assert (event.kind, event.actor, event.owner, event.session) == ("node.put", "agent-seven", "person-ben", "s1")


async def test_a_put_stamps_only_the_priority_and_readiness_it_changes(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    first = await put_one(server, node("task-a", priority="p1", readiness="agent"))
    kept = await put_one(
        server,
        {
            "node": node("task-a", priority="p2", readiness="agent"),
            "if_exists": "update",
            "revision": first["revision"],
        },
        token=ben,
    )

    shown = (await read(server, "task-a"))["frontmatter"]
    assert (shown["priority_by"], shown["readiness_by"]) == (
        "Ben <ben@example.org>",
        "Ada Admin <ada@example.org>",
    )
    assert shown["author"] == "person-ben"
    await put(server, {"node": node("task-a"), "if_exists": "update", "revision": kept["revision"]})
    assert not [key for key in (await read(server, "task-a"))["frontmatter"] if key.startswith(("priority", "readi"))]


async def test_an_inverse_edge_is_written_on_the_other_node_which_must_exist(server: InProcessServer) -> None:
    await put(server, node("task-b"))
    before = await position(server)

    flipped = await put_one(server, node("task-a", edges=[edge("blocked-by", "task-b", why="x")]))
    dangling = await put_one(server, node("task-c", edges=[edge("blocked-by", "task-nowhere")]))

    assert flipped["warnings"] == ["edges[0]: blocked-by task-b is written as blocks on task-b"]
    assert (await read(server, "task-b"))["frontmatter"]["edges"] == [edge("blocks", "task-a", why="x")]
    assert "edges" not in (await read(server, "task-a"))["frontmatter"]
    assert dangling["message"] == "edges: blocks belongs on task-nowhere, which does not exist"
    assert (await server.send("GET", "/v1/nodes/task-c")).status_code == 404
    assert [(event.kind, event.node) for event in await happened(server, after=before)] == [
        ("node.put", "task-a"),
        ("node.edge_added", "task-b"),
    ]


async def test_a_refused_entry_has_changed_nothing(server: InProcessServer) -> None:
    full = node("task-full", edges=[edge("mentions", f"task-{n}") for n in range(40)])
    await put(server, full, node("task-b", edges=[edge("blocks", "task-a")]))
    before, b = await position(server), await read(server, "task-b")

    results = await put(
        server,
        node("task-a", edges=[edge("blocked-by", "task-full")]),  # the other node is full
        node("task-a", edges=[edge("blocks", "task-b")]),  # closes a cycle
        node("task-a", edges=[edge("blocked-by", "task-b"), edge("blocks", "task-b")]),  # closes one all by itself
    )

    assert [(result["code"], result["message"].partition(":")[0]) for result in results] == [
        ("invalid_node", "edges"),
        ("invalid_edge", "edges"),
        ("invalid_edge", "edges"),
    ]
    assert results[0]["details"] == ["edges: 41 edges; the limit is 40 edges"]
    assert results[1]["details"] == ["task-a", "task-b", "task-a"]
    assert (await server.send("GET", "/v1/nodes/task-a")).status_code == 404
    assert await read(server, "task-b") == b
    assert await happened(server, after=before) == []


async def test_an_update_may_turn_a_blocking_edge_round(server: InProcessServer) -> None:
    first = await put_one(server, node("task-a", edges=[edge("blocks", "task-b")]))
    await put(server, node("task-b"))

    turned = await put_one(
        server,
        {
            "node": node("task-a", edges=[edge("blocked-by", "task-b")]),
            "if_exists": "update",
            "revision": first["revision"],
        },
    )

    assert turned["status"] == "updated"
    assert (await read(server, "task-b"))["frontmatter"]["edges"] == [edge("blocks", "task-a")]


async def test_an_update_replaces_the_edges_and_leaves_those_it_keeps_as_they_were(
    server: InProcessServer, clock: ManualClock
) -> None:
    first = await put_one(server, node("task-a", edges=[edge("blocks", "task-b"), edge("mentions", "task-c")]))
    clock.advance(timedelta(hours=1))

    await put_one(
        server,
        {
            "node": node("task-a", edges=[edge("blocks", "task-b"), edge("blocks", "task-d")]),
            "if_exists": "update",
            "revision": first["revision"],
        },
    )

    shown = await server.ask("GET", "/v1/nodes/task-a/edges")
    assert [(one["type"], one["to"]) for one in shown["edges"]] == [("blocks", "task-b"), ("blocks", "task-d")]


@pytest.mark.parametrize(
    "body",
    [
        node("person-x", "person"),
        node("agent-x", "agent"),
        node("org-x", "organization"),
        node("agent-seven", "agent", title="Renamed"),
        node("task-x", edges=[edge("stewards", "org-root")]),
        node("task-x", edges=[edge("owns", "agent-seven")]),
    ],
)
async def test_who_somebody_is_and_who_is_an_admin_is_an_admins_to_write(
    server: InProcessServer, body: dict[str, object]
) -> None:
    ben = await server.add_person("Ben")
    await server.add_agent("seven", token=ben)

    refused = await put_one(server, body, token=ben, if_exists="update")

    assert refused["code"] in {"forbidden", "invalid_request"}
    response = await server.send(
        "POST", "/v1/nodes/person-ben/edges", {"type": "stewards", "to": "org-root"}, token=ben
    )
    assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")
    assert (await server.ask("GET", "/v1/me", token=ben))["is_admin"] is False


async def test_an_admin_may_make_an_admin_by_an_edge(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")

    await server.ask("POST", "/v1/nodes/person-ben/edges", {"type": "stewards", "to": "org-root"})
    made = await put_one(server, node("org-x", "organization"), token=await server.add_person("Cy", admin=True))

    assert made["status"] == "created"
    assert ben


async def test_who_is_an_admin_no_more_makes_no_admins_by_an_edge_meanwhile(server: InProcessServer) -> None:
    dee = await server.add_person("Dee", admin=True)
    ben = await server.add_person("Ben")
    assert (await server.ask("GET", "/v1/me", token=dee))["is_admin"]
    await server.ask("DELETE", "/v1/nodes/person-dee/edges", {"type": "stewards", "to": "org-root"})

    response = await server.send(
        "POST", "/v1/nodes/person-ben/edges", {"type": "stewards", "to": "org-root"}, token=dee
    )

    assert (await server.ask("GET", "/v1/me", token=dee))["is_admin"], "it is remembered"
    assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")
    assert (await server.ask("GET", "/v1/me", token=ben))["is_admin"] is False


async def test_a_token_that_may_only_read_writes_nothing(server: InProcessServer) -> None:
    reader = (await server.ask("POST", "/v1/me/tokens", {"scope": "read"}))["token"]
    await put(server, node("task-a"))

    for path, body in (
        ("", {"nodes": [node("task-b")]}),
        ("/task-a/edges", {"type": "mentions", "to": "task-a"}),
        ("/task-a/status", {"status": "open"}),
        ("/task-a/priority", {"priority": "p1"}),
        ("/task-a/readiness", {"readiness": "agent"}),
        ("/task-a/commits", {"repo": "web", "sha": "abcdef1"}),
    ):
        response = await server.send("POST", f"/v1/nodes{path}", body, token=reader)
        assert response.status_code in ({403, 422} if path.endswith("edges") else {403}), (path, response.text)
    assert (await server.send("GET", "/v1/nodes/task-a", token=reader)).status_code == 200


async def test_a_repeated_key_gets_the_first_answer_and_changes_nothing_more(server: InProcessServer) -> None:
    body = {"nodes": [node("task-a"), {"id": "task-b"}]}
    headers = {"Idempotency-Key": "k1"}

    first = await server.send("POST", "/v1/nodes", body, headers=headers)
    before = await position(server)
    second = await server.send("POST", "/v1/nodes", body, headers=headers)
    other = await server.send("POST", "/v1/nodes", {"nodes": [node("task-c")]}, headers=headers)

    assert (first.status_code, second.status_code, other.status_code) == (207, 207, 422)
    assert second.content == first.content
    assert second.headers["Idempotency-Replayed"] == "true"
    assert await happened(server, after=before) == []


async def test_every_verb_answers_a_repeated_key_from_its_first_call(server: InProcessServer) -> None:
    await put(server, node("task-a"), node("task-b"))

    for method, path, body in (
        ("POST", "edges", {"type": "mentions", "to": "task-b"}),
        ("DELETE", "edges", {"type": "mentions", "to": "task-b"}),
        ("POST", "status", {"status": "open"}),
        ("POST", "priority", {"priority": "p1"}),
        ("POST", "readiness", {"readiness": "agent"}),
        ("POST", "commits", {"repo": "web", "sha": "abcdef1"}),
    ):
        headers = {"Idempotency-Key": f"{method} {path}"}
        first = await server.send(method, f"/v1/nodes/task-a/{path}", body, headers=headers)
        before = await position(server)
        second = await server.send(method, f"/v1/nodes/task-a/{path}", body, headers=headers)

        assert (first.json()["status"], second.content) == ("updated", first.content), (method, path)
        assert (first.headers.get("Idempotency-Replayed"), second.headers["Idempotency-Replayed"]) == (None, "true")
        assert await happened(server, after=before) == []


async def test_what_cannot_be_stored_is_replaced_in_text_and_refused_in_identifiers(server: InProcessServer) -> None:
    text = "---\nid: task-b\ntype: task\ndate: 2026-05-01\ntitle: B\nsummary: S\n---\n\na\0b\ud800"

    sent = [node("task-a", title="A\0", body="UTF-16: h\0i\0, and six letters: \\u0000"), text, node("task-\0")]
    made, by_text, refused = (await send_raw(server, json.dumps({"nodes": sent}))).json()["results"]

    assert (await read(server, "task-a"))["frontmatter"]["title"] == "A\ufffd"
    assert (await read(server, "task-a"))["body"] == "UTF-16: h\ufffdi\ufffd, and six letters: \\u0000"
    assert (await read(server, "task-b"))["body"] == "a\ufffdb\ufffd"
    assert [warning.partition(":")[0] for warning in made["warnings"]] == ["nodes[0].title", "nodes[0].body"]
    assert [warning.partition(":")[0] for warning in by_text["warnings"]] == ["nodes[1]"]
    assert (refused["code"], refused["details"][0].partition(":")[0]) == ("invalid_node", "id")


@pytest.mark.parametrize(
    "raw,status,code",
    [
        ("{", 400, "bad_request"),
        ("[]", 400, "bad_request"),
        ('{"nodes": [NaN]}', 400, "bad_request"),
        ('{"nodes": [], "nodes": []}', 400, "bad_request"),
        ('{"nodes": ["x"], "based_on": [{"kind": "version"}]}', 400, "bad_request"),
        ("{}", 422, "invalid_request"),
        ('{"nodes": []}', 422, "invalid_request"),
        ('{"nodes": "task-a"}', 422, "invalid_request"),
        ('{"nodes": ["x"], "if_exists": "merge"}', 422, "invalid_request"),
        (json.dumps({"nodes": ["x"] * 101}), 422, "invalid_request"),
        (json.dumps({"nodes": ["x" * 1_100_000]}), 413, "too_large"),
    ],
)
async def test_a_bad_batch_is_refused_whole(server: InProcessServer, raw: str, status: int, code: str) -> None:
    response = await send_raw(server, raw)

    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_a_field_nobody_knows_is_overlooked_and_named(server: InProcessServer) -> None:
    response = await server.send("POST", "/v1/nodes", {"nodes": [node("task-a", colour="red")], "dry_run": True})

    assert response.json()["warnings"] == ["dry_run: not a field of this request; ignored"]
    assert response.json()["results"][0]["warnings"] == ["colour: not a key of a node; ignored"]


@pytest.mark.parametrize("size", [200, 255, 3_000])
async def test_long_ids_and_titles_never_reach_the_database(server: InProcessServer, size: int) -> None:
    long = await put_one(server, node("task-" + "x" * (size - 5), title="T" * 100_000))
    fits = await put_one(server, node("task-" + "x" * (size - 5), title="T"))

    assert "title: 100000 code points; the limit is 300 code points" in long["details"]
    if size == 200:
        assert fits["status"] == "created"
    else:
        assert fits["details"] == [f"id: {size} bytes; the limit is 200 bytes"]


@asynccontextmanager
async def meeting(name: str, *, racers: int = 2) -> AsyncIterator[None]:
    """Let each racer wait at `name` for the others, for as long as it takes to see that they do not come."""
    arrivals, together = 0, asyncio.Event()

    async def meet() -> None:
        nonlocal arrivals
        arrivals += 1
        if arrivals >= racers:
            together.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(together.wait(), NOTICE_S)

    points.armed_async[name] = meet
    try:
        yield
    finally:
        del points.armed_async[name]


async def test_of_two_who_create_one_node_at_once_one_is_told_it_exists(server: InProcessServer) -> None:
    async with meeting("edge.written"):
        results = await asyncio.gather(*(put_one(server, node("task-a", title=title)) for title in ("One", "Two")))

    assert sorted(result["status"] for result in results) == ["created", "error"]
    assert {result.get("code") for result in results} == {None, "conflict"}
    assert len({result["revision"] for result in results}) == 1


async def test_batches_over_the_same_new_nodes_in_any_order_never_wait_for_each_other_in_a_ring(
    postgres_url: str,
) -> None:
    """D44: only PostgreSQL has rows to wait for; there a ring is broken by failing one of the batches."""
    ids = [f"task-{n}" for n in range(12)]
    orders = [ids, ids[::-1], ids[6:] + ids[:6], ids[5::-1] + ids[:5:-1]]
    async with in_process_server(postgres_url) as server, meeting("fence.checked", racers=len(orders)):
        answers = await asyncio.gather(
            *(
                server.send("POST", "/v1/nodes", {"nodes": [node(id_) for id_ in order], "if_exists": "skip"})
                for order in orders
            )
        )

    assert [answer.status_code for answer in answers] == [200] * len(orders)
    statuses = [Counter(result["status"] for result in answer.json()["results"]) for answer in answers]
    assert sorted(statuses, key=str) == [{"created": len(ids)}, *[{"skipped": len(ids)}] * (len(orders) - 1)]
    assert await deadlocks_of(postgres_url) == 0


async def test_a_put_takes_away_an_admins_edge_that_came_while_it_looked(postgres_url: str) -> None:
    """What it has to lock depends on that edge, so it looks again; on SQLite nobody writes in between."""
    stewards = {"type": "stewards", "to": "org-root"}
    async with in_process_server(postgres_url) as server:
        await put_one(server, node("task-a"))
        revision = (await server.ask("POST", "/v1/nodes/task-a/edges", stewards))["revision"]
        await server.ask("DELETE", "/v1/nodes/task-a/edges", stewards)
        async with held("tx.begun") as door:
            entry = {"node": node("task-a"), "if_exists": "update", "revision": revision}
            putting = asyncio.create_task(put_one(server, entry))
            await door.reached()
            await server.ask("POST", "/v1/nodes/task-a/edges", stewards)
            door.open()
            result = await putting

        assert result["status"] == "updated"
        assert "edges" not in (await read(server, "task-a"))["frontmatter"]


async def test_two_who_would_close_a_cycle_together_do_not(server: InProcessServer) -> None:
    await put(server, *(node(f"task-{name}") for name in "abcd"))
    for src, dst in ("bc", "da"):
        await server.ask("POST", f"/v1/nodes/task-{src}/edges", {"type": "blocks", "to": f"task-{dst}"})

    async with meeting("edge.written"):
        answers = await asyncio.gather(
            *(
                server.send("POST", f"/v1/nodes/task-{src}/edges", {"type": "blocks", "to": f"task-{dst}"})
                for src, dst in ("ab", "cd")
            )
        )

    assert sorted(answer.status_code for answer in answers) == [200, 422]


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id_,status", [("task-nowhere", 404), ("Task", 422), ("task%2Fa", 404), ("task%20a", 422), ("x" * 201, 422)]
)
async def test_a_node_that_is_not_there_is_a_404_and_no_id_at_all_a_422(
    server: InProcessServer, id_: str, status: int
) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/edges", None),
        ("POST", "/edges", {"type": "blocks", "to": "task-b"}),
        ("DELETE", "/edges", {"type": "blocks", "to": "task-b"}),
        ("POST", "/status", {"status": "open"}),
        ("POST", "/status", {"status": "active"}),
        ("POST", "/priority", {"priority": "p1"}),
        ("POST", "/readiness", {"readiness": "agent"}),
        ("POST", "/commits", {"repo": "web", "sha": "abcdef1"}),
    ):
        response = await server.send(method, f"/v1/nodes/{id_}{path}", body)
        assert response.status_code == status, (method, path, response.text)


async def test_a_node_is_read_with_its_resolution_findings_and_successors(server: InProcessServer) -> None:
    await put(
        server,
        node("task-a"),
        node("art-old", edges=[edge("resolves", "task-a")]),
        node("art-new", edges=[edge("supersedes", "art-old"), edge("supersedes", "task-a")]),
        node("dec-a", status="rejected", edges=[edge("resolves", "task-a")]),
        node("find-1", "finding", edges=[edge("relates-to", "task-a")]),
        node("find-2", "finding", status="dismissed", edges=[edge("relates-to", "task-a")]),
        node("art-note", edges=[edge("answers", "task-a"), edge("relates-to", "task-a")]),
    )

    unresolved = await read(server, "task-a")
    await put(server, node("art-fix", date="2026-05-02", status="merged", edges=[edge("resolves", "task-a")]))
    resolved = await read(server, "task-a")

    assert "resolution" not in unresolved
    assert unresolved["open_findings"] == [{"id": "find-1", "title": "About find-1", "status": None}]
    assert unresolved["superseded_by"] == [{"id": "art-new", "title": "About art-new", "status": None}]
    assert resolved["resolution"] == {
        "by": "art-fix",
        "edge": "resolves",
        "date": "2026-05-02",
        "summary": "In short",
        "title": "About art-fix",
        "lagging": True,
        "note": "art-fix resolves this node; its own status still reads open",
    }


async def test_a_claim_is_shown_as_an_edge_and_stored_as_none(server: InProcessServer, clock: ManualClock) -> None:
    ben = await server.add_person("Ben")
    agent = await server.add_agent("seven", token=ben)
    other = await server.add_agent("eight", token=ben)
    await put(server, node("task-a", edges=[edge("assigned", "agent-seven")]))
    routed = await read(server, "task-a")

    async def edges() -> Any:  # noqa: ANN401 — a reply as JSON
        return (await read(server, "task-a"))["frontmatter"]["edges"]

    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=agent)
    claimed = await edges()
    listed = await server.ask("GET", "/v1/nodes/task-a/edges")
    clock.advance(timedelta(hours=1))
    lapsed = await edges()
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=other)
    taken_over = await edges()
    put_back = await put_one(server, (await read(server, "task-a"))["raw"])
    await server.ask("POST", "/v1/nodes/task-a/release", {}, token=other)

    stored = edge("assigned", "agent-seven")
    assert claimed == lapsed == [stored, {**stored, "via": "claim", "epoch": 1}]
    assert taken_over == [stored, {"type": "assigned", "to": "agent-eight", "via": "claim", "epoch": 2}]
    assert [(one["to"], one["attrs"]) for one in listed["edges"]] == [
        ("agent-seven", {}),
        ("agent-seven", {"via": "claim", "epoch": 1}),
    ]
    assert put_back["status"] == "skipped"
    assert await read(server, "task-a") == routed


async def test_a_list_shows_what_matches_everything_asked_for(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    agent = await server.add_agent("seven", token=ben)
    await put(
        server,
        node("task-a", project="web", status="open", title="Broken 100% of the time"),
        node("task-b", project="web", edges=[edge("assigned", "agent-seven")]),
        node("task-c", project="api", summary="A BROKEN thing"),
        node("art-a", project="web"),
    )
    await server.ask("POST", "/v1/nodes/task-c/claim", {}, token=agent)

    async def ids(query: str, token: str | None = None) -> list[str]:
        return [row["id"] for row in (await server.ask("GET", f"/v1/nodes?{query}", token=token))["nodes"]]

    assert await ids("type=task") == ["task-a", "task-b", "task-c"]
    assert await ids("type=task,artifact&project=web") == ["art-a", "task-a", "task-b"]
    assert await ids("type=task&status=open") == ["task-a"]
    assert await ids("type=task&status=") == ["task-b", "task-c"]
    assert await ids("assignee=agent-seven") == ["task-b", "task-c"]
    assert await ids("assignee=me", token=agent) == ["task-b", "task-c"]
    assert await ids("text=broken&type=task") == ["task-a", "task-c"]
    assert await ids("text=100%25") == ["task-a"]
    assert await ids("text=_ask&type=task") == []
    page = await server.ask("GET", "/v1/nodes?type=task&limit=2")
    assert (page["count"], page["next"]) == (2, "task-b")
    assert await ids(f"type=task&limit=2&after={page['next']}") == ["task-c"]
    for query in (
        "type=tusk",
        "project=No",
        "limit=0",
        "limit=x",
        f"text={'x' * 201}",
        "colour=red",
        "type=task&type=task",
    ):
        assert (await server.send("GET", f"/v1/nodes?{query}")).status_code == 422, query


# --- the verbs -------------------------------------------------------------------------------------------------------


async def test_a_status_is_a_word_of_the_type_or_none(server: InProcessServer) -> None:
    await put(server, node("task-a"))

    opened = await server.ask("POST", "/v1/nodes/task-a/status", {"status": "open"})
    again = await server.ask("POST", "/v1/nodes/task-a/status", {"status": "open"})
    wrong = await server.send("POST", "/v1/nodes/task-a/status", {"status": "closed"})
    cleared = await server.ask("POST", "/v1/nodes/task-a/status", {"status": None})
    missing = await server.send("POST", "/v1/nodes/task-a/status", {})

    assert (opened["status"], opened["id"], opened["warnings"]) == ("updated", "task-a", [])
    assert (again["status"], again["revision"]) == ("skipped", opened["revision"])
    assert wrong.status_code == 422
    assert wrong.json()["error"]["code"] == "invalid_node"
    assert wrong.json()["error"]["details"] == [
        'status: "closed" is not a status of task; it takes abandoned, active, done, open, or none'
    ]
    assert cleared["status"] == "updated"
    assert missing.status_code == 422
    assert [row.verb for row in await history(server, "task-a")] == ["status", "status", "put"]
    assert [json.loads(event.data) for event in await happened(server) if event.kind == "node.status"] == [
        {"from": None, "to": "open"},
        {"from": "open", "to": None},
    ]


async def test_an_in_progress_status_claims_and_a_terminal_one_lets_nothing_go(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    agent = await server.add_agent("seven", token=ben)
    await put(server, node("task-a"), node("inc-a", "incident"))

    active = await server.ask(
        "POST", "/v1/nodes/task-a/status", {"status": "active", "session": "s1", "dispatch": "n1"}, token=agent
    )
    refused = await server.send("POST", "/v1/nodes/task-a/status", {"status": "active"}, token=ben)
    elsewhere = await server.ask("POST", "/v1/nodes/inc-a/status", {"status": "active"}, token=agent)
    await put(server, node("art-a", edges=[edge("resolves", "task-a")]), token=agent)
    done = await server.ask("POST", "/v1/nodes/task-a/status", {"status": "done"}, token=agent)

    assert (active["status"], active["expires_in_ms"]) == ("updated", 45 * 60_000)
    lease = active["lease"]
    assert (lease["by"], lease["session"], lease["dispatch"], lease["epoch"]) == ("agent-seven", "s1", "n1", 1)
    assert refused.status_code == 200, "the person who owns the agent renews its lease"
    assert "lease" not in elsewhere
    assert "lease" not in done
    assert (await read(server, "task-a"))["lease"]["by"] == "agent-seven"


async def test_a_status_that_cannot_claim_is_not_set(server: InProcessServer) -> None:
    agent = await server.add_agent("seven", token=await server.add_person("Ben"))
    stranger = await server.add_agent("nine", token=await server.add_person("Cy"))
    await put(server, node("task-a"), node("task-b"), node("art-b", edges=[edge("resolves", "task-b")]))
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=agent)

    held_by_another = await server.send("POST", "/v1/nodes/task-a/status", {"status": "active"}, token=stranger)
    resolved = await server.send("POST", "/v1/nodes/task-b/status", {"status": "active"}, token=stranger)

    assert (held_by_another.status_code, held_by_another.json()["error"]["code"]) == (409, "already_claimed")
    assert held_by_another.json()["holder"]["by"] == "agent-seven"
    assert (resolved.status_code, resolved.json()["error"]["code"]) == (409, "not_ready")
    for id_ in ("task-a", "task-b"):
        assert "status" not in (await read(server, id_))["frontmatter"]
    assert "lease" not in await read(server, "task-b")


async def test_a_status_that_claims_is_never_answered_from_an_earlier_call(
    server: InProcessServer, clock: ManualClock
) -> None:
    agent = await server.add_agent("seven", token=await server.add_person("Ben"))
    stranger = await server.add_agent("nine", token=await server.add_person("Cy"))
    await put(server, node("task-a"))
    sent = {"status": "active"}, {"Idempotency-Key": "k1"}

    first = await server.send("POST", "/v1/nodes/task-a/status", sent[0], token=agent, headers=sent[1])
    clock.advance(timedelta(minutes=50))
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=stranger)
    second = await server.send("POST", "/v1/nodes/task-a/status", sent[0], token=agent, headers=sent[1])

    assert first.status_code == 200
    assert (second.status_code, second.json()["error"]["code"]) == (409, "already_claimed")


async def test_a_priority_is_stamped_and_cleared_with_its_stamp(server: InProcessServer, clock: ManualClock) -> None:
    await put(server, node("task-a"))

    async def shown() -> dict[str, str]:
        keys = (await read(server, "task-a"))["frontmatter"]
        return {key: value for key, value in keys.items() if key.startswith("priority")}

    await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p2"})
    stamped = await shown()
    clock.advance(timedelta(hours=1))
    again = await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p2"})
    kept = await shown()
    wrong = await server.send("POST", "/v1/nodes/task-a/priority", {"priority": "urgent"})
    await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "none"})

    assert (
        stamped
        == kept
        == {
            "priority": "p2",
            "priority_by": "Ada Admin <ada@example.org>",
            "priority_at": "2026-06-01T12:00:00.000+00:00",
            "priority_via": "rest",
        }
    )
    assert again["status"] == "skipped"
    assert (wrong.status_code, wrong.json()["error"]["details"]) == (422, ["p1", "p2", "p3", "clear", "none", "p0"])
    assert await shown() == {}


async def test_a_person_makes_an_item_ready_and_forgives_its_lapses(
    server: InProcessServer, clock: ManualClock
) -> None:
    ben = await server.add_person("Ben")
    agents = [await server.add_agent(label, token=ben) for label in ("one", "two")]
    await put(server, node("task-a", readiness="agent"))
    for turn in range(6):
        await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=agents[turn % 2])
        clock.advance(timedelta(hours=1))

    async def item() -> Any:  # noqa: ANN401 — a reply as JSON
        (found,) = (await server.ask("GET", "/v1/queue?type=task", token=ben))["items"]
        return found

    poisoned = await item()
    by_agent = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"}, token=agents[0])
    still = await item()
    by_person = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"}, token=ben)
    again = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"}, token=ben)

    assert (poisoned["readiness"], poisoned["readiness_reasons"]) == ("human", ["lapsed 5 times"])
    assert by_agent["status"] == "skipped"
    assert still["readiness"] == "human"
    assert (by_person["status"], (await item())["readiness"]) == ("updated", "agent")
    assert again["status"] == "skipped"


async def test_an_agents_word_makes_an_item_ready_only_where_the_policy_says_so(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    agent = await server.add_agent("seven", token=ben)
    await put(server, node("task-a", project="web"), node("task-b", project="api"))
    await server.ask("PUT", "/v1/policy/api", {"agents_may_ready": True})

    unheard = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"}, token=agent)
    heard = await server.ask("POST", "/v1/nodes/task-b/readiness", {"readiness": "agent"}, token=agent)
    before = {item["id"]: item.get("readiness") for item in (await server.ask("GET", "/v1/queue"))["items"]}
    confirmed = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"}, token=ben)
    after = {item["id"]: item.get("readiness") for item in (await server.ask("GET", "/v1/queue"))["items"]}
    cleared = await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "clear"}, token=agent)
    wrong = await server.send("POST", "/v1/nodes/task-a/readiness", {"readiness": "human"}, token=ben)

    assert [warning.partition(":")[0] for warning in unheard["warnings"]] == ["readiness"]
    assert heard["warnings"] == []
    assert before == {"task-a": None, "task-b": "agent"}
    assert (confirmed["status"], after["task-a"]) == ("updated", "agent")
    assert cleared["status"] == "updated"
    assert not [key for key in (await read(server, "task-a"))["frontmatter"] if key.startswith("readiness")]
    assert wrong.json()["error"]["code"] == "invalid_node"


async def test_commits_are_listed_once_each(server: InProcessServer) -> None:
    await put(server, node("task-a"))

    async def add(sha: str) -> str:
        reply = await server.ask("POST", "/v1/nodes/task-a/commits", {"repo": "web", "sha": sha})
        return str(reply["status"])

    assert [await add(sha) for sha in ("abcdef1", "abcdef1", "abcdef1234", "abcdef1")] == [
        "updated",
        "skipped",
        "updated",
        "skipped",
    ]
    assert (await read(server, "task-a"))["frontmatter"]["commits"] == ["web@abcdef1234"]
    for repo, sha in (("web", "abc"), ("web", "ABCDEF1"), ("", "abcdef1"), ("w b", "abcdef1")):
        response = await server.send("POST", "/v1/nodes/task-a/commits", {"repo": repo, "sha": sha})
        assert response.json()["error"]["code"] == "invalid_node", (repo, sha)
    many = node("task-b", commits=[f"web@{n:040x}" for n in range(40)])
    await put(server, many)
    full = await server.send("POST", "/v1/nodes/task-b/commits", {"repo": "web", "sha": "f" * 40})
    assert full.json()["error"]["details"] == ["commits: 41 commits; the limit is 40 commits"]
