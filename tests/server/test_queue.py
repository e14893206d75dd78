from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import psycopg
import pytest

from batonpass.core.errors import LeaseLost
from batonpass.server.app import create_app
from batonpass.server.services import paging
from batonpass.server.services.cuts import Cuts
from batonpass.store import counting
from batonpass.store import queue as stored
from batonpass.store import ranking as ranked
from batonpass.store.open import open_store
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


@pytest.fixture
async def other_server(
    server: InProcessServer, database_url: str, clock: ManualClock
) -> AsyncIterator[InProcessServer]:
    """A second server over the same database, which shares nothing with the first but that."""
    store = await open_store(database_url, clock=clock)
    app = create_app(store)
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://baton.test") as http:
            yield replace(server, app=app, http=http)
    finally:
        await store.close()


# Pages


async def test_a_page_is_ordered_by_score_then_age_then_id(server: InProcessServer) -> None:
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

    assert first == ["task-high", "task-old", "task-a", "task-b", "task-low", "task-young"]
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


async def test_what_a_person_worked_on_lately_is_counted_once_when_it_is_hidden(
    server: InProcessServer,
) -> None:
    """A page looks at the person's own recent work wherever it stands; the index counts it as well."""
    await put(server, task("held"), task("asleep", wake="2026-12-24"), task("blocked"))
    await put(server, task("first", edges=[{"type": "blocks", "to": "task-blocked"}]))
    for name in ("held", "asleep", "blocked"):
        await server.ask("POST", f"/v1/nodes/task-{name}/priority", {"priority": "p2"})
    await server.ask("POST", "/v1/nodes/task-held/claim", {}, token=await server.add_person("grace"))

    page = await server.ask("GET", "/v1/queue")

    counters = {name: page.get(name) for name in ("leased", "blocked", "dormant")}
    assert counters == {"leased": 1, "blocked": 1, "dormant": 1}


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

    shown = await server.ask("GET", "/v1/queue?include_blocked=1&readiness=agent")

    assert shown["items"] == [
        {
            "id": "task-b",
            "title": "b",
            "type": "task",
            "status": "open",
            "project": "demo",
            "priority": "p2",
            "score": 4.0,
            "signals": {
                "blocking": 0,
                "blocked_by": 1,
                "front": 1,
                "heat": 1,
                "staleness": 0.0,
                "age_days": 0,
                "needed_by_days": 10,
            },
            "suggest": "blocked",
            "why": "agent-ready: marked ready by Ada Admin <ada@example.org>; p2 by Ada Admin"
            " <ada@example.org>; blocked by task-c; due in 10 d; front: 1 of your writes in 7 d; heat: 1 in 30 d;"
            " 0 d old",
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


async def test_a_page_reads_on_until_it_is_full_and_only_the_counts_are_capped(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "COUNTED_MAX", 20)
    await put(server, *(task(f"{n:03}", priority="p1") for n in range(70)), ready=False)
    await put(server, task("ready", priority="p3"), task("last", priority="p3"))

    ready = await server.ask("GET", "/v1/queue?readiness=agent&limit=1")
    rest = await server.ask("GET", "/v1/queue?readiness=agent&offset=1")
    first, last = [await server.ask("GET", f"/v1/queue?limit=10&offset={offset}") for offset in (0, 65)]

    assert ([item["id"] for item in ready["items"]], ready["truncated"], ready["next_offset"]) == (
        ["task-last"],
        True,
        1,
    )
    assert ([item["id"] for item in rest["items"]], rest["truncated"]) == (["task-ready"], False)
    assert (first["returned_count"], first["truncated"], first["counts_capped"]) == (10, True, True)
    assert first["total_count"] >= 20
    assert [item["id"] for item in last["items"]] == [
        *(f"task-{n:03}" for n in range(65, 70)),
        "task-last",
        "task-ready",
    ]
    assert (last["total_count"], last["truncated"], last.get("counts_capped")) == (72, False, None)


async def test_a_page_counts_the_same_whether_the_database_does_or_it_is_looked_item_by_item(
    server: InProcessServer, seven: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nine = await server.add_agent("nine")
    monkeypatch.setattr(paging, "COUNTED_MAX", 20)
    monkeypatch.setattr(paging, "SPARE", 4)
    counted: list[bool] = []
    between = counting.between

    def noting(*asked: Any) -> Any:  # noqa: ANN401 — passed on
        tallies = between(*asked)
        counted.append(tallies is not None)
        return tallies

    monkeypatch.setattr(counting, "between", noting)
    queries = ("", "?project=demo", "?type=task", "?exclude_type=issue", "?include_blocked=1", "?readiness=agent")
    pages = [query + ("&" if query else "?") + "limit=3" for query in (*queries, "?offset=4", "?assignee=me")]

    async def compare() -> None:
        for path in pages:
            for token in (None, seven):
                await server.ask("GET", f"/v1/queue{path}", token=token)  # it may have no use for what it knows
                warm = await server.ask("GET", f"/v1/queue{path}", token=token)
                with monkeypatch.context() as cold:
                    cold.setattr(Cuts, "of", lambda *_: None)
                    assert await server.ask("GET", f"/v1/queue{path}", token=token) == warm, path

    ranks = itertools.cycle(("p1", "p2", "p3", None))
    types = itertools.cycle(("task", "task", "issue"))
    some = [task(f"{n:02}", type=next(types), priority=next(ranks), project="demo") for n in range(24)]
    await put(server, *some)
    await put(server, *(task(f"raw-{n}", date="2026-01-01", project="other") for n in range(8)), ready=False)
    await compare()
    await put(server, *(task(f"high-{n}", priority="p1") for n in range(9)))
    await compare()
    for n in range(5):
        await server.ask("POST", f"/v1/nodes/task-high-{n}/claim", {}, token=nine if n else seven)
    await put(server, task("in-the-way", priority="p1", edges=[{"type": "blocks", "to": "task-high-7"}]))
    await compare()
    clock.advance(timedelta(minutes=45))
    await compare()

    assert sum(counted) > len(counted) / 2 > 20


async def test_ones_own_reservation_comes_first_wherever_it_ranks(
    server: InProcessServer, seven: str, nine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "COUNTED_MAX", 20)
    await put(server, *(task(f"{n:03}", priority="p1") for n in range(60)), ready=False)
    await put(server, task("kept", priority="p3"), task("theirs", priority="p3"))
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=seven)
    await server.ask("POST", "/v1/nodes/task-theirs/reserve", {}, token=nine)

    assert await ids(server, "?limit=2", token=seven) == ["task-kept", "task-000"]
    assert await ids(server, "?limit=3") == ["task-kept", "task-theirs", "task-000"]
    assert await ids(server, "?limit=1&project=other", token=seven) == []
    assert (await ids(server, "?limit=100", token=seven)).count("task-kept") == 1
    assert (await take(server, seven, accept="open"))["item"]["id"] == "task-kept"


async def test_a_reservation_of_somebody_else_is_not_put_first_in_an_assignee_read(
    server: InProcessServer, seven: str, nine: str
) -> None:
    routed = [{"type": "assigned", "to": "agent-seven"}]
    await put(server, task("high", priority="p1", edges=routed), task("kept", edges=routed), ready=False)
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=seven)

    assert await ids(server, "?assignee=agent-seven", token=nine) == ["task-high", "task-kept"]
    assert await ids(server, "?assignee=agent-seven", token=seven) == ["task-kept", "task-high"]


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


async def test_next_takes_the_best_whatever_lane_of_the_index_it_is_in(server: InProcessServer, seven: str) -> None:
    """One that grows no older, one that does, one that is due: lanes of their own, merged by score."""
    await put(
        server,
        task("ageing", priority="p3", date="2026-05-30"),
        task("aged", priority="p1", date="2026-01-01"),
        task("due", priority="p2", date="2026-05-30", needed_by="2026-06-02"),
    )

    taken = [(await take(server, seven))["item"]["id"] for _ in range(3)]

    assert taken == ["task-aged", "task-due", "task-ageing"]


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


async def test_one_launch_takes_one_item_however_often_it_asks_at_once(server: InProcessServer, seven: str) -> None:
    await put(server, *(task(str(n)) for n in range(6)))

    taken = await asyncio.gather(*(take(server, seven, dispatch="u1") for _ in range(4)))

    assert {(one["item"]["id"], one["lease"]["epoch"]) for one in taken} == {("task-0", 1)}


async def test_a_launch_that_asks_another_server_before_its_first_answer_gets_the_same_claim(
    server: InProcessServer, other_server: InProcessServer, seven: str
) -> None:
    await put(server, task("a"), task("b"))

    async with points.held("next.chosen") as door:
        first = asyncio.create_task(take(server, seven, dispatch="u1"))
        await door.reached()
        again = await take(other_server, seven, dispatch="u1", candidates=["task-b"])
    taken = await first

    assert (taken["item"]["id"], taken["lease"]["epoch"]) == (again["item"]["id"], 1) == ("task-b", 1)


async def test_a_launch_that_asks_while_its_claim_is_being_made_waits_for_it(
    server: InProcessServer, other_server: InProcessServer, database_url: str, seven: str
) -> None:
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: the second begins after the first's COMMIT")
    await put(server, task("a"), task("b"))

    async with points.held("next.picked") as door:
        first = asyncio.create_task(take(server, seven, dispatch="u1"))
        await door.reached()
        again = asyncio.create_task(take(other_server, seven, dispatch="u1"))
        await until_blocked(database_url)
    taken = await asyncio.gather(first, again)

    assert [one["item"]["id"] for one in taken] == ["task-a", "task-a"]


async def test_a_launch_that_asks_while_its_claim_is_being_renewed_gets_it_a_moment_later(
    server: InProcessServer, other_server: InProcessServer, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: the second begins after the first's COMMIT")
    await put(server, task("a"), task("b"))
    await take(server, seven, dispatch="u1")
    pick, missed = stored.pick, 0

    async with points.held("batch.locked") as door:
        renewing = asyncio.create_task(server.ask("POST", "/v1/nodes/task-a/renew", {"if_epoch": 1}, token=seven))
        await door.reached()

        async def noting(tx: Any, nodes: Any) -> Any:  # noqa: ANN401 — passed on
            nonlocal missed
            if (lease := await pick(tx, nodes)) is None:
                missed += 1
                door.open()
                await renewing
            return lease

        monkeypatch.setattr(stored, "pick", noting)
        again = await take(other_server, seven, dispatch="u1")

    assert (again["item"]["id"], again["lease"]["epoch"], missed) == ("task-a", 1, 1)


async def test_next_looks_beyond_what_nobody_has_sorted(
    server: InProcessServer, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranked, "WINDOW_FIRST", 5)
    monkeypatch.setattr(ranked, "WINDOW_MAX", 20)
    await put(server, *(task(f"{n:03}", priority="p1") for n in range(60)), ready=False)
    await put(server, task("ready", priority="p3"))

    assert (await take(server, seven))["item"]["id"] == "task-ready"
    assert await take(server, seven) == {"ok": True, "status": "empty"}


async def test_next_reads_the_facts_of_what_it_takes_and_of_nothing_else(
    server: InProcessServer, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(server, *(task(f"{n:02}", priority="p1") for n in range(50)), ready=False)
    await put(server, *(task(f"ready-{n:02}", priority="p3") for n in range(20)))
    read: list[int] = []
    facts_asked = stored._facts_asked  # noqa: SLF001  # whoever reads facts asks for them with it

    def noting(nodes: Any, now: Any) -> Any:  # noqa: ANN401 — passed on
        read.append(len(nodes))
        return facts_asked(nodes, now)

    monkeypatch.setattr(stored, "_facts_asked", noting)
    await take(server, seven)

    assert read == [1]


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


async def test_a_pause_is_the_answer_only_when_nothing_else_may_be_taken(server: InProcessServer, seven: str) -> None:
    await put(server, task("a", priority="p1"), task("free", project="other"))
    await server.ask("PUT", "/v1/policy/demo", {"paused": "incident 7"})

    assert await take(server, seven, candidates=["task-gone"]) == {"ok": True, "status": "empty"}
    assert (await take(server, seven, candidates=["task-a", "task-free"]))["item"]["id"] == "task-free"
    await server.ask("POST", "/v1/nodes/task-free/release", {"if_epoch": 1}, token=seven)
    assert (await take(server, seven))["item"]["id"] == "task-free"
    refused = [await server.send("POST", "/v1/queue/next", wish, token=seven) for wish in ({}, {"project": "demo"})]
    assert [(one.status_code, one.json()["error"]["code"]) for one in refused] == [(409, "paused")] * 2
    assert await take(server, seven, project="other") == {"ok": True, "status": "empty"}


async def test_a_launch_asks_again_for_what_it_holds_while_claims_are_paused(
    server: InProcessServer, seven: str
) -> None:
    await put(server, task("a"))
    await take(server, seven, dispatch="u1")
    await server.ask("PUT", "/v1/policy/*", {"paused": "incident 7"})

    assert (await take(server, seven, dispatch="u1"))["lease"]["epoch"] == 1


async def test_an_item_that_is_no_work_stands_in_nobodys_way(server: InProcessServer, seven: str) -> None:
    flow = task("w", type="workflow", priority="p1")
    run = task("r", type="run", priority="p1") | {"type": "workflow-run"}
    shape = task("s", type="schema", priority="p1", status="proposed")
    await put(server, flow, run, shape, task("a", priority="p3"), ready=False)

    taken = await take(server, seven, accept="open")
    named = await take(server, seven, accept="open", candidates=["workflow-w", "run-r", "schema-s"])
    typed = await take(server, seven, accept="open", types=["workflow"])

    assert taken["item"]["id"] == "task-a"
    assert named == typed == {"ok": True, "status": "empty"}


async def test_too_many_claims_is_an_answer_at_once(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"), task("b"))
    await server.ask("PUT", "/v1/policy/*", {"max_claims": 1})
    await take(server, seven)

    response = await server.send("POST", "/v1/queue/next", {}, token=seven)

    assert (response.status_code, response.json()["error"]["code"]) == (409, "too_many_claims")


@pytest.mark.parametrize("change", ["resolved", "paused"])
async def test_what_changes_after_the_look_passes_to_the_next_item(
    server: InProcessServer, seven: str, change: str
) -> None:
    await put(server, task("a", priority="p1"), task("b", project="other"))
    done = task("x", type="dec", edges=[{"type": "resolves", "to": "task-a"}]) | {"type": "decision"}

    async with points.held("next.chosen") as door:
        taking = asyncio.create_task(take(server, seven))
        await door.reached()
        if change == "resolved":
            await put(server, done, ready=False)
        else:
            await server.ask("PUT", "/v1/policy/demo", {"paused": "incident 7"})

    assert (await taking)["item"]["id"] == "task-b"


@asynccontextmanager
async def counted_by_another(url: str, holder: str) -> AsyncIterator[None]:
    """Hold the lock under which a holder's claims are counted, which comes after those of rows."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [holder])
        yield


@pytest.mark.parametrize("change", ["blocked", "resolved", "superseded", "abandoned"])
async def test_what_happens_between_choosing_and_granting_is_seen_under_the_lock(
    server: InProcessServer, database_url: str, seven: str, change: str
) -> None:
    """The call holds its item's row and waits for the next lock, behind which it reads everything again."""
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing can change between the two")
    await put(server, task("a", priority="p1"), task("b"))
    edges = {"blocked": "blocks", "resolved": "resolves", "superseded": "supersedes"}

    async with counted_by_another(database_url, "agent-seven"):
        taking = asyncio.create_task(take(server, seven))
        await until_blocked(database_url)
        if change == "abandoned":
            await server.ask("POST", "/v1/nodes/task-a/status", {"status": "abandoned"})
        else:
            edge = {"type": edges[change], "to": "task-a"}
            await put(server, task("x", type="dec", edges=[edge]) | {"type": "decision"}, ready=False)
    taken = await taking

    assert taken["item"]["id"] == "task-b"


async def test_a_claim_of_the_item_that_is_being_granted_waits_and_is_refused(
    server: InProcessServer, database_url: str, seven: str, nine: str
) -> None:
    if server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing can change between the two")
    await put(server, task("a", priority="p1"), task("b"))

    async with points.held("next.picked") as door:
        taking = asyncio.create_task(take(server, seven))
        await door.reached()
        claiming = asyncio.create_task(server.send("POST", "/v1/nodes/task-a/claim", {}, token=nine))
        await until_blocked(database_url)
    taken, refused = await taking, await claiming

    assert taken["item"]["id"] == "task-a"
    assert (refused.status_code, refused.json()["holder"]["by"]) == (409, "agent-seven")


async def test_agents_that_ask_together_each_get_another_item(server: InProcessServer) -> None:
    tokens = [await server.add_agent(f"a{n}") for n in range(8)]
    await put(server, *(task(f"{n:02}") for n in range(8)))

    taken = await asyncio.gather(*(take(server, token) for token in tokens))

    assert sorted(one["item"]["id"] for one in taken) == [f"task-{n:02}" for n in range(8)]


@pytest.mark.parametrize(
    "body, field",
    [
        ({"wait": 61}, "wait"),
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


async def test_a_field_that_says_who_asks_is_overlooked_and_named(server: InProcessServer, seven: str) -> None:
    await put(server, task("a"))
    wish = {"by": "agent-nine", "author": "Nine", "authored_by_agent": "agent-nine", "owner": "person-nine"}

    response = await server.send("POST", "/v1/queue/next", wish, token=seven)

    assert (response.status_code, response.json()["lease"]["by"]) == (200, "agent-seven")
    assert response.headers["Baton-Ignored"] == "by, author, authored_by_agent, owner"
    for method, path in (("PUT", "/v1/policy/demo"), ("POST", "/v1/me/tokens")):
        assert (await server.send(method, path, {"by": "person-nine", "author": "Nine"})).is_success
        refused = await server.send(method, path, {"by": "person-nine", "bye": 1})
        assert (refused.status_code, refused.json()["error"]["message"][:4]) == (422, "bye:")


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
