"""Which items the queue has: what a change makes of others, scopes, counters, and what reads say of an item."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batonpass.core.edges import Edge
from batonpass.core.ids import NodeId, Resource
from batonpass.server.services import ranking
from batonpass.store import edges, items
from batonpass.store.base import SYSTEM, Fences
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import failing, held
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio
PREFIXES = {"decision": "dec", "artifact": "art", "finding": "find", "incident": "inc", "capture-pending": "cap"}


def node(name: str, kind: str = "task", *edges: tuple[str, str], **more: object) -> dict[str, object]:
    fields = {"id": f"{PREFIXES.get(kind, kind)}-{name}", "type": kind, "title": name, "summary": name, **more}
    return {**fields, "edges": [{"type": type_, "to": to} for type_, to in edges]}


async def put(server: InProcessServer, *nodes: dict[str, object], **kwargs: Any) -> None:  # noqa: ANN401 — passed on
    reply = await server.ask("POST", "/v1/nodes", {"nodes": list(nodes)}, **kwargs)
    assert all(result["ok"] for result in reply["results"]), reply


async def page(server: InProcessServer, query: str = "", **kwargs: Any) -> Any:  # noqa: ANN401 — JSON
    return await server.ask("GET", f"/v1/queue{query}", **kwargs)


async def ids(server: InProcessServer, query: str = "", **kwargs: Any) -> list[str]:  # noqa: ANN401 — passed on
    return [item["id"] for item in (await page(server, query, **kwargs))["items"]]


async def item(server: InProcessServer, name: str, query: str = "") -> Any:  # noqa: ANN401 — JSON
    (found,) = [one for one in (await page(server, query))["items"] if one["id"] == name]
    return found


# What a change makes of other items


async def test_what_ends_a_blocker_frees_what_it_blocked(server: InProcessServer) -> None:
    await put(server, *(node(f"a{n}") for n in range(4)))
    await put(server, *(node(f"b{n}", "task", ("blocks", f"task-a{n}")) for n in range(4)))
    assert await ids(server) == [f"task-b{n}" for n in range(4)]

    await server.ask("POST", "/v1/nodes/task-b0/status", {"status": "abandoned"})
    await put(
        server, node("b1", "decision", ("resolves", "task-b1")), node("b2", "decision", ("supersedes", "task-b2"))
    )
    await server.ask("DELETE", "/v1/nodes/task-b3/edges", {"type": "blocks", "to": "task-a3"})

    assert sorted(await ids(server)) == ["task-a0", "task-a1", "task-a2", "task-a3", "task-b3"]


async def test_what_takes_a_resolvers_word_away_brings_items_back_and_blocks_again(server: InProcessServer) -> None:
    await put(server, node("a"), node("b", "task", ("blocks", "task-a")))
    await put(server, node("one", "decision", ("resolves", "task-b")))
    assert await ids(server) == ["task-a"]

    await server.ask("POST", "/v1/nodes/dec-one/status", {"status": "rejected"})
    assert await ids(server) == ["task-b"]
    await server.ask("POST", "/v1/nodes/dec-one/status", {"status": "active"})
    assert await ids(server) == ["task-a"]
    await put(server, node("two", "decision", ("supersedes", "dec-one")))
    assert await ids(server) == ["task-b"]


async def test_an_open_question_keeps_its_neighbours_for_people_until_it_is_answered(server: InProcessServer) -> None:
    await put(server, node("a", readiness="agent"), node("b", "task", ("mentions", "question-q"), readiness="agent"))
    await put(server, node("q", "question", ("mentions", "task-a")))
    assert (await page(server))["counts_by_readiness"] == {"human": 3}
    assert (await item(server, "task-b"))["readiness_reasons"] == ["open question question-q in neighborhood"]

    await put(server, node("d", "decision", ("answers", "question-q")))

    assert (await page(server, "?readiness=agent"))["counts_by_readiness"] == {"agent": 2}


async def test_a_deleted_blocker_blocks_no_more(server: InProcessServer) -> None:
    await put(server, node("a"), node("b", "task", ("blocks", "task-a")))

    await server.ask("DELETE", "/v1/nodes/task-b", {"reason": "a mistake"})

    assert await ids(server) == ["task-a"]


async def test_a_blocker_counts_every_live_item_that_waits_for_it_however_far(server: InProcessServer) -> None:
    await put(server, node("d"), node("c", "task", ("blocks", "task-d")), node("b", "task", ("blocks", "task-c")))
    await put(server, node("a", "task", ("blocks", "task-b"), ("blocks", "task-c")))
    assert (await item(server, "task-a"))["signals"]["blocking"] == 3

    await server.ask("POST", "/v1/nodes/task-d/status", {"status": "abandoned"})
    assert (await item(server, "task-a"))["score"] == 6.0

    await server.ask("POST", "/v1/nodes/task-c/status", {"status": "abandoned"})
    assert (await item(server, "task-a"))["signals"]["blocking"] == 1


async def test_two_changes_that_meet_over_two_hops_do_not_miss_each_other(
    server: InProcessServer, database_url: str
) -> None:
    """One adds the edge that the other's effect would travel along; neither sees the other before it commits."""
    if not database_url.startswith("postgres"):
        pytest.skip("one writer at a time")
    await put(server, node("a"), node("b"))
    async with held("event.written") as door:
        edge = {"type": "blocks", "to": "task-a"}
        blocking = asyncio.create_task(server.ask("POST", "/v1/nodes/task-b/edges", edge))
        await door.reached()
        resolving = asyncio.create_task(put(server, node("d", "decision", ("resolves", "task-b"))))
        await until_blocked(database_url)
        door.open()
        await blocking
        await resolving

    assert await ids(server) == ["task-a"]


