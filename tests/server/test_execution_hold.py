"""An item under a controller's hold: reads say so, and nothing completes it but the write that takes the hold away."""

from __future__ import annotations

from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

HELD = "exec-0123456789abcdef"


def task(**keys: object) -> dict[str, object]:
    return {"id": "task-a", "type": "task", "title": "A", "summary": "A", "date": "2026-05-01", **keys}


async def put(server: InProcessServer, entry: dict[str, object], revision: str | None = None) -> Any:  # noqa: ANN401
    given = entry if revision is None else {"node": entry, "if_exists": "update", "revision": revision}
    (result,) = (await server.send("POST", "/v1/nodes", {"nodes": [given]})).json()["results"]
    return result


async def resolved(server: InProcessServer) -> str:
    """Make a held task that has its resolver, and return its revision."""
    revision = (await put(server, task(execution=HELD)))["revision"]
    artifact = {**task(), "id": "art-a", "type": "artifact", "edges": [{"type": "resolves", "to": "task-a"}]}
    await put(server, artifact)
    return str(revision)


async def test_reads_say_what_an_item_is_held_by(server: InProcessServer) -> None:
    revision = await resolved(server)

    held = await server.ask("GET", "/v1/nodes/task-a")
    await put(server, task(), revision)

    assert held["execution_hold"]["execution"] == HELD
    assert "takes the key `execution` away" in held["execution_hold"]["note"]
    assert "execution_hold" not in await server.ask("GET", "/v1/nodes/task-a")


async def test_nothing_completes_it_but_the_write_that_takes_the_hold_away(server: InProcessServer) -> None:
    revision = await resolved(server)

    by_verb = await server.send("POST", "/v1/nodes/task-a/status", {"status": "done"})
    by_put = await put(server, task(execution=HELD, status="done"), revision)
    late = await put(server, task(status="done"), "0" * 40)
    both = await put(server, task(status="done"), revision)

    assert (by_verb.status_code, by_verb.json()["error"]["code"]) == (409, "transition_denied")
    assert f"is held by {HELD}" in by_verb.json()["error"]["message"]
    assert (by_put["ok"], by_put["code"], by_put["revision"]) == (False, "transition_denied", revision)
    assert (late["ok"], late["code"]) == (False, "conflict")
    assert (both["status"], (await server.ask("GET", "/v1/nodes/task-a"))["frontmatter"]["status"]) == (
        "updated",
        "done",
    )


async def test_it_may_be_given_up_and_a_completed_one_may_be_written_on(server: InProcessServer) -> None:
    await put(server, task(execution=HELD))
    given_up = await server.send("POST", "/v1/nodes/task-a/status", {"status": "abandoned"})
    born = await put(server, {**task(execution=HELD, status="answered"), "id": "question-a", "type": "question"})
    plain = await put(server, {**task(status="answered"), "id": "question-b", "type": "question"})
    on = {**task(execution=HELD, status="answered"), "id": "question-b", "type": "question"}

    assert given_up.status_code == 200
    assert (born["ok"], born["code"]) == (False, "transition_denied")
    assert (await put(server, on, plain["revision"]))["status"] == "updated"
