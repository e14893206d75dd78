"""Nodes and edges: the batch door, one node read, edges, and the verbs that change one value."""

from __future__ import annotations

from typing import Any, Final

from batonpass.conformance.case import requirement
from batonpass.conformance.client import Answer, Client
from batonpass.conformance.world import World, done

RESULT: Final = {"ok", "status", "id", "revision", "warnings"}
CHANGE: Final = {"status", "id", "revision", "warnings"}


def put(who: Client, *nodes: object, **body: object) -> tuple[int, list[Any]]:
    """Return the status of a batch and its results."""
    answer = who.post("/v1/nodes", {"nodes": list(nodes), **body})
    assert set(answer.body) >= {"results"}, answer
    return answer.status, answer.body["results"]


# --- the batch --------------------------------------------------------------------------------------------------------


@requirement("put-results", "put-forms")
def a_batch_takes_markdown_and_objects_and_answers_each(world: World) -> None:
    ids = [world.name("task") for _ in range(3)]
    markdown = f"---\nid: {ids[0]}\ntype: task\ntitle: One\nsummary: S\ndate: 2026-06-01\n---\nText.\n"

    status, results = put(world.agent, markdown, {"node": markdown.replace(ids[0], ids[1])}, world.entry(ids[2]))

    assert status == 200
    assert [(result["ok"], result["status"], result["id"]) for result in results] == [
        (True, "created", node) for node in ids
    ]
    assert all(set(result) >= RESULT and result["revision"] for result in results)
    assert [world.read(node)["frontmatter"]["title"] for node in ids[:2]] == ["One", "One"]


@requirement("put-partial", "put-edge-unknown")
def an_entry_that_fails_makes_the_answer_207_and_stops_no_other(world: World) -> None:
    good, bad, edge = world.name("task"), world.name("task"), world.name("task")

    status, results = put(
        world.agent,
        world.entry(bad, status="sleeping"),
        world.entry(good),
        world.entry(edge, edges=[{"type": "no-such-edge", "to": good}]),
    )

    assert status == 207
    assert [(result["ok"], result["status"]) for result in results] == [
        (False, "error"),
        (True, "created"),
        (False, "error"),
    ]
    assert results[0]["message"]
    assert results[0]["details"]
    assert [world.admin.get(f"/v1/nodes/{node}").status for node in (bad, good, edge)] == [404, 200, 404]


@requirement("put-order", "completion-gate")
def entries_are_applied_in_order_so_the_resolver_goes_before_what_it_completes(world: World) -> None:
    node = world.node()
    revision = world.read(node)["revision"]
    resolver = world.entry(world.name("art"), "artifact", edges=[{"type": "resolves", "to": node}])
    completed = {"node": world.entry(node, status="done"), "if_exists": "update", "revision": revision}

    too_early = put(world.agent, completed)
    together = put(world.agent, resolver, completed)

    assert (too_early[0], too_early[1][0]["status"]) == (207, "error")
    assert together[0] == 200
    assert [result["status"] for result in together[1]] == ["created", "updated"]


@requirement("put-exists-error", "put-exists-skip")
def a_node_that_exists_is_a_conflict_or_is_skipped(world: World) -> None:
    node = world.node()
    now = world.read(node)["revision"]
    other = world.entry(node, title="Another")

    refused, skipped = put(world.agent, other), put(world.agent, other, if_exists="skip")

    assert (refused[0], refused[1][0]["ok"], refused[1][0]["revision"]) == (207, False, now)
    assert (skipped[0], skipped[1][0]["ok"], skipped[1][0]["status"]) == (200, True, "skipped")
    assert world.read(node)["revision"] == now


@requirement("put-exists-update")
def an_update_names_the_revision_it_replaces(world: World) -> None:
    node = world.node()
    first = world.read(node)["revision"]

    def update(revision: str | None, title: str) -> tuple[int, Any]:
        status, (result,) = put(
            world.agent, {"node": world.entry(node, title=title), "if_exists": "update", "revision": revision}
        )
        return status, result

    assert update(first, "Second")[1]["status"] == "updated"
    second = world.read(node)["revision"]
    stale = update(first, "Third")
    assert second != first
    assert (stale[0], stale[1]["ok"], stale[1]["revision"]) == (207, False, second)
    assert update(None, "Fourth")[1]["ok"] is False
    assert world.read(node)["frontmatter"]["title"] == "Second"