async def test_a_change_that_touches_more_than_its_share_leaves_the_rest_to_the_refresh(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "FANOUT_MAX", 3)
    await put(server, *(node(f"{n:02}", "task", ("mentions", "question-q"), readiness="agent") for n in range(12)))
    with failing("rank.derived", RuntimeError("killed")):
        await put(server, node("q", "question"))

    lagging = await page(server, "?readiness=agent")
    assert lagging["items"] == []
    assert (await server.ask("POST", "/v1/queue/next", {}))["status"] == "empty"

    assert not await ranking.refresh(server.store)
    after = await page(server)
    assert after["counts_by_readiness"] == {"human": 13}


async def test_a_policy_that_lets_agents_consent_reaches_what_they_wrote(server: InProcessServer) -> None:
    seven = await server.add_agent("seven")
    await put(server, node("a", project="demo", readiness="agent"), token=seven)
    assert (await page(server))["counts_by_readiness"] == {"untriaged": 1}

    await server.ask("PUT", "/v1/policy/demo", {"agents_may_ready": True})

    assert await ids(server, "?readiness=agent") == ["task-a"]
    assert (await page(server))["counts_by_readiness"] == {"agent": 1}


async def test_items_age_wake_and_fall_due_without_anybody_writing(server: InProcessServer, clock: ManualClock) -> None:
    today = "2026-06-01"
    await put(
        server,
        node("asleep", date=today, wake="2026-06-05", priority="p1"),
        node("due", date=today, needed_by="2026-07-15"),
        node("plain", date="2026-05-20"),
    )
    assert await ids(server) == ["task-plain", "task-due"]
    clock.advance(timedelta(days=4))
    assert await ids(server) == ["task-asleep", "task-plain", "task-due"]
    clock.advance(timedelta(days=30))
    assert await ids(server) == ["task-asleep", "task-due", "task-plain"]

    await ranking.note_turned(server.store)
    assert not await ranking.refresh(server.store)

    assert await ids(server) == ["task-asleep", "task-due", "task-plain"]
    assert (await item(server, "task-due"))["signals"]["needed_by_days"] == 10


