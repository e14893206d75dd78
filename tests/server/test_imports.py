"""What imports may ask of the batch door: cycles with a warning, and for admins the past of what they bring."""

from __future__ import annotations

from typing import Any, Final

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

PAST: Final[dict[str, object]] = {
    "author": "person-ann",
    "authored_by_agent": "agent-old",
    "session": "s-9",
    "authored_via": "dispatch",
    "created_at": "2026-01-02T03:04:05.678+00:00",
    "updated_at": "2026-02-02T03:04:05.678+02:00",
    "priority_by": "Ann <ann@example.org>",
    "priority_at": "2026-01-03T03:04:05.678+00:00",
    "priority_via": "cli",
    "readiness_by": "agent-old for Ann <ann@example.org>",
    "readiness_at": "2026-01-04T03:04:05.678+00:00",
    "readiness_via": "dispatch",
}


def task(name: str, **keys: object) -> dict[str, object]:
    """Return a task that may be put."""
    return {"id": f"task-{name}", "type": "task", "title": name, "summary": name, "date": "2026-01-01", **keys}


def blocking(name: str, *others: str, **keys: object) -> dict[str, object]:
    """Return a task that blocks others."""
    return task(name, edges=[{"type": "blocks", "to": f"task-{other}"} for other in others], **keys)


async def put(
    server: InProcessServer, *entries: dict[str, object], token: str | None = None, **asked: object
) -> list[dict[str, Any]]:
    """Put nodes and return the results."""
    reply = await server.ask("POST", "/v1/nodes", {"nodes": entries, **asked}, token=token)
    results: list[dict[str, Any]] = reply["results"]
    return results


async def frontmatter(server: InProcessServer, node: str) -> dict[str, Any]:
    """Return the keys of a node as they are shown."""
    shown: dict[str, Any] = (await server.ask("GET", f"/v1/nodes/{node}"))["frontmatter"]
    return shown


# --- cycles (D41) ----------------------------------------------------------------------------------------------------


async def test_a_cycle_of_blockers_is_refused_unless_an_import_asks_to_be_warned(server: InProcessServer) -> None:
    ring = [blocking("a", "b"), blocking("b", "c"), blocking("c", "a")]

    refused = await put(server, *ring)
    warned = await put(server, ring[2], cycles="warn")

    assert [result["ok"] for result in refused] == [True, True, False]
    assert (refused[2]["code"], refused[2]["details"]) == ("invalid_edge", ["task-c", "task-a", "task-b", "task-c"])
    assert warned[0]["status"] == "created"
    (warning,) = warned[0]["warnings"]
    assert warning == (
        "edges: a cycle of blockers, of which none can be begun before another:"
        " task-c blocks task-a blocks task-b blocks task-c"
    )


async def test_a_cycle_that_stands_keeps_nobody_from_changing_its_nodes(server: InProcessServer) -> None:
    await put(server, blocking("a", "b"), blocking("b", "a"), cycles="warn")

    changed = await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p1"})
    beside = await put(server, blocking("c", "a"))
    closing = await server.send("POST", "/v1/nodes/task-b/edges", {"type": "blocks", "to": "task-c"})

    assert changed["status"] == "updated"
    assert beside[0]["status"] == "created"
    assert closing.json()["error"]["code"] == "invalid_edge"


async def test_nothing_of_a_cycle_can_be_claimed_by_the_queue(server: InProcessServer) -> None:
    agent = await server.add_agent("mill")
    await put(server, blocking("a", "b", readiness="agent"), blocking("b", "a", readiness="agent"), cycles="warn")

    taken = await server.ask("POST", "/v1/queue/next", {"accept": "open"}, token=agent)

    assert taken["status"] == "empty"


# --- the past (D12, D16b) --------------------------------------------------------------------------------------------


async def test_an_admins_import_keeps_authors_stamps_and_times(server: InProcessServer) -> None:
    node = task("old", priority="p1", readiness="agent", **PAST)

    await put(server, node, keep_attribution=True)

    shown = await frontmatter(server, "task-old")
    assert {key: shown[key] for key in PAST} == {**PAST, "updated_at": "2026-02-02T01:04:05.678+00:00"}


async def test_what_was_kept_comes_out_as_it_went_in_to_the_byte(server: InProcessServer) -> None:
    await put(server, task("old", priority="p1", readiness="agent", **PAST), keep_attribution=True)
    text = (await server.ask("GET", "/v1/nodes/task-old"))["raw"]
    copy = text.replace("task-old", "task-new")

    first = await server.ask("POST", "/v1/nodes", {"nodes": [copy], "keep_attribution": True})
    second = await server.ask("POST", "/v1/nodes", {"nodes": [copy], "keep_attribution": True})

    assert (await server.ask("GET", "/v1/nodes/task-new"))["raw"] == copy
    assert [reply["results"][0]["status"] for reply in (first, second)] == ["created", "skipped"]


async def test_the_same_text_with_another_past_is_an_update_that_moves_no_revision(server: InProcessServer) -> None:
    (before,) = await put(server, task("old"))

    (after,) = await put(
        server,
        {"node": task("old", **PAST), "if_exists": "update", "revision": before["revision"]},
        keep_attribution=True,
    )

    assert (after["status"], after["revision"]) == ("updated", before["revision"])
    assert (await frontmatter(server, "task-old"))["author"] == "person-ann"


