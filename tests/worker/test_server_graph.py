"""The worker's view of a real server, in this process, on either database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from batonpass.client.calls import Call
from batonpass.client.client import ONCE
from batonpass.core.digest_text import Mode
from batonpass.core.errors import AlreadyClaimed, Conflict, LeaseLost, NotFound, Unauthorized, Unavailable
from batonpass.core.ids import AgentId, Fence, HolderId, NodeId, PersonId, Resource, RunId
from batonpass.core.outcome import Resolver
from batonpass.core.reports import About, Standing, finding_node, report_node
from batonpass.testing.served_graph import ServedGraph, served_graph
from batonpass.wire.policy import PolicyRequest
from batonpass.worker.graph import Caller, Item, Put, Taken
from batonpass.worker.server_graph import DIGEST_S_MAX, ServerGraph

AGENT = AgentId(HolderId("agent-mill"))
RUN = RunId("0b101010-1234-4abc-8def-0123456789ab")


@dataclass(frozen=True, slots=True)
class Place(ServedGraph):
    """A server with a person, their agent, and the agent's view of the graph."""

    def take(self, node: NodeId, nonce: str = "n-1") -> Taken:
        taken = self.graph.next(project="mail", accept="ready", candidates=[node], dispatch=nonce)
        assert taken is not None
        return taken

    def is_leased(self, node: NodeId) -> bool:
        return self.person.node(node).lease is not None


@pytest.fixture
def place(database_url: str) -> Iterator[Place]:
    with served_graph(database_url) as served:
        yield Place(served.server, served.person, served.agent, served.agent_id, served.graph)


def about(node: NodeId) -> About:
    return About(run=RUN, harness="command", target=node, target_type="task", ended="done", date="2026-11-30")


def test_the_caller_is_named_with_its_owner_and_the_database(place: Place) -> None:
    caller = place.graph.caller()

    assert caller == Caller(AGENT, PersonId(HolderId("person-ada-admin")), place.person.status().incarnation)
    assert ServerGraph(place.person).caller().agent is None


def test_a_runs_token_says_that_it_is_one(place: Place) -> None:
    taken = place.take(place.add("task-1", readiness="agent"))
    token = place.graph.mint(AGENT, taken.fence)

    with place.server.client(token.secret) as run:
        assert ServerGraph(run).caller().run == taken.fence
    assert token.secret not in repr(token)


def test_a_page_has_what_taking_an_item_is_decided_by(place: Place) -> None:
    place.add("task-1", readiness="agent", title="One")
    place.add("task-2")

    page = place.graph.page(project="mail", limit=10)

    by_id = {item.id: item for item in page.items}
    assert by_id[NodeId("task-1")] == Item(NodeId("task-1"), "One", "task", "mail", "agent", "dispatch")
    assert by_id[NodeId("task-2")].readiness is None
    assert not page.more
    assert place.graph.page(project="mail", limit=1).more


def test_the_first_candidate_still_free_is_claimed_and_the_same_nonce_gets_it_again(place: Place) -> None:
    first, second = place.add("task-1", readiness="agent"), place.add("task-2", readiness="agent")
    place.person.claim(first)

    taken = place.graph.next(project="mail", accept="ready", candidates=[first, second], dispatch="n-1")

    assert taken is not None
    assert (taken.item.id, taken.fence) == (second, Fence(Resource(second), 1))
    assert 0 < taken.expires_in_ms <= 60_000
    again = place.graph.next(project="mail", accept="ready", candidates=[first, second], dispatch="n-1")
    assert again is not None
    assert again.fence == taken.fence
    assert place.graph.next(project="mail", accept="ready", candidates=[first, second], dispatch="n-2") is None


def test_an_open_worker_may_claim_what_nobody_triaged_and_a_ready_one_may_not(place: Place) -> None:
    node = place.add("task-1")

    assert place.graph.next(project="mail", accept="ready", candidates=[node], dispatch="n-1") is None
    assert place.graph.next(project="mail", accept="open", candidates=[node], dispatch="n-2") is not None


def test_a_node_reads_with_the_edge_that_retires_it(place: Place) -> None:
    node = place.add("task-1", title="One", body="Its text.")
    assert place.graph.node(node).resolver is None

    place.add("art-done", type="artifact", edges=[{"type": "resolves", "to": node}])

    seen = place.graph.node(node)
    assert (seen.type, seen.title, seen.project) == ("task", "One", "mail")
    assert "Its text." in seen.raw
    assert seen.resolver == Resolver(NodeId("art-done"), "resolves")
    with pytest.raises(NotFound):
        place.graph.node(NodeId("task-none"))


def test_what_is_known_around_an_item_begins_with_what_runs_reported(place: Place) -> None:
    node = place.add("task-1")
    alone = place.graph.digest(node, project="mail", mode=Mode.DIGEST)
    place.add("task-2", edges=[{"type": "relates-to", "to": node}])
    place.graph.put(report_node(about(node), "Half of it.", Standing.UNRESOLVED))
    place.graph.put(finding_node(about(node), "DECLINED: x", "x"))

    known = place.graph.digest(node, project="mail", mode=Mode.DIGEST)

    named = [line.split("`")[1] for line in known.splitlines() if line.startswith("- ")]
    assert alone == ""
    assert (set(named[:2]), named[2:]) == ({"art-dispatch-report-1-0b101010", "find-declined-1-0b101010"}, ["task-2"])


