"""Questions through the API: where they go, what waits for them, what answers them, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def put(server: InProcessServer, *nodes: dict[str, object], token: str | None = None) -> None:
    """Put nodes that need nothing but an id and a type."""
    entries = [{"title": f"About {node['id']}", "summary": "S", "date": "2026-06-01", **node} for node in nodes]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": entries}, token=token))["results"]
    assert all(result["ok"] for result in results), results


def task(id_: str, **rest: object) -> dict[str, object]:
    return {"id": id_, "type": "task", **rest}


async def ask(server: InProcessServer, text: str, *, token: str | None = None, **rest: object) -> Any:  # noqa: ANN401
    return await server.ask("POST", "/v1/questions", {"text": text, **rest}, token=token)


async def shown(server: InProcessServer, node: str) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("GET", f"/v1/nodes/{node}")


async def test_a_question_is_a_node_with_what_it_mentions_and_whom_it_goes_to(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    await put(server, task("task-a", project="mail"), token=pat)

    reply = await ask(server, "Which port?\n\nThe unit file says 80.", mentions=["task-a"])
    node = await shown(server, "question-which-port")

    revision = reply.pop("revision")
    assert reply == {
        "status": "created",
        "id": "question-which-port",
        "project": "mail",
        "routed_to": "person-pat",
        "via": "author",
        "asker": "person-ada-admin",
        "warnings": [],
    }
    front = node["frontmatter"]
    assert node["revision"] == revision
    assert {key: front[key] for key in ("type", "title", "summary", "status", "project", "author")} == {
        "type": "question",
        "title": "Which port?",
        "summary": "Which port? The unit file says 80.",
        "status": "open",
        "project": "mail",
        "author": "person-ada-admin",
    }
    assert front["edges"] == [{"type": "mentions", "to": "task-a"}, {"type": "routed-to", "to": "person-pat"}]
    assert node["body"] == "Which port?\n\nThe unit file says 80."