@requirement("put-edge-names", "put-dangling")
def edges_are_written_under_their_canonical_names_on_the_node_they_lead_from(world: World) -> None:
    blocker, node = world.node(), world.name("task")

    status, (result,) = put(
        world.agent,
        world.entry(
            node,
            edges=[
                {"type": "related-to", "to": "task-nowhere-yet"},
                {"type": "blocked-by", "to": blocker},
            ],
        ),
    )

    assert status == 200
    assert world.read(node)["frontmatter"]["edges"] == [{"type": "relates-to", "to": "task-nowhere-yet"}]
    assert {"type": "blocks", "to": node} in world.read(blocker)["frontmatter"]["edges"]
    assert any(blocker in warning for warning in result["warnings"])


@requirement("born-terminal")
def nothing_is_born_done(world: World) -> None:
    status, (result,) = put(world.agent, world.entry(world.name("task"), status="done"))

    assert (status, result["ok"], result["code"]) == (207, False, "transition_denied")


# --- one node ---------------------------------------------------------------------------------------------------------


@requirement("read-node", "read-unresolved")
def a_node_is_read_as_it_stands_and_as_data(world: World) -> None:
    node = world.node(body="Some text.")

    read = world.read(node)

    assert set(read) >= {"raw", "frontmatter", "revision"}
    assert read["raw"].startswith("---\n")
    assert "Some text." in read["raw"]
    assert (read["frontmatter"]["id"], read["frontmatter"]["type"]) == (node, "task")
    assert not read.get("resolution")
    assert not read.get("open_findings")
    assert not read.get("superseded_by")


@requirement("read-resolution")
def a_node_that_is_resolved_says_by_what(world: World) -> None:
    node = world.node(status="open")
    resolver = world.resolver(node)

    resolution = world.read(node)["resolution"]

    assert set(resolution) >= {"by", "edge", "date", "summary", "title", "lagging", "note"}
    assert (resolution["by"], resolution["edge"], resolution["lagging"]) == (resolver, "resolves", True)
    done(world.agent.post(f"/v1/nodes/{node}/status", {"status": "done"}))
    assert world.read(node)["resolution"]["lagging"] is False


@requirement("resolver-counts", "answers-questions")
def what_is_not_approved_superseded_or_of_another_kind_resolves_nothing(world: World) -> None:
    waiting, superseded, answered, asked = world.node(), world.node(), world.node(), world.node("question")
    world.resolver(waiting, status="in-review")
    old = world.resolver(superseded)
    world.node("artifact", prefix="art", edges=[{"type": "supersedes", "to": old}])
    for node in (answered, asked):
        world.node("artifact", prefix="art", edges=[{"type": "answers", "to": node}])

    resolved = {node: bool(world.read(node).get("resolution")) for node in (waiting, superseded, answered, asked)}

    assert resolved == {waiting: False, superseded: False, answered: False, asked: True}


@requirement("read-enriched")
def a_node_is_read_with_its_open_findings_and_successors(world: World) -> None:
    node = world.node()
    finding = world.node("finding", prefix="find", status="open", edges=[{"type": "relates-to", "to": node}])
    successor = world.node(edges=[{"type": "supersedes", "to": node}])

    read = world.read(node)

    assert finding in str(read["open_findings"])
    assert successor in str(read["superseded_by"])


@requirement("not-found")
def a_node_that_is_not_there_is_not_found(world: World) -> None:
    answer = world.agent.get(f"/v1/nodes/{world.name('task')}")

    assert (answer.status, answer.code) == (404, "not_found")


# --- edges ------------------------------------------------------------------------------------------------------------


@requirement("edge-add", "edge-replace")
def an_edge_is_added_once_and_replaced_by_one_with_other_attributes(world: World) -> None:
    node, other = world.node(), world.node()

    def add(**attrs: object) -> dict[str, Any]:
        body: dict[str, Any] = done(
            world.agent.post(f"/v1/nodes/{node}/edges", {"type": "relates-to", "to": other, "attrs": attrs})
        )
        assert set(body) >= CHANGE
        return body

    assert (add(via="report")["status"], add(via="report")["status"]) == ("updated", "skipped")
    assert add(why="other")["id"] == node
    assert world.read(node)["frontmatter"]["edges"] == [{"type": "relates-to", "to": other, "why": "other"}]


