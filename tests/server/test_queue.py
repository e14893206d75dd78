from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batonpass.core.errors import LeaseLost
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio


def task(name: str, **more: object) -> dict[str, object]:
    kind = str(more.pop("type", "task"))
    fields = {"id": f"{kind}-{name}", "type": kind, "title": name, "summary": name, "project": "demo", **more}
    return {key: value for key, value in fields.items() if value is not None}


async def put(server: InProcessServer, *nodes: dict[str, object], ready: bool = True) -> None:
    reply = await server.ask("POST", "/v1/nodes", {"nodes": list(nodes)})
    assert all(result["ok"] for result in reply["results"]), reply
    for node in nodes if ready else ():
        await server.ask("POST", f"/v1/nodes/{node['id']}/readiness", {"readiness": "agent"})


async def ids(server: InProcessServer, query: str = "", **kwargs: Any) -> list[str]:  # noqa: ANN401 — passed on
    return [item["id"] for item in (await server.ask("GET", f"/v1/queue{query}", **kwargs))["items"]]


async def take(server: InProcessServer, token: str, **wish: object) -> Any:  # noqa: ANN401 — JSON
    return await server.ask("POST", "/v1/queue/next", wish, token=token)


@pytest.fixture
async def seven(server: InProcessServer) -> str:
    return await server.add_agent("seven")


@pytest.fixture
async def nine(server: InProcessServer) -> str:
    return await server.add_agent("nine")


# Pages


async def test_a_page_is_ordered_by_priority_then_age_then_id(server: InProcessServer) -> None:
    await put(
        server,
        task("young", date="2026-05-30"),
        task("old", date="2026-01-01"),
        task("low", priority="p3"),
        task("high", priority="p1"),
        task("b", date="2026-05-01"),
        task("a", date="2026-05-01"),
    )

    first = await ids(server)

    assert first == ["task-high", "task-low", "task-old", "task-a", "task-b", "task-young"]
    assert await ids(server) == first


async def test_a_page_hides_and_counts_what_is_held_blocked_or_asleep(
    server: InProcessServer, seven: str, nine: str
) -> None:
    await put(server, task("free"), task("held"), task("kept"), task("asleep", wake="2026-12-24"), task("blocked"))
    await put(server, task("first", edges=[{"type": "blocks", "to": "task-blocked"}]))
    await server.ask("POST", "/v1/nodes/task-held/claim", {}, token=seven)
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=seven)

    page = await server.ask("GET", "/v1/queue", token=nine)

    assert [item["id"] for item in page["items"]] == ["task-first", "task-free"]
    counters = {name: page.get(name) for name in ("leased", "reserved", "blocked", "dormant")}
    assert counters == {"leased": 1, "reserved": 1, "blocked": 1, "dormant": 1}
    assert (page["total_count"], page["truncated"], page["next_offset"]) == (2, False, None)


async def test_ones_own_and_ones_agents_items_stay_and_a_reservation_comes_first(
    server: InProcessServer, seven: str
) -> None:
    await put(server, task("a", priority="p1"), task("held"), task("kept"))
    await server.ask("POST", "/v1/nodes/task-held/claim", {}, token=seven)
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=seven)

    page = await server.ask("GET", "/v1/queue")

    assert [item["id"] for item in page["items"]] == ["task-kept", "task-a", "task-held"]
    kept, _, held = page["items"]
    assert (kept["lease_state"], kept["lease_by"]) == ("reserved", "agent-seven")
    assert (held["lease_state"], held["lease_by_name"]) == ("in_progress", "seven")
    assert await ids(server, token=seven) == ["task-kept", "task-a", "task-held"]


