"""Deleting a node: what goes with it, what stays, who may, and what its id is then."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.store import check
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import held
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

TASK: Final = "/v1/nodes/task-a"
OBITUARY: Final = "task-a was deleted at 2026-06-01T12:00:00.000+00:00 by person-ada-admin: filed twice"


def node(id_: str, **keys: object) -> dict[str, object]:
    kind = {"task": "task", "art": "artifact", "find": "finding"}[id_.partition("-")[0]]
    return {"id": id_, "type": kind, "title": f"About {id_}", "summary": "In short", "date": "2026-05-01", **keys}


async def put(server: InProcessServer, *nodes: dict[str, object], **more: object) -> list[Any]:
    answer = await server.send("POST", "/v1/nodes", {"nodes": list(nodes), **more})
    results: list[Any] = answer.json()["results"]
    return results


async def delete(server: InProcessServer, *, token: str | None = None, **body: object) -> httpx.Response:
    return await server.send("DELETE", TASK, {"reason": "filed twice", **body}, token=token)


async def test_a_deleted_node_is_nowhere_to_be_found_and_says_what_became_of_it(
    server: InProcessServer, database_url: str
) -> None:
    await put(server, node("task-a", commits=["web@abcdef1"]), node("task-b"))
    revision = (await server.ask("GET", TASK))["revision"]

    answer = await delete(server)

    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "deleted", "id": "task-a", "revision": revision, "dangling": 0, "warnings": []},
    )
    for path in (TASK, f"{TASK}/edges"):
        gone = await server.send("GET", path)
        assert gone.status_code == 404
        assert OBITUARY in gone.json()["error"]["message"]
    assert [each["id"] for each in (await server.ask("GET", "/v1/nodes?type=task"))["nodes"]] == ["task-b"]
    assert [each["id"] for each in (await server.ask("GET", "/v1/queue"))["items"]] == ["task-b"]
    assert (await server.ask("GET", "/v1/commits/abcdef1"))["nodes"] == []
    assert (await server.ask("POST", "/v1/nodes/batch", {"ids": ["task-a"]}))["missing_ids"] == ["task-a"]
    assert check.check(database_url).findings == ()


async def test_its_history_stays_and_ends_with_the_deletion(server: InProcessServer) -> None:
    (made,) = await put(server, node("task-a", body="what it was"))
    await delete(server)

    page = await server.ask("GET", f"{TASK}/history")
    as_it_was = await server.ask("GET", f"{TASK}/history/{made['revision']}")

    assert [(each["verb"], each["revision"], each.get("reason")) for each in page["entries"]] == [
        ("delete", made["revision"], "filed twice"),
        ("put", made["revision"], None),
    ]
    assert page["deleted"] == {
        "at": "2026-06-01T12:00:00.000+00:00",
        "by": "person-ada-admin",
        "reason": "filed twice",
    }
    assert (as_it_was["verb"], as_it_was["raw"].splitlines()[-1]) == ("put", "what it was")


async def test_its_last_text_can_be_redacted_too(server: InProcessServer, database_url: str) -> None:
    (made,) = await put(server, node("task-a", body="hunter2-is-no-password"))
    await delete(server)

    redacted = await server.ask("POST", f"{TASK}/redact", {"revision": made["revision"], "reason": "a password"})

    assert (redacted["status"], redacted["entries"]) == ("updated", 1)
    assert "hunter2" not in repr(contents(database_url))
    assert [each["verb"] for each in (await server.ask("GET", f"{TASK}/history"))["entries"]] == [
        "redact",
        "delete",
        "put",
    ]


@pytest.mark.parametrize("if_exists", ["error", "skip", "update"])
async def test_its_id_is_never_used_again(server: InProcessServer, if_exists: str) -> None:
    (made,) = await put(server, node("task-a"))
    await delete(server)

    revision = {"revision": made["revision"]} if if_exists == "update" else {}
    (again,) = await put(server, {"node": node("task-a"), "if_exists": if_exists, **revision})

    assert (again["ok"], again["code"]) == (False, "conflict")
    assert "an id is never used again, so choose another" in again["message"]
    assert (await server.send("GET", TASK)).status_code == 404


async def test_its_edges_go_and_those_onto_it_stay_and_say_so(server: InProcessServer) -> None:
    await put(
        server,
        node("task-a", edges=[{"type": "blocks", "to": "task-b"}]),
        node("task-b"),
        node("task-c", edges=[{"type": "blocks", "to": "task-a"}, {"type": "mentions", "to": "task-nowhere"}]),
    )

    answer = (await delete(server)).json()
    b, c = [(await server.ask("GET", f"/v1/nodes/task-{name}/edges"))["edges"] for name in "bc"]

    assert (answer["dangling"], answer["warnings"]) == (
        1,
        ["edges: 1 edge onto task-a lead nowhere now; they are not removed"],
    )
    assert b == []
    assert [(edge["to"], edge["title"], edge["missing"]) for edge in c] == [
        ("task-a", None, "deleted"),
        ("task-nowhere", None, "unwritten"),
    ]
    assert "blocked" not in await server.ask("GET", "/v1/queue")


async def test_an_edge_onto_it_can_be_removed_and_does_not_hinder_any_other_write(server: InProcessServer) -> None:
    blocks = {"type": "blocks", "to": "task-a"}
    (_, b) = await put(server, node("task-a"), node("task-b", edges=[blocks]))
    await delete(server)

    entry = {"node": node("task-b", title="Changed", edges=[blocks]), "if_exists": "update", "revision": b["revision"]}
    (changed,) = await put(server, entry)
    removed = await server.ask("DELETE", "/v1/nodes/task-b/edges", blocks)

    assert (changed["status"], removed["status"]) == ("updated", "updated")
    assert (await server.ask("GET", "/v1/nodes/task-b/edges"))["edges"] == []


async def test_what_it_resolved_is_open_again(server: InProcessServer) -> None:
    resolves = [{"type": "resolves", "to": "task-a"}]
    await put(server, node("task-a"), node("art-a", edges=resolves))
    assert (await server.ask("GET", TASK))["resolution"]["by"] == "art-a"

    await server.ask("DELETE", "/v1/nodes/art-a", {"reason": "of another item"})

    assert "resolution" not in await server.ask("GET", TASK)


async def test_no_verb_finds_it_and_an_edge_onto_it_is_refused_with_its_end(server: InProcessServer) -> None:
    await put(server, node("task-a"), node("task-b"))
    await delete(server)

    verbs: dict[str, dict[str, object]] = {
        "status": {"status": "open"},
        "priority": {"priority": "p1"},
        "readiness": {"readiness": "agent"},
        "commits": {"repo": "web", "sha": "abcdef1"},
        "claim": {},
    }
    answers = {verb: (await server.send("POST", f"{TASK}/{verb}", body)).status_code for verb, body in verbs.items()}
    onto = await server.send("POST", "/v1/nodes/task-b/edges", {"type": "mentions", "to": "task-a"})

    assert answers == dict.fromkeys(verbs, 404)
    assert onto.status_code == 404
    assert "was deleted at" in onto.json()["error"]["message"]
    assert (await delete(server)).status_code == 404


async def test_a_lease_verb_on_a_deleted_node_says_when_and_why_it_was_deleted(server: InProcessServer) -> None:
    await put(server, node("task-a"))
    await delete(server)

    refused = [await server.send("POST", f"{TASK}/{verb}", {}) for verb in ("claim", "renew", "release", "reserve")]
    never = await server.send("POST", "/v1/nodes/task-never/claim", {})

    for answer in refused:
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"there is no such node: {OBITUARY}"
    assert never.json()["error"]["message"] == "there is no node task-never"


async def test_an_edge_that_is_put_onto_a_deleted_node_is_written_with_a_warning(server: InProcessServer) -> None:
    await put(server, node("task-a"))
    await delete(server)
    leading = node("task-b", edges=[{"type": "mentions", "to": "task-a"}, {"type": "mentions", "to": "task-c"}])

    (made,) = await put(server, leading)
    again = {"node": {**leading, "title": "Other"}, "if_exists": "update", "revision": made["revision"]}
    (updated,) = await put(server, again)

    assert made["status"] == "created"
    assert made["warnings"] == [f"edges: an edge leads to what is no more: {OBITUARY}"]
    assert (updated["status"], updated["warnings"]) == ("updated", [])


# --- under a lease ---------------------------------------------------------------------------------------------------


async def test_a_live_lease_of_anothers_is_in_the_way_and_named(server: InProcessServer) -> None:
    mill = await server.add_agent("mill")
    await put(server, node("task-a"))
    await server.ask("POST", f"{TASK}/claim", {}, token=mill)

    refused = await delete(server)

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "already_claimed")
    assert refused.json()["holder"]["by"] == "agent-mill"
    assert (await server.ask("GET", TASK))["lease"]["by"] == "agent-mill"


async def test_by_force_the_tenure_ends_and_its_zombie_changes_nothing(
    server: InProcessServer, database_url: str
) -> None:
    pat = await server.add_person("Pat")
    mill = await server.add_agent("mill", token=pat)
    await put(server, node("task-a"), node("task-b"))
    lease = (await server.ask("POST", f"{TASK}/claim", {}, token=mill))["lease"]
    named = {"lease": {"node": "task-a", "epoch": lease["epoch"]}}
    run = (await server.ask("POST", "/v1/agents/agent-mill/token", named, token=mill))["token"]

    answer = (await delete(server, force=True)).json()
    before = contents(database_url)
    late = [
        await server.send("POST", "/v1/nodes/task-b/priority", {"priority": "p1"}, token=run),
        await server.send(
            "POST",
            "/v1/nodes/task-b/priority",
            {"priority": "p1"},
            token=mill,
            headers={"If-Lease": f"task-a; epoch={lease['epoch']}"},
        ),
    ]

    assert (answer["ended"]["by"], answer["ended"]["epoch"]) == ("agent-mill", lease["epoch"])
    assert {each.status_code for each in late} <= {401, 409}
    assert late[1].json()["error"]["code"] == "lease_lost"
    assert contents(database_url) == before
    kept = {row[0]: row for row in before["leases"]}["task-a"]
    assert (kept[1], kept[7]) == ("none", lease["epoch"])  # free, and its epoch is not forgotten
    assert [row[2] for row in before["events"] if row[3] == "task-a"][-2:] == ["lease.revoked", "node.deleted"]


async def test_a_lease_that_has_lapsed_and_ones_own_are_not_in_the_way(
    server: InProcessServer, clock: ManualClock
) -> None:
    mill = await server.add_agent("mill")
    await put(server, node("task-a"), node("task-b"))
    await server.ask("POST", f"{TASK}/claim", {}, token=mill)
    await server.ask("POST", "/v1/nodes/task-b/claim", {})
    clock.advance(timedelta(minutes=46))
    await server.ask("POST", "/v1/nodes/task-b/renew", {})

    assert (await delete(server)).status_code == 200
    assert (await server.send("DELETE", "/v1/nodes/task-b", {"reason": "mine"})).status_code == 200
    assert (await server.ask("GET", "/v1/leases"))["leases"] == []


# --- who may, and what -----------------------------------------------------------------------------------------------


async def test_a_deletion_is_an_admins_own_and_says_why(server: InProcessServer) -> None:
    await put(server, node("task-a"))
    pat, mill = await server.add_person("Pat"), await server.add_agent("mill")

    refused = [(await delete(server, token=token)).status_code for token in (pat, mill)]
    unsaid = [(await server.send("DELETE", TASK, body)).status_code for body in ({}, {"reason": ""}, None)]
    essay = await delete(server, reason="x" * 501)

    assert (refused, unsaid) == ([403, 403], [422, 422, 422])
    assert essay.json()["error"]["message"] == "reason: 501 code points; the limit is 500 code points"
    assert (await server.send("GET", TASK)).status_code == 200


async def test_who_is_no_admin_any_more_deletes_nothing_though_the_server_remembers_them_as_one(
    server: InProcessServer,
) -> None:
    await put(server, node("task-a"))
    bob = await server.add_person("Bob", admin=True)
    assert (await server.ask("GET", "/v1/me", token=bob))["is_admin"] is True
    await server.ask("DELETE", "/v1/nodes/person-bob/edges", {"type": "stewards", "to": "org-root"})

    assert (await delete(server, token=bob)).status_code == 403


@pytest.mark.parametrize("somebody", ["org-root", "person-ada-admin", "agent-mill"])
async def test_who_somebody_is_is_not_deleted(server: InProcessServer, somebody: str) -> None:
    await server.add_agent("mill")

    refused = await server.send("DELETE", f"/v1/nodes/{somebody}", {"reason": "out"})

    assert refused.status_code == 422
    assert "which is not deleted: end its tokens" in refused.json()["error"]["message"]


# --- at the same moment ----------------------------------------------------------------------------------------------


async def test_a_put_that_waited_for_a_deletion_does_not_bring_the_id_back(
    postgres_url: str, clock: ManualClock
) -> None:
    """PostgreSQL: on SQLite one writer runs at a time. The put saw the node, and then waited for its lock."""
    async with in_process_server(postgres_url, clock=clock) as server:
        await put(server, node("task-a"))
        async with held("event.written") as door:
            deleting = asyncio.create_task(delete(server))
            await door.reached()
            putting = asyncio.create_task(put(server, node("task-a", title="Again")))
            await until_blocked(postgres_url)
            door.open()
            deleted, (again,) = await deleting, await putting

        assert (deleted.status_code, again["ok"], again["code"]) == (200, False, "conflict")
        assert (await server.send("GET", TASK)).status_code == 404
    assert check.check(postgres_url).findings == ()


async def test_a_claim_that_waited_for_a_deletion_finds_nothing_to_claim(postgres_url: str, clock: ManualClock) -> None:
    """PostgreSQL, as above. Both lock the lease's row first."""
    async with in_process_server(postgres_url, clock=clock) as server:
        mill = await server.add_agent("mill")
        await put(server, node("task-a"))
        async with held("event.written") as door:
            deleting = asyncio.create_task(delete(server))
            await door.reached()
            claiming = asyncio.create_task(server.send("POST", f"{TASK}/claim", {}, token=mill))
            await until_blocked(postgres_url)
            door.open()
            deleted, claimed = await deleting, await claiming

        assert (deleted.status_code, claimed.status_code) == (200, 404)
        assert (await server.ask("GET", "/v1/leases"))["leases"] == []
    assert check.check(postgres_url).findings == ()


async def test_of_two_deletions_at_once_one_is_carried_out(server: InProcessServer) -> None:
    await put(server, node("task-a"))

    answers = await asyncio.gather(*(delete(server) for _ in range(4)))

    assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
    assert len((await server.ask("GET", f"{TASK}/history"))["entries"]) == 2
