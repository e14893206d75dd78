"""Capture through the API: whatever the text is, all of it is kept, and it says where it was found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

TOGETHER = 6
MIB = 1024 * 1024


async def put(server: InProcessServer, *ids: str, **rest: object) -> None:
    nodes = [{"id": i, "type": "task", "title": i, "summary": "S", "date": "2026-06-01", **rest} for i in ids]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": nodes}))["results"]
    assert all(result["ok"] for result in results), results


async def capture(server: InProcessServer, text: str, *, token: str | None = None, **rest: object) -> Any:  # noqa: ANN401
    return await server.ask("POST", "/v1/capture", {"text": text, **rest}, token=token)


async def kept(server: InProcessServer, ids: list[str]) -> str:
    """Return the text that some nodes keep between them."""
    nodes = [await server.ask("GET", f"/v1/nodes/{node}") for node in ids]
    return "".join(node["body"] or node["frontmatter"]["summary"] for node in nodes)


async def test_a_text_is_kept_as_one_node_that_waits_to_be_sorted(server: InProcessServer) -> None:
    await put(server, "task-a", "task-b", project="mail")

    reply = await capture(
        server, "The build is slow.\n\nIt fetches everything.", during="task-a", blocks=["task-b"], date="2026-06-02"
    )
    node = await server.ask("GET", "/v1/nodes/cap-the-build-is-slow")

    assert reply == {"status": "created", "ids": ["cap-the-build-is-slow"], "warnings": []}
    front = node["frontmatter"]
    assert (front["type"], front["title"], front["project"], front["date"], "status" in front) == (
        "capture-pending",
        "The build is slow.",
        "mail",
        "2026-06-02",
        False,
    )
    assert front["edges"] == [{"type": "blocks", "to": "task-b"}, {"type": "derived-from", "to": "task-a"}]
    assert node["body"] == "The build is slow.\n\nIt fetches everything."


TEXTS = (
    "x" * 8192,
    "x" * 8193,
    "ü" * 10_000,
    "𝄞" * 7_000,
    "line\n" * 5_000,
    "---\nid: task-1\n---\n",
    "title: x: y\t#\n\n  - 'quoted' \"twice\"\n\n\n",
    "\n\n  leading and trailing  \n\n",
    "\x1b[31mred\x07 \u202e \u2028 \x85",
    "日本語のテキスト",
    "TODO",
)


async def test_every_text_comes_back_whole(server: InProcessServer) -> None:
    for text in TEXTS:
        reply = await capture(server, text)

        assert await kept(server, reply["ids"]) == text
        assert reply["warnings"] == []


async def test_a_text_as_long_as_a_request_may_be_is_kept_and_is_one_item(server: InProcessServer) -> None:
    text = "".join(f"{n:07}\n" for n in range((MIB - 4096) // 9))

    reply = await capture(server, text, title="T" * 300)
    ids = reply["ids"]

    assert len(ids) == -(-len(text) // 8192)
    assert await kept(server, ids) == text
    inbox = await server.ask("GET", "/v1/inbox")
    assert [entry["id"] for entry in inbox["pending"]] == ids[:1]
    last = (await server.ask("GET", f"/v1/nodes/{ids[-1]}"))["frontmatter"]
    assert (last["type"], last["status"], last["edges"]) == (
        "artifact",
        "done",
        [{"type": "derived-from", "to": ids[0]}],
    )
    assert last["title"].endswith(f"T (part {len(ids)} of {len(ids)})")


async def test_what_no_database_can_hold_is_replaced_and_named(server: InProcessServer) -> None:
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    sent = await server.http.post("/v1/capture", content=b'{"text": "a\\u0000b\\ud800c"}', headers=headers)

    reply = sent.json()
    assert reply["warnings"] == ["text: 2 characters that cannot be stored (NUL or lone surrogates) became U+FFFD"]
    assert await kept(server, reply["ids"]) == "a\ufffdb\ufffdc"


async def test_line_ends_are_kept_as_every_body_has_them(server: InProcessServer) -> None:
    assert await kept(server, (await capture(server, "a\r\nb\rc"))["ids"]) == "a\nb\nc"


REFUSED: tuple[tuple[dict[str, object], int, str], ...] = (
    ({"text": ""}, 422, "text: required"),
    ({"text": " \n\t"}, 422, "text: required"),
    ({"text": 7}, 422, "text: "),
    ({}, 422, "text: "),
    ({"text": "x", "blocks": ["task-a", "task-x", "task-y"]}, 404, "blocks: there is no node task-x, task-y"),
    ({"text": "x", "during": "task-x"}, 404, "during: there is no node task-x"),
    ({"text": "x", "date": "2026-02-30"}, 422, 'date: "2026-02-30" is not a day'),
    ({"text": "x", "project": "No"}, 422, "project: "),
    ({"text": "x", "blocks": ["Task-a"]}, 422, "blocks[0]: "),
    ({"text": "x", "blocks": [f"task-{n}" for n in range(41)]}, 422, "blocks: 41 ids; the limit is 40"),
    ({"text": "x", "title": " "}, 422, "title: required"),
    ({"text": "x", "other": 1}, 422, "other: not a field"),
)


async def test_what_is_refused_is_named_and_nothing_is_kept(server: InProcessServer) -> None:
    await put(server, "task-a")

    for body, status, words in REFUSED:
        refused = await server.send("POST", "/v1/capture", body)
        assert (refused.status_code, words in refused.json()["error"]["message"]) == (status, True), refused.text

    assert (await server.ask("GET", "/v1/nodes?type=capture-pending"))["count"] == 0


async def test_a_run_finds_things_during_its_own_node(server: InProcessServer) -> None:
    await put(server, "task-a", project="mail")
    agent = await server.add_agent("mill")
    lease = (await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=agent))["lease"]
    tenure = {"lease": {"node": "task-a", "epoch": lease["epoch"]}}
    run = (await server.ask("POST", "/v1/agents/agent-mill/token", tenure, token=agent))["token"]

    (node,) = (await capture(server, "The build is slow.", token=run))["ids"]

    front = (await server.ask("GET", f"/v1/nodes/{node}"))["frontmatter"]
    assert (front["edges"], front["project"], front["authored_by_agent"]) == (
        [{"type": "derived-from", "to": "task-a"}],
        "mail",
        "agent-mill",
    )


async def test_a_capture_is_sorted_by_its_status(server: InProcessServer) -> None:
    first, second = [(await capture(server, "The build is slow."))["ids"][0] for _ in range(2)]
    await server.ask("POST", f"/v1/nodes/{first}/status", {"status": "merged"})
    await server.ask("POST", f"/v1/nodes/{second}/status", {"status": "rejected"})

    assert (first, second) == ("cap-the-build-is-slow", "cap-the-build-is-slow-2")
    assert (await server.ask("GET", "/v1/inbox"))["pending"] == []
    assert (await server.ask("GET", "/v1/queue"))["items"] == []


async def test_the_same_text_captured_by_several_at_once_is_kept_for_each(server: InProcessServer) -> None:
    text = "x" * 9000
    replies = await asyncio.gather(*(capture(server, text, title="Slow") for _ in range(TOGETHER)))

    assert len({node for reply in replies for node in reply["ids"]}) == 2 * TOGETHER
    assert sorted(reply["ids"][0] for reply in replies) == [
        "cap-slow",
        *(f"cap-slow-{n}" for n in range(2, TOGETHER + 1)),
    ]


async def test_a_capture_that_is_sent_again_is_kept_once(server: InProcessServer) -> None:
    body = {"text": "The build is slow."}
    first = await server.send("POST", "/v1/capture", body, headers={"Idempotency-Key": "k-1"})
    again = await server.send("POST", "/v1/capture", body, headers={"Idempotency-Key": "k-1"})

    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await server.ask("GET", "/v1/nodes?type=capture-pending"))["count"] == 1
