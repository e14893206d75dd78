"""Which nodes carry a commit: found by its hash or the beginning of it, however it was noted."""

from __future__ import annotations

from typing import Any

import pytest

from batonpass.store import check
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

SHA = "0123456789abcdef0123456789abcdef01234567"


def task(id_: str, *commits: str) -> dict[str, object]:
    return {
        "id": id_,
        "type": "task",
        "title": id_,
        "summary": "In short",
        "date": "2026-05-01",
        "commits": list(commits),
    }


async def found(server: InProcessServer, sha: str, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await server.ask("GET", f"/v1/commits/{sha}?{asked}")


async def carriers(server: InProcessServer, sha: str, **query: object) -> dict[str, list[str]]:
    return {node["id"]: node["commits"] for node in (await found(server, sha, **query))["nodes"]}


async def test_a_commit_is_found_whole_or_by_its_beginning_on_either_side(server: InProcessServer) -> None:
    entries = [
        task("task-whole", f"web@{SHA}"),
        task("task-short", f"web@{SHA[:9]}"),
        task("task-twin", f"web@{SHA[:7]}ffff"),
        task("task-other", "web@fedcba9", f"api@{SHA[:12]}"),
    ]
    await server.ask("POST", "/v1/nodes", {"nodes": entries})

    assert set(await carriers(server, SHA)) == {"task-whole", "task-short", "task-other"}
    assert set(await carriers(server, SHA[:7])) == {"task-whole", "task-short", "task-twin", "task-other"}
    assert await carriers(server, SHA, repo="api") == {"task-other": [f"api@{SHA[:12]}"]}
    assert await carriers(server, "fedcba98765") == {"task-other": ["web@fedcba9"]}
    assert await carriers(server, "fedcba8") == {}


async def test_what_a_node_carries_is_what_is_found_after_every_way_to_write_it(
    server: InProcessServer, database_url: str
) -> None:
    await server.ask("POST", "/v1/nodes", {"nodes": [task("task-a", "web@aaaaaaa1")]})
    added = await server.ask("POST", "/v1/nodes/task-a/commits", {"repo": "web", "sha": "bbbbbbb2"})
    assert [set(await carriers(server, sha)) for sha in ("aaaaaaa", "bbbbbbb")] == [{"task-a"}, {"task-a"}]
    assert check.check(database_url).findings == ()

    longer = await server.ask("POST", "/v1/nodes/task-a/commits", {"repo": "web", "sha": "bbbbbbb2cc"})
    assert await carriers(server, "bbbbbbb") == {"task-a": ["web@bbbbbbb2cc"]}
    assert added["revision"] != longer["revision"]

    entry = {"node": task("task-a", "api@ddddddd"), "if_exists": "update", "revision": longer["revision"]}
    await server.ask("POST", "/v1/nodes", {"nodes": [entry]})
    assert [set(await carriers(server, sha)) for sha in ("aaaaaaa", "bbbbbbb", "ddddddd")] == [set(), set(), {"task-a"}]
    assert check.check(database_url).findings == ()


async def test_pages_together_are_all_that_carry_it(server: InProcessServer) -> None:
    await server.ask("POST", "/v1/nodes", {"nodes": [task(f"task-{i}", f"web@{SHA}") for i in range(5)]})

    first = await found(server, SHA, limit=3)
    second = await found(server, SHA, limit=3, after=first["next"])

    assert (first["count"], first["next"], second["next"]) == (3, "task-2", None)
    assert [node["id"] for page in (first, second) for node in page["nodes"]] == [f"task-{i}" for i in range(5)]


@pytest.mark.parametrize("sha", ["abcdef", "ABCDEF1", "not-hex", "a" * 41])
async def test_what_is_no_hash_is_refused(server: InProcessServer, sha: str) -> None:
    refused = await server.send("GET", f"/v1/commits/{sha}")

    assert refused.status_code == 422
    assert "7 to 40 lower-case hex digits" in refused.json()["error"]["message"]
