"""A project's briefing through its door."""

from __future__ import annotations

from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def put(server: InProcessServer, *nodes: dict[str, object]) -> None:
    told = [{"title": node["id"], "summary": f"About {node['id']}.", "date": "2026-05-01", **node} for node in nodes]
    await server.ask("POST", "/v1/nodes", {"nodes": told})


async def briefing(server: InProcessServer, project: str, **query: str) -> Any:  # noqa: ANN401 — a reply
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await server.ask("GET", f"/v1/briefing/{project}?{asked}")


def headings(text: str) -> list[str]:
    return [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]


async def test_a_projects_brief_corrections_news_and_norms_are_told_in_order(server: InProcessServer) -> None:
    await put(
        server,
        {"id": "repo-web", "type": "repo", "edges": [{"type": "grouped-under", "to": "proj-shop"}]},
        {"id": "proj-shop", "type": "project"},
        {"id": "brief-web", "type": "briefing", "body": "Orders come first."},
        {"id": "brief-shop", "type": "briefing", "body": "We sell shoes."},
        {"id": "corr-web-1", "type": "correction", "target": "project:web", "body": "Not orders: carts."},
        {"id": "corr-shop-1", "type": "correction", "target": "project:shop", "status": "applied"},
        {"id": "dec-carts", "type": "decision", "project": "web"},
        {"id": "dec-dropped", "type": "decision", "project": "web", "status": "rejected"},
        {"id": "dec-elsewhere", "type": "decision", "project": "mail"},
        {"id": "norm-shop", "type": "norm", "applies_to_projects": ["proj-shop"], "body": "Small commits."},
        {"id": "norm-mail", "type": "norm", "applies_to_repos": ["mail"]},
    )

    found = await briefing(server, "web")

    assert (found["found"], found["graph_status"]) == (True, "ready")
    assert headings(found["body"]) == ["The project's brief", "Corrections", "Lately", "Norms"]
    for line in ("> Orders come first.", "> Not orders: carts.", "> Small commits."):
        assert f"\n{line}\n" in found["body"]
    assert "dec-carts" in found["body"]
    assert not {word for word in ("dropped", "elsewhere", "norm-mail", "shoes") if word in found["body"]}
    assert "> We sell shoes." in found["project_brief"]
    assert "corr-shop-1" not in found["project_brief"]


async def test_only_a_bare_slug_brings_the_brief_of_what_it_is_grouped_under(server: InProcessServer) -> None:
    await put(
        server,
        {"id": "proj-shop", "type": "project"},
        {"id": "repo-web", "type": "repo", "edges": [{"type": "grouped-under", "to": "proj-shop"}]},
        {
            "id": "brief-new",
            "type": "briefing",
            "edges": [{"type": "compiled-for", "to": "proj-shop"}],
            "body": "Shoes.",
        },
    )

    bare, pinned, grouping = [await briefing(server, name) for name in ("web", "repo-web", "proj-shop")]

    assert (bare["found"], bare["body"], "> Shoes." in bare["project_brief"]) == (True, "", True)
    assert (pinned["found"], pinned["version"], "project_brief" in pinned) == (False, None, False)
    assert "> Shoes." in grouping["body"]
    assert [each["graph_status"] for each in (bare, pinned, grouping)] == ["empty", "empty", "empty"]


async def test_a_checkout_is_known_by_another_name_or_by_what_tells_it_apart(server: InProcessServer) -> None:
    await put(
        server,
        {"id": "repo-web", "type": "repo", "slugs": ["website"], "fingerprints": ["abc123"]},
        {"id": "brief-web", "type": "briefing", "body": "Orders."},
    )

    named = await briefing(server, "website")
    printed = await briefing(server, "fork", fp="other,abc123")
    unknown = await briefing(server, "fork", fp="other")

    assert "> Orders." in named["body"]
    assert printed == named
    assert unknown == {"found": False, "version": None, "body": "", "graph_status": "unknown"}


async def test_a_version_names_its_text(server: InProcessServer) -> None:
    await put(server, {"id": "brief-web", "type": "briefing", "body": "One."})
    first, again = await briefing(server, "web"), await briefing(server, "web")
    await put(server, {"id": "dec-new", "type": "decision", "project": "web"})

    later = await briefing(server, "web")

    assert first == again
    assert later["version"] != first["version"]


@pytest.mark.parametrize(
    "path, field", [("Not-A-Slug", "project"), ("web?fp=%00", "fp"), ("web?fp=" + "a," * 21, "fp")]
)
async def test_a_malformed_slug_or_fingerprint_is_422(server: InProcessServer, path: str, field: str) -> None:
    answer = await server.send("GET", f"/v1/briefing/{path}")

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
