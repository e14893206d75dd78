"""The queue: its envelope, its items, and what each reader sees of it."""

from __future__ import annotations

from typing import Any, Final

from batonpass.conformance.case import each, requirement
from batonpass.conformance.world import World, done

ENVELOPE: Final = {
    "items", "count", "offset", "returned_count", "total_count", "truncated", "next_offset", "counts_by_type",
    "counts_by_project", "counts_by_suggest", "generated_at",
}  # fmt: skip
ITEM: Final = {"id", "title", "type", "status", "project", "priority", "score", "signals", "suggest", "why"}
OPTIONAL: Final = {"leased", "reserved", "blocked", "dormant", "muted", "archived"}


def item(world: World, node: str, **query: object) -> Any:  # noqa: ANN401 — JSON
    (found,) = [each for each in world.page(world.agent, **query)["items"] if each["id"] == node]
    return found


@requirement("queue-envelope", "queue-item")
def a_page_and_its_items_have_the_published_fields(world: World) -> None:
    node = world.node(priority="p2")

    page = world.page(world.agent)

    assert set(page) >= ENVELOPE
    assert not OPTIONAL & set(page), "counters stand only when they are not zero"
    assert (page["count"], page["total_count"], page["returned_count"], page["offset"]) == (1, 1, 1, 0)
    assert (page["truncated"], page["next_offset"]) == (False, None)
    assert (page["counts_by_type"], page["counts_by_project"]) == ({"task": 1}, {world.project: 1})
    (only,) = page["items"]
    assert set(only) >= ITEM
    assert (only["id"], only["type"], only["status"], only["project"], only["priority"]) == (
        node, "task", None, world.project, "p2",
    )  # fmt: skip
    assert round(only["score"], 2) == only["score"]
    assert {"blocking", "blocked_by", "age_days"} <= set(only["signals"])


@requirement("queue-unstamped")
def an_item_of_no_project_says_so(world: World) -> None:
    node = world.node(project=None, edges=[{"type": "assigned", "to": world.ids["ann"]}])

    (found,) = done(world.agent.get("/v1/queue", assignee=world.ids["ann"]))["items"]

    assert (found["id"], found["project"]) == (node, None)


@requirement("queue-readiness")
def an_item_says_whom_it_is_meant_for_and_nothing_when_nobody_has_said(world: World) -> None:
    ready, human, untriaged = world.ready(), world.node(requires=["human"]), world.node()
    routed = world.node(edges=[{"type": "assigned", "to": world.ids["agent"]}])
    theirs = world.node(edges=[{"type": "assigned", "to": world.ids["ann"]}])

    items = {each["id"]: each for each in world.page(world.agent)["items"]}

    readiness = {node: each.get("readiness") for node, each in items.items()}
    assert readiness == {ready: "agent", routed: "agent", human: "human", theirs: "human", untriaged: None}
    assert {items[ready]["suggest"], items[untriaged]["suggest"]} == {"dispatch", "do"}
    assert items[routed]["readiness_reasons"] == [f"assigned to agent {world.ids['agent']}"]
    assert "readiness_reasons" not in items[untriaged]
    assert world.page(world.agent)["counts_by_readiness"] == {"agent": 2, "human": 2, "untriaged": 1}


@requirement("queue-human-wins")
def a_person_is_needed_whatever_the_stamp_says(world: World) -> None:
    node = world.ready(requires="human")

    assert item(world, node)["readiness"] == "human"


@requirement("queue-order")
def what_is_urgent_comes_first_then_what_is_old_and_always_in_the_same_order(world: World) -> None:
    plain = world.node()
    urgent = world.node(priority="p1")
    old = world.node(date="2026-01-01")

    assert world.queued(world.agent) == [urgent, old, plain]
    assert world.queued(world.agent) == [urgent, old, plain]