async def test_a_claim_waits_for_nobody_who_is_deriving_the_item(server: InProcessServer) -> None:
    seven = await server.add_agent("seven")
    await put(server, node("a"), node("b"))
    async with held("event.written") as door:
        changing = asyncio.create_task(server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p1"}))
        await door.reached()
        if server.store.writes_at_once > 1:
            claimed = await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)
            assert claimed["lease"]["by"] == "agent-seven"
        door.open()
        await changing
    if server.store.writes_at_once == 1:
        await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)

    ben = await server.add_person("Ben")
    for _ in range(2):
        seen = await page(server, token=ben)
        assert ([one["id"] for one in seen["items"]], seen["leased"]) == (["task-b"], 1)
        assert not await ranking.refresh(server.store)


async def test_what_was_held_is_found_whatever_the_index_says(server: InProcessServer, clock: ManualClock) -> None:
    seven, ben = await server.add_agent("seven"), await server.add_person("Ben")
    await put(server, node("lapsed", priority="p1"), node("given", priority="p2"), node("free"))
    for name in ("lapsed", "given"):
        await server.ask("POST", f"/v1/nodes/task-{name}/claim", {}, token=seven)
    assert await ids(server, token=ben) == ["task-free"]

    await server.ask("POST", "/v1/nodes/task-given/release", {}, token=seven)
    assert await ids(server, token=ben) == ["task-given", "task-free"]
    clock.advance(timedelta(hours=1))
    assert await ids(server, token=ben) == ["task-lapsed", "task-given", "task-free"]

    async with server.store.write(SYSTEM, Fences()) as tx:  # a mark that was never taken back
        tx.put(items.marked([Resource("task-given")], []))
    assert await ids(server, token=ben) == ["task-lapsed", "task-given", "task-free"]


# Scopes and counters


async def test_a_slug_stands_for_its_grouping_and_each_name_for_itself(server: InProcessServer) -> None:
    await put(
        server,
        node("mail", "repo", ("grouped-under", "proj-post")),
        node("web", "repo", ("grouped-under", "proj-post")),
        node("alone", "repo"),
        {**node("x"), "id": "proj-post", "type": "project"},
    )
    await put(server, *(node(name, project=name) for name in ("mail", "web", "post", "alone")))

    assert await ids(server, "?project=mail") == ["task-mail", "task-post", "task-web"]
    assert await ids(server, "?project=repo-mail") == ["task-mail"]
    assert await ids(server, "?project=proj-post") == ["task-mail", "task-post", "task-web"]
    assert await ids(server, "?project=alone") == ["task-alone"]
    assert (await page(server, "?project=nowhere"))["project_warning"].startswith("no repository, grouping or node")
    assert "project_warning" not in await page(server, "?project=mail&type=issue")
    assert (await server.send("GET", "/v1/queue?project=No+Slug")).status_code == 422


async def test_an_archived_repository_hides_its_items_and_counts_them(server: InProcessServer) -> None:
    await put(server, node("mail", "repo"), node("a", project="mail"), node("b", project="web"))

    await server.ask("POST", "/v1/nodes/repo-mail/status", {"status": "archived"})
    archived = await page(server)
    assert ([one["id"] for one in archived["items"]], archived["archived"]) == (["task-b"], 1)

    await server.ask("POST", "/v1/nodes/repo-mail/status", {"status": None})
    assert await ids(server) == ["task-a", "task-b"]


async def test_what_a_person_has_muted_is_counted_for_that_person_alone(server: InProcessServer) -> None:
    await put(server, node("a", project="mail"), node("b", project="web"), node("c", project="web"))
    me = (await server.ask("GET", "/v1/me"))["person"]
    stored = await server.ask("GET", f"/v1/nodes/{me}")
    written = {**stored["frontmatter"], "queue_mute": ["mail", "task-b@2026-07-01", "task-c@2026-06-01"], "body": ""}
    entry = {"node": written, "if_exists": "update", "revision": stored["revision"]}
    assert (await server.ask("POST", "/v1/nodes", {"nodes": [entry]}))["results"][0]["ok"]

    mine = await page(server)

    assert ([one["id"] for one in mine["items"]], mine["muted"], mine["total_count"]) == (["task-c"], 2, 1)
    counted = await page(server, "?counts=1")
    assert (counted["muted"], counted["total_count"], counted["counts_by_type"]) == (2, 1, {"task": 1})
    ben = await server.add_person("Ben")
    assert await ids(server, token=ben) == ["task-a", "task-b", "task-c"]


