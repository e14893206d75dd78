"""What is read besides one node: many at once, what became of one, where a commit is carried, the vocabulary."""

from __future__ import annotations

from batonpass.conformance.case import requirement
from batonpass.conformance.world import World, done


@requirement("batch-read", "batch-read-missing")
def many_nodes_are_read_in_the_order_asked_for(world: World) -> None:
    one, two, nobody = world.node(), world.node(), world.name("task")

    page = done(world.agent.post("/v1/nodes/batch", {"ids": [two, nobody, one, two]}))

    assert page["returned_ids"] == [node["id"] for node in page["nodes"]] == [two, one]
    assert page["missing_ids"] == [nobody]
    assert (page["truncated"], page["next_cursor"]) == (False, None)
    assert [node["raw"] for node in page["nodes"]] == [world.read(node)["raw"] for node in (two, one)]


@requirement("batch-read-pages")
def a_page_is_bounded_and_the_cursor_gives_the_next(world: World) -> None:
    ids = [world.node(body="x" * 8000) for _ in range(8)]

    page = done(world.agent.post("/v1/nodes/batch", {"ids": ids}))
    seen = list(page["returned_ids"])
    assert page["truncated"]
    while page["next_cursor"] is not None:
        page = done(world.agent.post("/v1/nodes/batch", {"cursor": page["next_cursor"]}))
        seen += page["returned_ids"]

    assert seen == ids
    assert world.agent.post("/v1/nodes/batch", {"ids": []}).status == 422
    assert world.agent.post("/v1/nodes/batch", {"ids": ids * 13}).status == 422


@requirement("history-read")
def a_nodes_history_and_each_of_its_revisions_can_be_read(world: World) -> None:
    node = world.node(body="First.")
    first = world.read(node)["revision"]
    done(world.ann.post(f"/v1/nodes/{node}/priority", {"priority": "p1"}))

    page = done(world.agent.get(f"/v1/nodes/{node}/history", limit=1))

    assert [entry["revision"] for entry in page["entries"]] == [world.read(node)["revision"]]
    assert "First." in done(world.agent.get(f"/v1/nodes/{node}/history/{first}"))["raw"]
    assert world.agent.get(f"/v1/nodes/{node}/history/{'0' * 40}").code == "not_found"


@requirement("commit-lookup")
def a_commit_leads_to_the_nodes_that_carry_it(world: World) -> None:
    node, sha = world.node(), f"{world.number:07x}fade"
    done(world.agent.post(f"/v1/nodes/{node}/commits", {"repo": "web", "sha": sha}))

    assert [found["id"] for found in done(world.agent.get(f"/v1/commits/{sha}"))["nodes"]] == [node]


@requirement("schema-read")
def the_vocabulary_can_be_read(world: World) -> None:
    types = {kind["name"]: kind for kind in done(world.agent.get("/v1/schema"))["types"]}

    assert set(types["task"]["statuses"]) == {"open", "active", "done", "abandoned"}
    assert types["artifact"]["prefixes"] == ["art-", "spec-"]


@requirement("edge-live")
def an_edge_can_be_made_to_depend_on_its_target_being_live(world: World) -> None:
    node, target = world.node(), world.node()
    edge = {"type": "relates-to", "to": target}

    assert done(world.ann.post(f"/v1/nodes/{node}/edges/live", edge))["status"] == "updated"
    done(world.ann.delete(f"/v1/nodes/{node}/edges", edge))
    world.resolver(target)

    assert world.ann.post(f"/v1/nodes/{node}/edges/live", edge).status == 409


@requirement("execution-hold")
def an_item_under_execution_is_completed_by_the_write_that_ends_the_hold(world: World) -> None:
    node = world.node(execution="exec-1")
    world.resolver(node)
    held = world.read(node)

    refused = world.ann.post(f"/v1/nodes/{node}/status", {"status": "done"})
    entry = {"node": world.entry(node, status="done"), "if_exists": "update", "revision": held["revision"]}
    (completed,) = done(world.ann.post("/v1/nodes", {"nodes": [entry]}))["results"]

    assert held["execution_hold"]["execution"] == "exec-1"
    assert refused.code == "transition_denied"
    assert completed["status"] == "updated"