@requirement("edge-both")
def both_ends_of_an_edge_must_exist(world: World) -> None:
    node, nobody = world.node(), world.name("task")

    for src, dst in ((node, nobody), (nobody, node)):
        assert world.agent.post(f"/v1/nodes/{src}/edges", {"type": "relates-to", "to": dst}).status == 404
    assert world.agent.post(f"/v1/nodes/{node}/edges", {"type": "no-such", "to": node}).status == 422


@requirement("edge-inverse")
def an_inverse_label_writes_on_the_other_node_and_names_it(world: World) -> None:
    node, blocker = world.node(), world.node()

    body = done(world.agent.post(f"/v1/nodes/{node}/edges", {"type": "blocked-by", "to": blocker}))

    assert body["id"] == blocker
    assert world.read(blocker)["frontmatter"]["edges"] == [{"type": "blocks", "to": node}]


@requirement("edge-remove")
def an_edge_is_removed_by_a_delete_with_a_body_and_a_missing_one_is_skipped(world: World) -> None:
    node, other = world.node(), world.node()
    body = {"type": "related-to", "to": other}
    done(world.agent.post(f"/v1/nodes/{node}/edges", body))

    answers = [done(world.agent.delete(f"/v1/nodes/{node}/edges", body)) for _ in range(2)]

    assert [answer["status"] for answer in answers] == ["updated", "skipped"]
    assert all(set(answer) >= CHANGE for answer in answers)
    assert world.read(node)["frontmatter"].get("edges", []) == []


# --- one value --------------------------------------------------------------------------------------------------------


def change(world: World, node: str, name: str, **body: object) -> Answer:
    return world.ann.post(f"/v1/nodes/{node}/{name}", body)


@requirement("status-gate", "status-words")
def a_status_is_a_word_of_the_type_and_a_completion_needs_its_resolver(world: World) -> None:
    node = world.node()

    unknown, early = change(world, node, "status", status="sleeping"), change(world, node, "status", status="done")
    given_up = change(world, node, "status", status="abandoned")

    assert (unknown.status, unknown.code, bool(unknown.body["error"]["details"])) == (422, "invalid_node", True)
    assert (early.status, early.code) == (409, "transition_denied")
    assert early.body["error"]["message"]
    assert (given_up.status, given_up.body["status"]) == (200, "updated")
    assert set(given_up.body) >= CHANGE


@requirement("priority")
def a_priority_is_stamped_with_whose_word_it_is_and_cleared_in_four_ways(world: World) -> None:
    node = world.node()

    for clear in ("none", "clear", "", "p0"):
        assert done(change(world, node, "priority", priority="p2"))["status"] == "updated"
        stamped = world.read(node)["frontmatter"]
        assert stamped["priority"] == "p2"
        assert f"ann-{world.number}@example.org" in stamped["priority_by"]
        assert stamped["priority_at"]
        assert stamped["priority_via"] == "rest"
        assert done(change(world, node, "priority", priority=clear))["status"] == "updated"
        assert not [key for key in world.read(node)["frontmatter"] if key.startswith("priority")]
    refused = change(world, node, "priority", priority="p4")
    assert (refused.status, refused.code) == (422, "invalid_node")
    assert {"p1", "p2", "p3"} <= set(refused.body["error"]["details"])


@requirement("readiness")
def a_readiness_is_agent_or_nothing(world: World) -> None:
    node = world.node()

    for clear in ("none", "clear", "", None):
        assert done(change(world, node, "readiness", readiness="agent"))["status"] == "updated"
        stamped = world.read(node)["frontmatter"]
        assert (stamped["readiness"], stamped["readiness_via"]) == ("agent", "rest")
        assert done(change(world, node, "readiness", readiness=clear))["status"] == "updated"
        assert not [key for key in world.read(node)["frontmatter"] if key.startswith("readiness")]
    assert change(world, node, "readiness", readiness="human").status == 422


@requirement("commits")
def a_commit_is_appended_once(world: World) -> None:
    node, sha = world.node(), "0123456789abcdef0123456789abcdef01234567"

    answers = [done(change(world, node, "commits", repo="web", sha=each))["status"] for each in (sha, sha, sha[:10])]

    assert answers == ["updated", "skipped", "skipped"]
    assert world.read(node)["frontmatter"]["commits"] == [f"web@{sha}"]
    assert change(world, node, "commits", repo="web", sha="nope").status == 422