async def test_an_item_has_every_field_of_its_shape(server: InProcessServer) -> None:
    await put(server, task("b", priority="p2", needed_by="2026-06-11", profile="profile-x", status="open"))
    await put(server, task("c", edges=[{"type": "blocks", "to": "task-b"}]), ready=False)

    shown = await server.ask("GET", "/v1/queue?include_blocked=1&limit=1")

    assert shown["items"] == [
        {
            "id": "task-b",
            "title": "b",
            "type": "task",
            "status": "open",
            "project": "demo",
            "priority": "p2",
            "score": 2.0,
            "signals": {"blocking": 0, "blocked_by": 1, "age_days": 0, "needed_by_days": 10},
            "suggest": "blocked",
            "why": "agent-ready: marked ready by Ada Admin <ada@example.org>; p2 by Ada Admin"
            " <ada@example.org>; blocked by task-c; due in 10 d; 0 d old",
            "readiness": "agent",
            "readiness_reasons": ["marked ready by Ada Admin <ada@example.org>"],
            "blocked_by": ["task-c"],
            "profile": "profile-x",
        }
    ]


async def test_resolved_superseded_and_dead_items_are_gone(server: InProcessServer) -> None:
    await put(server, task("a"), task("b"), task("c"), task("d"))
    await put(
        server,
        task("x", type="dec", edges=[{"type": "resolves", "to": "task-a"}]) | {"type": "decision"},
        task("e", edges=[{"type": "supersedes", "to": "task-b"}]),
        ready=False,
    )
    await server.ask("POST", "/v1/nodes/task-c/status", {"status": "abandoned"})

    assert await ids(server) == ["task-d", "task-e"]


async def test_a_blocker_that_is_resolved_or_superseded_blocks_no_more(server: InProcessServer) -> None:
    await put(server, task("a"), task("b"))
    await put(server, task("x", edges=[{"type": "blocks", "to": "task-a"}]))
    await put(server, task("y", edges=[{"type": "blocks", "to": "task-b"}]))
    assert await ids(server) == ["task-x", "task-y"]

    await put(server, task("d", type="dec", edges=[{"type": "resolves", "to": "task-x"}]) | {"type": "decision"},
              task("z", edges=[{"type": "supersedes", "to": "task-y"}]), ready=False)  # fmt: skip

    assert await ids(server) == ["task-a", "task-b", "task-z"]


async def test_filters_and_pages(server: InProcessServer) -> None:
    issue = task("i", type="issue")
    await put(server, *(task(str(n)) for n in range(5)), issue, task("other", project="other"))
    await put(server, task("raw"), ready=False)

    assert await ids(server, "?type=issue") == ["issue-i"]
    assert "issue-i" not in await ids(server, "?exclude_type=issue&type=task,issue")
    assert await ids(server, "?project=other") == ["task-other"]
    assert await ids(server, "?readiness=untriaged") == ["task-raw"]
    pages = [await server.ask("GET", f"/v1/queue?limit=3&offset={offset}") for offset in (0, 3, 6, 9)]
    assert [page["next_offset"] for page in pages] == [3, 6, None, None]
    assert [page["returned_count"] for page in pages] == [3, 3, 2, 0]
    assert pages[0]["counts_by_type"] == {"task": 7, "issue": 1}
    assert pages[0]["counts_by_project"] == {"demo": 7, "other": 1}
    assert pages[0]["counts_by_readiness"] == {"agent": 7, "untriaged": 1}
    assert pages[0]["counts_by_suggest"] == {"dispatch": 7, "do": 1}


async def test_an_assignee_read_lists_what_is_routed_to_somebody_whatever_its_state(
    server: InProcessServer, seven: str, nine: str
) -> None:
    routed = [{"type": "assigned", "to": "agent-seven"}]
    await put(server, task("mine", edges=routed), task("held", edges=routed), task("other"), ready=False)
    await put(server, task("x", edges=[{"type": "blocks", "to": "task-mine"}]), ready=False)
    await server.ask("POST", "/v1/nodes/task-held/claim", {}, token=seven)

    listed = await server.ask("GET", "/v1/queue?assignee=agent-seven", token=nine)

    assert [(item["id"], item["suggest"]) for item in listed["items"]] == [
        ("task-held", "dispatch"),
        ("task-mine", "blocked"),
    ]
    assert await ids(server, "?assignee=me", token=seven) == ["task-held", "task-mine"]
    assert listed["items"][1]["assigned_agents"] == ["agent-seven"]