@requirement("queue-blocked")
def a_blocked_item_is_counted_and_comes_back_when_its_blocker_is_done(world: World) -> None:
    node = world.node(edges=[{"type": "assigned", "to": world.ids["ann"]}])
    blocker = world.node(edges=[{"type": "blocks", "to": node}])

    page = world.page(world.agent)
    assert [each["id"] for each in page["items"]] == [blocker]
    assert page["blocked"] == 1
    (shown,) = world.page(world.agent, assignee=world.ids["ann"])["items"]
    assert (shown["id"], shown["suggest"], shown["blocked_by"]) == (node, "blocked", [blocker])

    world.resolver(blocker)
    assert world.queued(world.agent) == [node]


@requirement("queue-lease", "queue-lease-others")
def what_others_hold_is_hidden_and_counted_and_ones_own_is_tagged(world: World) -> None:
    node, free = world.node(), world.node()
    done(world.agent.post(f"/v1/nodes/{node}/claim"))

    own, others = world.page(world.agent), world.page(world.rival)

    tagged = next(each for each in own["items"] if each["id"] == node)
    assert (tagged["lease_state"], tagged["lease_by"]) == ("in_progress", world.ids["agent"])
    assert "in progress" in tagged["why"]
    assert [each["id"] for each in others["items"]] == [free]
    assert others["leased"] == 1
    assert "leased" not in own


@requirement("queue-gone")
def what_is_resolved_retired_superseded_or_asleep_is_not_in_the_queue(world: World) -> None:
    resolved, retired, old, asleep, left = (world.node() for _ in range(5))
    world.resolver(resolved)
    done(world.agent.post(f"/v1/nodes/{retired}/status", {"status": "abandoned"}))
    world.node("decision", prefix="dec", edges=[{"type": "supersedes", "to": old}])
    world.node(wake="2999-01-01")

    page = world.page(world.agent)

    assert sorted(each["id"] for each in page["items"]) == sorted([asleep, left])
    assert page["dormant"] == 1


@requirement("queue-filters")
def a_page_may_be_of_some_types_and_one_readiness(world: World) -> None:
    task, issue = world.node(), world.ready("issue")
    finding = world.node("finding", prefix="find")

    assert sorted(world.queued(world.agent, type="task,issue")) == sorted([task, issue])
    assert sorted(world.queued(world.agent, exclude_type="finding")) == sorted([task, issue])
    assert world.queued(world.agent, type="task,issue", exclude_type="task") == [issue]
    assert world.queued(world.agent, readiness="agent") == [issue]
    assert sorted(world.queued(world.agent, readiness="untriaged")) == sorted([task, finding])


@requirement("queue-refused")
@each("query", [{"type": "nope"}, {"exclude_type": "nope"}, {"readiness": "maybe"}, {"project": "Not A Slug"}])
def a_filter_that_is_none_is_refused(world: World, query: dict[str, str]) -> None:
    assert world.agent.get("/v1/queue", **query).status == 422


@requirement("queue-pages")
def pages_go_on_where_the_last_one_ended_and_a_limit_is_clamped(world: World) -> None:
    nodes = [world.node() for _ in range(5)]
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = world.page(world.agent, limit=2, offset=offset)
        assert (page["count"], page["total_count"], page["offset"]) == (5, 5, offset)
        assert page["returned_count"] == len(page["items"])
        assert page["truncated"] is (page["next_offset"] is not None)
        seen += [each["id"] for each in page["items"]]
        offset = page["next_offset"]

    assert sorted(seen) == sorted(nodes)
    assert world.page(world.agent, limit=100_000)["returned_count"] == 5


@requirement("queue-stamps")
def a_claimed_item_keeps_its_stamp_and_is_offered_to_nobody_else_meanwhile(world: World) -> None:
    node = world.ready()
    done(world.agent.post(f"/v1/nodes/{node}/claim"))
    assert world.queued(world.rival) == []

    done(world.agent.post(f"/v1/nodes/{node}/release"))

    (back,) = world.page(world.rival)["items"]
    assert (back["readiness"], back["suggest"]) == ("agent", "dispatch")