def test_a_briefing_is_asked_for_once_and_not_for_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    node = place.add("task-1")
    asked: list[float] = []

    def busy(call: Call[object], **how: object) -> object:
        assert how == {"patience": ONCE}
        asked.append(call.answer_s_max)
        raise Unavailable("busy")

    monkeypatch.setattr(place.agent, "send", busy)
    with pytest.raises(Unavailable):
        place.graph.digest(node, project="mail", mode=Mode.FULL)

    assert asked == [DIGEST_S_MAX]


def test_a_report_lands_once_as_the_agents_work_and_a_refusal_is_told(place: Place) -> None:
    draft = report_node(about(place.add("task-1")), "Half of it.", Standing.UNRESOLVED)

    assert place.graph.put(draft) == Put("created")
    assert place.graph.put(replace(draft, body="Another body.")) == Put("skipped")
    refused = place.graph.put(replace(draft, id=NodeId("art-other"), summary="x" * 501))

    frontmatter = place.person.node(draft.id).frontmatter
    assert (frontmatter["authored_by_agent"], frontmatter["authored_via"]) == (AGENT, "dispatch")
    assert "session" not in frontmatter
    assert refused.status == "error"
    assert "summary" in refused.message


AWKWARD = (
    *("fix: a", "- item", "# heading", "@x", "`x`", "%x", '"half', "*x", "&x", "!x", "[x", "{x", "? x"),
    *("key: value # c", "no", "null", "~", "=", "\ttabbed", "trailing ", "a\u0085b"),
)


def test_a_summary_reads_back_as_it_was_meant_whatever_a_report_begins_with(place: Place) -> None:
    node = place.add("task-1")
    for number, first_line in enumerate(AWKWARD):
        draft = replace(report_node(about(node), first_line, Standing.UNRESOLVED), id=NodeId(f"art-{number}"))
        place.graph.put(draft)

        summary = place.person.node(draft.id).frontmatter["summary"]

        assert summary == draft.summary
        assert summary.endswith(" ".join(first_line.split()))


def test_a_stamp_goes_and_a_lease_is_handed_back_under_its_own_tenure_only(place: Place) -> None:
    node = place.add("task-1", readiness="agent")
    old = place.take(node).fence
    place.graph.release(old)
    new = place.take(node, "n-2").fence

    with pytest.raises(LeaseLost):
        place.graph.clear_readiness(old)
    with pytest.raises(LeaseLost):
        place.graph.release(old)
    assert place.is_leased(node)
    assert place.person.node(node).frontmatter["readiness"] == "agent"

    place.graph.clear_readiness(new)
    place.graph.release(new)
    assert not place.is_leased(node)
    assert "readiness" not in place.person.node(node).frontmatter


def test_a_release_that_changes_nothing_is_not_taken_for_one(place: Place) -> None:
    node = place.add("task-1", readiness="agent")
    fence = place.take(node).fence
    place.person.release(node, reason="for somebody else")

    with pytest.raises(LeaseLost, match="had ended already"):
        place.graph.release(fence)


def test_somebody_elses_lease_is_not_handed_back(place: Place) -> None:
    node = place.add("task-1", readiness="agent")
    reply = place.person.claim(node)

    with pytest.raises(AlreadyClaimed):
        place.graph.release(Fence(Resource(node), reply.lease.epoch))
    assert place.is_leased(node)


def test_a_tenure_has_one_token_and_it_ends_at_a_word(place: Place) -> None:
    fence = place.take(place.add("task-1", readiness="agent")).fence
    token = place.graph.mint(AGENT, fence)
    with pytest.raises(Conflict):
        place.graph.mint(AGENT, fence)

    place.graph.revoke(AGENT, token.prefix)

    with place.server.client(token.secret) as run, pytest.raises(Unauthorized):
        run.me()
    with pytest.raises(NotFound):
        place.graph.revoke(AGENT, "0123456789ab")


def test_a_heart_beats_until_the_tenure_is_somebody_elses(place: Place) -> None:
    # So short that the next beat comes soon, whichever of the first beat and the takeover is first.
    place.person.put_policy("*", PolicyRequest(claim_ttl_ms=4_000))
    node = place.add("task-1", readiness="agent")
    taken = place.take(node)
    heart = place.graph.keep(replace(taken, expires_in_ms=200))
    try:
        assert heart.lost() is None
        place.person.take(node, reason="I need it myself")
        why = _until_lost(heart.lost)
    finally:
        heart.stop()

    assert "task-1" in why


def _until_lost(lost: Callable[[], str | None]) -> str:
    deadline = time.monotonic() + 20
    while (why := lost()) is None:
        assert time.monotonic() < deadline, "the loss was never noticed"
        threading.Event().wait(0.01)
    return why