async def test_an_item_claimed_and_lost_reads_as_it_did_before(
    server: InProcessServer, seven: str, nine: str, clock: ManualClock
) -> None:
    await put(server, task("a"))
    before = (await server.ask("GET", "/v1/queue", token=nine))["items"]

    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)
    assert await ids(server, token=nine) == []
    clock.advance(timedelta(minutes=45))

    assert (await server.ask("GET", "/v1/queue", token=nine))["items"] == before


# next


async def test_next_takes_the_best_item_an_agent_may_take(server: InProcessServer, seven: str) -> None:
    await put(server, task("good", priority="p2"), task("later"), task("human", priority="p1", requires=["human"]))
    await put(server, task("raw", priority="p1"), ready=False)
    question = task("q", type="question", priority="p1")
    await put(server, question, ready=False)

    taken = await take(server, seven)

    assert (taken["ok"], taken["status"], taken["item"]["id"]) == (True, "claimed", "task-good")
    assert (taken["lease"]["by"], taken["lease"]["epoch"], taken["expires_in_ms"]) == ("agent-seven", 1, 60_000)
    assert (await take(server, seven))["item"]["id"] == "task-later"
    assert await take(server, seven) == {"ok": True, "status": "empty"}
    assert (await take(server, seven, accept="open"))["item"]["id"] == "task-raw"
    assert await take(server, seven, accept="open") == {"ok": True, "status": "empty"}


async def test_a_grant_of_next_has_a_minute_until_its_first_renewal(
    server: InProcessServer, seven: str, nine: str, clock: ManualClock
) -> None:
    await put(server, task("a"))
    taken = await take(server, seven)

    renewed = await server.ask("POST", "/v1/nodes/task-a/renew", {"if_epoch": 1}, token=seven)
    assert (taken["expires_in_ms"], renewed["expires_in_ms"]) == (60_000, 45 * 60_000)
    await server.ask("POST", "/v1/nodes/task-a/release", {"if_epoch": 1}, token=seven)

    await take(server, seven)
    clock.advance(timedelta(seconds=60))
    again = await take(server, nine)
    assert (again["item"]["id"], again["lease"]["epoch"]) == ("task-a", 3)


async def test_a_lost_answer_is_asked_for_again_by_its_nonce(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"), task("b"))

    first = await take(server, seven, dispatch="u1")
    again = await take(server, seven, dispatch="u1")

    assert again["lease"]["epoch"] == first["lease"]["epoch"] == 1
    assert again["item"]["id"] == first["item"]["id"]
    assert (await take(server, seven, dispatch="u2"))["item"]["id"] == "task-b"


async def test_with_candidates_the_first_still_free_is_taken(server: InProcessServer, seven: str, nine: str) -> None:
    await put(server, task("a"), task("b"), task("c"))
    await server.ask("POST", "/v1/nodes/task-b/claim", {}, token=nine)

    taken = await take(server, seven, candidates=["task-b", "task-gone", "task-c", "task-a"])

    assert taken["item"]["id"] == "task-c"
    assert await take(server, seven, candidates=["task-b"]) == {"ok": True, "status": "empty"}
    assert await take(server, seven, candidates=["task-a"], exclude=["task-a"]) == {"ok": True, "status": "empty"}
    assert await take(server, seven, types=["issue"]) == {"ok": True, "status": "empty"}
    assert await take(server, seven, project="other") == {"ok": True, "status": "empty"}


async def test_ones_own_reservation_is_taken_first_and_begins_a_tenure(server: InProcessServer, seven: str) -> None:
    await put(server, task("a", priority="p1"), task("kept"))
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=seven)

    taken = await take(server, seven)

    assert (taken["item"]["id"], taken["lease"]["epoch"]) == ("task-kept", 2)