async def test_readiness_that_an_agent_wrote_is_no_more_consent_after_an_import(server: InProcessServer) -> None:
    agent = await server.add_agent("mill")
    by_person = {**PAST, "readiness_via": "cli", "readiness_by": "Ann <ann@example.org>"}
    entries = [task("by-agent", readiness="agent", **PAST), task("by-person", readiness="agent", **by_person)]
    await put(server, *entries, keep_attribution=True)

    taken = [await server.ask("POST", "/v1/queue/next", {}, token=agent) for _ in range(2)]

    assert [answer["status"] for answer in taken] == ["claimed", "empty"]
    assert taken[0]["item"]["id"] == "task-by-person"


async def test_routing_that_an_agent_wrote_is_no_more_consent_after_an_import(server: InProcessServer) -> None:
    agent = await server.add_agent("mill")
    routed = task("routed", edges=[{"type": "assigned", "to": "agent-mill"}], **PAST)
    await put(server, routed, keep_attribution=True)

    assert (await server.ask("POST", "/v1/queue/next", {}, token=agent))["status"] == "empty"


async def test_through_every_other_door_a_past_counts_for_nothing(server: InProcessServer) -> None:
    person = await server.add_person("Pat")
    me = await server.ask("GET", "/v1/me", token=person)

    await put(server, task("forged", priority="p1", **PAST), token=person)

    shown = await frontmatter(server, "task-forged")
    assert (shown["author"], shown["authored_via"]) == (me["person"], "rest")
    assert "authored_by_agent" not in shown
    assert shown["priority_by"].startswith("Pat ")
    assert shown["created_at"] == shown["updated_at"] == shown["priority_at"]
    assert shown["created_at"] > PAST["updated_at"]


async def test_a_status_whose_reason_is_gone_is_part_of_a_past_but_no_way_past_the_gate(
    server: InProcessServer,
) -> None:
    done = task("done", status="done", **PAST)

    refused = await put(server, done)
    kept = await put(server, done, keep_attribution=True)
    misspelt = await put(server, task("other", status="finished", **PAST), keep_attribution=True)

    assert (refused[0]["code"], kept[0]["status"]) == ("transition_denied", "created")
    assert misspelt[0]["code"] == "invalid_node"


@pytest.mark.parametrize("who", ["person", "agent of an admin", "admin no more"])
async def test_only_an_admin_may_keep_a_past(server: InProcessServer, who: str) -> None:
    match who:
        case "person":
            token = await server.add_person("Pat")
        case "agent of an admin":
            token = await server.add_agent("mill")
        case _:
            token = await server.add_person("Pat", admin=True)
            pat = (await server.ask("GET", "/v1/me", token=token))["person"]
            await server.ask("DELETE", f"/v1/nodes/{pat}/edges", {"type": "stewards", "to": "org-root"})

    answer = await server.send(
        "POST", "/v1/nodes", {"nodes": [task("x", **PAST)], "keep_attribution": True}, token=token
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert (await server.send("GET", "/v1/nodes/task-x")).status_code == 404


IMPOSSIBLE: Final[dict[str, dict[str, object]]] = {
    "author: ": {"author": "Ann <ann@example.org>"},
    'author: "agent-7" ': {"author": "agent-7"},
    "authored_by_agent: ": {"authored_by_agent": "mill"},
    "session: ": {"session": "a\tb"},
    'created_at: "2026-01-02" is not a time with an offset': {"created_at": "2026-01-02"},
    'created_at: "yesterday" is not a time with an offset': {"created_at": "yesterday"},
    'created_at: "1969-12-31T23:59:59+00:00" ': {"created_at": "1969-12-31T23:59:59+00:00"},
    "updated_at: is before created_at": {"created_at": "2026-02-02T01:04:05.679+00:00"},
    "updated_at: is in the future": {"updated_at": "2999-01-01T00:00:00+00:00"},
    "priority_at: is in the future": {"priority_at": "2999-01-01T00:00:00+00:00"},
    "priority_by: ": {"priority_by": "a\x1b[31m"},
    'readiness_at: "7" ': {"readiness_at": 7},
}
"""Pasts that cannot be, by how their refusal begins."""


async def test_a_past_that_cannot_be_is_refused_by_its_key(server: InProcessServer) -> None:
    entries = [task("x", priority="p1", readiness="agent", **{**PAST, **wrong}) for wrong in IMPOSSIBLE.values()]

    results = await put(server, *entries, keep_attribution=True)

    assert [result["code"] for result in results] == ["invalid_node"] * len(IMPOSSIBLE)
    found = dict(zip(IMPOSSIBLE, (result["message"] for result in results), strict=True))
    assert {begins: message for begins, message in found.items() if not message.startswith(begins)} == {}


async def test_history_and_events_name_who_imported_and_not_who_wrote(server: InProcessServer) -> None:
    await put(server, task("old", **PAST), keep_attribution=True)

    history = await server.ask("GET", "/v1/nodes/task-old/history")
    feed = await server.ask("GET", "/v1/events?limit=100")

    assert [entry["author"] for entry in history["entries"]] == [server.admin.id]
    assert [event["actor"] for event in feed["events"] if event["node"] == "task-old"] == [server.admin.id]
