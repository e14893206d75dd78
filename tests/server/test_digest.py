"""Briefings through their door: what is told around a node, what about a question, and in which order."""

from __future__ import annotations

from typing import Any, Final

import pytest

from batonpass.core.digest_text import CAUTION
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

DAY: Final = "2026-05-01"


def node(id_: str, type_: str, *edges: tuple[str, str], title: str | None = None, **more: object) -> dict[str, object]:
    """Return a node whose words are like no other's, unless `more` gives it some."""
    own = id_.replace("-", "")
    fields = {"id": id_, "type": type_, "title": title or own, "summary": f"{own}summary", "date": DAY}
    return {**fields, "edges": [{"type": kind, "to": to} for kind, to in edges], **more}


async def put(server: InProcessServer, *nodes: dict[str, object], token: str | None = None) -> None:
    """File nodes, a few at a time, in their order."""
    for at in range(0, len(nodes), 100):
        await server.ask("POST", "/v1/nodes", {"nodes": nodes[at : at + 100]}, token=token)


async def digest(server: InProcessServer, **asked: object) -> Any:  # noqa: ANN401 — a reply
    return await server.ask("POST", "/v1/digest", asked)


def listed(text: str) -> list[str]:
    """Return the ids of the lines of nodes, in order."""
    return [line.split("`")[1] for line in text.splitlines() if line.startswith("- `")]


def section(text: str, heading: str) -> list[str]:
    """Return the ids under a heading."""
    _, _, rest = text.partition(f"## {heading}\n")
    return listed(rest.partition("\n## ")[0])


async def test_what_stands_around_a_node_is_told_by_the_best_path_to_it(server: InProcessServer) -> None:
    await put(
        server,
        node("dec-store", "decision", ("derived-from", "spec-old")),
        node("spec-old", "artifact"),
        node("task-root", "task", ("derived-from", "dec-store"), ("relates-to", "task-beside")),
        node("task-beside", "task", ("relates-to", "task-far")),
        node("task-far", "task", ("relates-to", "task-too-far")),
        node("task-too-far", "task"),
        node("task-in", "task", ("blocks", "task-root")),
        node("profile-light", "profile", ("focuses-on", "task-root")),
    )

    found = await digest(server, root="task-root")

    # .9, .9 × .9, .7, .5, .5 × .5; a direct neighbour stays however light its edge is; .125 is too little.
    assert section(found["text"], "Lineage") == [
        "dec-store",
        "spec-old",
        "task-in",
        "task-beside",
        "task-far",
        "profile-light",
    ]
    assert found["found"] is True
    assert found["node_ids"] == listed(found["text"])
    assert found["text"].splitlines()[0] == CAUTION


async def test_a_root_that_is_not_there_and_a_malformed_slug_are_422(server: InProcessServer) -> None:
    await put(server, node("task-root", "task"))
    answers = [
        await server.send("POST", "/v1/digest", body)
        for body in (
            {"root": "task-nowhere"},
            {"root": "task-root", "project": "Not A Slug"},
            {"root": "task-root", "min_sim": 2},
            {"root": "task-root", "mode": "whole"},
            {"query": "x" * 2_001},
            {"query": "  "},
            {},
        )
    ]

    assert [(answer.status_code, answer.json()["error"].get("field")) for answer in answers] == [
        (422, "root"),
        (422, "project"),
        (422, "min_sim"),
        (422, "mode"),
        (422, "query"),
        (422, "root"),
        (422, "root"),
    ]


async def test_finding_nothing_is_an_answer(server: InProcessServer) -> None:
    await put(server, node("task-root", "task"))

    alone = await digest(server, root="task-root")
    unlike = await digest(server, query="zeppelin hangars")

    assert alone == {"found": False, "text": "", "node_ids": [], "top_sim": 0.0}
    assert unlike == {"found": False, "text": "", "node_ids": [], "top_sim": 0.0}