async def test_next_refuses_a_paused_project_and_says_why(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"))
    await server.ask("PUT", "/v1/policy/demo", {"paused": "incident 7"})

    response = await server.send("POST", "/v1/queue/next", {}, token=seven)

    assert (response.status_code, response.json()["error"]["code"]) == (409, "paused")
    assert "incident 7" in response.json()["error"]["message"]


@pytest.mark.parametrize("change", ["blocked", "resolved", "superseded"])
async def test_what_other_nodes_do_between_choosing_and_granting_is_seen_under_the_lock(
    server: InProcessServer, seven: str, change: str
) -> None:
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing can change between the two")
    await put(server, task("a", priority="p1"), task("b"))
    edges = {"blocked": "blocks", "resolved": "resolves", "superseded": "supersedes"}
    other = task("x", type="dec", edges=[{"type": edges[change], "to": "task-a"}]) | {"type": "decision"}

    async with points.held("next.picked") as door:
        taking = asyncio.create_task(take(server, seven))
        await door.reached()
        await put(server, other, ready=False)
    taken = await taking

    assert taken["item"]["id"] == "task-b"


@pytest.mark.parametrize("door", ["claim", "status"])
async def test_what_is_done_to_the_item_itself_waits_until_it_is_granted(  # noqa: PLR0917 — fixtures
    server: InProcessServer, database_url: str, seven: str, nine: str, door: str
) -> None:
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing can change between the two")
    await put(server, task("a", priority="p1"), task("b"))
    body: dict[str, object] = {} if door == "claim" else {"status": "abandoned"}

    async with points.held("next.picked") as held:
        taking = asyncio.create_task(take(server, seven))
        await held.reached()
        doing = asyncio.create_task(server.send("POST", f"/v1/nodes/task-a/{door}", body, token=nine))
        await until_blocked(database_url)
    taken, done = await taking, await doing

    assert taken["item"]["id"] == "task-a"
    if door == "claim":
        assert (done.status_code, done.json()["holder"]["by"]) == (409, "agent-seven")
    else:
        assert done.status_code == 200


async def test_agents_that_ask_together_each_get_another_item(server: InProcessServer) -> None:
    tokens = [await server.add_agent(f"a{n}") for n in range(8)]
    await put(server, *(task(f"{n:02}") for n in range(8)))

    taken = await asyncio.gather(*(take(server, token) for token in tokens))

    assert sorted(one["item"]["id"] for one in taken) == [f"task-{n:02}" for n in range(8)]


@pytest.mark.parametrize(
    "body, field",
    [
        ({"wait": 5}, "wait"),
        ({"accept": "all"}, "accept"),
        ({"types": ["taks"]}, "type"),
        ({"types": [7]}, "types[0]"),
        ({"candidates": ["task-a"] * 51}, "candidates"),
        ({"exclude": ["task-a"] * 201}, "exclude"),
        ({"candidates": ["Task A"]}, "candidates[0]"),
        ({"project": "No Slug"}, "project"),
        ({"dispatch": ""}, "dispatch"),
        ({"session": 7}, "session"),
    ],
)
async def test_a_wish_that_is_not_one_is_refused_by_name(
    server: InProcessServer, seven: str, body: dict[str, object], field: str
) -> None:
    response = await server.send("POST", "/v1/queue/next", body, token=seven)

    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(f"{field}:")


@pytest.mark.parametrize(
    "query, field",
    [
        ("?readiness=maybe", "readiness"),
        ("?limit=0", "limit"),
        ("?limit=1e3", "limit"),
        ("?offset=-1", "offset"),
        ("?type=taks", "type"),
        ("?project=No%20Slug", "project"),
        ("?assignee=No%20One", "assignee"),
        ("?sort=age", "sort"),
    ],
)
async def test_a_page_that_cannot_be_is_refused_by_name(server: InProcessServer, query: str, field: str) -> None:
    response = await server.send("GET", f"/v1/queue{query}")

    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(f"{field}:")


async def test_a_run_may_take_a_further_item_while_it_holds_its_own(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"), task("b"))
    own = await take(server, seven)
    lease = {"node": own["item"]["id"], "epoch": own["lease"]["epoch"]}
    run = (await server.ask("POST", "/v1/agents/agent-seven/token", {"lease": lease}, token=seven))["token"]

    further = await take(server, run)
    await server.ask("POST", "/v1/nodes/task-a/release", {"if_epoch": 1}, token=seven)
    refused = await server.send("POST", "/v1/queue/next", {}, token=run)

    assert further["item"]["id"] == "task-b"
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, LeaseLost.code)