async def test_every_counter_counts_what_it_hides_once(server: InProcessServer) -> None:
    await put(
        server,
        node("mail", "repo", status="archived"),
        node("free"),
        node("old", project="mail"),
        node("asleep", wake="2027-01-01"),
        node("first", "task", ("blocks", "task-blocked")),
        node("blocked"),
        node("piped", execution="pipelines/r1"),
        node("done", status="abandoned"),
        *(node(name) for name in ("held", "kept")),
    )
    ben = await server.add_person("Ben")
    await server.ask("POST", "/v1/nodes/task-held/claim", {}, token=ben)
    await server.ask("POST", "/v1/nodes/task-kept/reserve", {}, token=ben)
    names = ("archived", "dormant", "blocked", "gating", "leased", "reserved")

    for query in ("", "?counts=1"):
        seen = await page(server, query)
        assert [one["id"] for one in seen["items"]] == ["task-first", "task-free"]
        assert {name: seen.get(name) for name in names} == dict.fromkeys(names, 1)
        assert (seen["total_count"], seen["counts_by_suggest"]) == (2, {"do": 2})
    blocked = await page(server, "?include_blocked=1")
    assert ("blocked" in blocked, blocked["total_count"]) == (False, 3)


async def test_counts_beyond_a_thousand_are_capped_unless_all_are_asked_for(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.server.services.paging.COUNTED_MAX", 10)
    await put(server, *(node(f"{n:02}", project=f"p{n % 2}") for n in range(60)))

    some, every = await page(server, "?limit=3"), await page(server, "?limit=3&counts=1")

    assert (some["counts_capped"], some["truncated"]) == (True, True)
    assert 10 <= some["total_count"] < 60
    assert ("counts_capped" in every, every["total_count"]) == (False, 60)
    assert every["counts_by_project"] == {"p0": 30, "p1": 30}


# Blocked items, proposals, and what is held


async def test_a_blocked_item_never_ranks_above_its_blocker(server: InProcessServer) -> None:
    await put(server, node("c", priority="p1"), node("b", "task", ("blocks", "task-c"), priority="p1"))
    await put(server, node("a", "task", ("blocks", "task-b")), node("between", priority="p2"))

    listed = (await page(server, "?include_blocked=1"))["items"]

    scores = {one["id"]: one["score"] for one in listed}
    assert [one["id"] for one in listed] == ["task-a", "task-b", "task-between", "task-c"]
    assert (scores["task-a"], scores["task-b"]) == (6.0, 5.99)
    assert listed[1]["suggest"] == "blocked"


async def test_items_that_block_each_other_say_so(server: InProcessServer) -> None:
    await put(server, node("a"), node("b"), node("c", "task", ("blocks", "task-a")))
    async with server.store.write(SYSTEM, Fences()) as tx:  # as an import may
        for src, dst in (("task-a", "task-b"), ("task-b", "task-a")):
            edges.put_edges(tx, NodeId(src), [Edge("blocks", NodeId(dst))], by_person=True, at=await tx.now())
    await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p3"})
    await server.ask("POST", "/v1/nodes/task-b/priority", {"priority": "p3"})

    listed = {one["id"]: one.get("blocked_cycle") for one in (await page(server, "?include_blocked=1"))["items"]}

    assert listed == {"task-a": True, "task-b": True, "task-c": None}
    assert await ids(server) == ["task-c"]


async def test_a_proposed_schema_waits_for_approval_among_the_items(server: InProcessServer) -> None:
    await put(server, node("x", "schema", status="proposed"), node("a", priority="p1"), node("b", readiness="agent"))

    listed = (await page(server))["items"]

    assert [(one["id"], one["suggest"], one["score"]) for one in listed] == [
        ("task-a", "do", 6.0),
        ("schema-x", "approve", 5.0),
        ("task-b", "dispatch", 0.0),
    ]
    assert "readiness" not in listed[1]
    assert await ids(server, "?readiness=untriaged") == ["task-a"]


async def test_a_node_says_which_outcome_stands_on_it_and_resolves_nothing(server: InProcessServer) -> None:
    await put(server, node("a"), node("b"), node("other"))
    await put(
        server,
        node("kept", "artifact", ("decided-in", "task-a")),
        node("report", "artifact", ("relates-to", "task-a")),
        node("elsewhere", "artifact", ("decided-in", "task-b"), ("resolves", "task-other")),
    )

    shown = await server.ask("GET", "/v1/nodes/task-a")
    assert shown["held"]["outcomes"] == ["art-kept"]
    assert "held" not in await server.ask("GET", "/v1/nodes/task-b")

    await put(server, node("done", "artifact", ("resolves", "task-a")))
    assert "held" not in await server.ask("GET", "/v1/nodes/task-a")


async def test_a_task_somebody_keeps_touching_under_an_outcome_goes_to_triage_for_that_person(
    server: InProcessServer,
) -> None:
    await put(server, node("a", readiness="agent"), node("kept", "artifact", ("decided-in", "task-a")))
    for priority in ("p1", "p2", "p1"):
        await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": priority})

    mine = await item(server, "task-a")

    assert (mine["suggest"], mine["readiness"], mine["signals"]["front"]) == ("triage", "human", 0)
    assert await ids(server, "?readiness=agent") == []
    ben = await server.add_person("Ben")
    (theirs,) = (await page(server, token=ben))["items"]
    assert (theirs["suggest"], theirs["readiness"], theirs["signals"]["heat"]) == ("dispatch", "agent", 3)


async def test_an_item_whose_edges_lead_nowhere_is_to_be_closed(server: InProcessServer) -> None:
    await put(server, node("a", "task", ("mentions", "task-gone"), ("mentions", "task-b")), node("b"))

    stale = await item(server, "task-a")

    assert (stale["suggest"], stale["signals"]["staleness"]) == ("close", 0.5)
    assert (await page(server))["counts_by_suggest"] == {"close": 1, "do": 1}


async def test_what_takes_the_place_of_something_is_not_stale_by_that(server: InProcessServer) -> None:
    await put(server, node("new", "task", ("supersedes", "task-old")), node("old"))

    fresh = await item(server, "task-new")

    assert (fresh["suggest"], fresh["signals"]["staleness"]) == ("do", 0.0)


async def test_a_steward_reads_what_belongs_to_its_repositories(server: InProcessServer) -> None:
    ben = await server.add_person("Ben")
    await put(server, node("mail", "repo"), node("a", project="mail"), node("b", project="mail"), node("c"))
    await put(server, node("x", "task", ("blocks", "task-a")), node("mine", "task", ("assigned", "person-ben")))
    person = await server.ask("GET", "/v1/nodes/person-ben")
    edge = {"type": "stewards", "to": "repo-mail"}
    await server.ask("POST", "/v1/nodes/person-ben/edges", edge)
    await server.ask("POST", "/v1/nodes/task-b/claim", {})
    assert person["frontmatter"]["id"] == "person-ben"

    assert sorted(await ids(server, "?assignee=me", token=ben)) == ["task-a", "task-b", "task-mine"]
    assert await ids(server, "?assignee=person-ben&project=mail") == await ids(
        server, "?assignee=me&project=mail", token=ben
    )


async def test_equal_items_keep_one_order_whoever_looks_and_however_many_come(server: InProcessServer) -> None:
    """Case 40: a busy queue starves nobody; the tie goes to the older one, and two reads agree."""
    await put(server, *(node(f"{n:03}") for n in range(60)))
    before = await ids(server, "?limit=100")

    await put(server, *(node(f"0{n:02}-later", date="2026-06-02") for n in range(30)))

    after = await ids(server, "?limit=100")
    assert after[:60] == before == await ids(server, "?limit=60")
