"""The outcomes that matter most, read off a real server on either database and handed back to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import Ended, State
from batonpass.testing.runs import BEGAN, RUN, run_record
from batonpass.testing.served_graph import ServedGraph, served_graph
from batonpass.worker.crew import Crew, Graces
from batonpass.worker.graph import Taken
from batonpass.worker.journal import HeldRun, Journal
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord
from batonpass.worker.settings import Settings

DECLINE = "DECLINED: done already\n\nSee the log."


@dataclass(frozen=True, slots=True)
class Place(ServedGraph):
    """A server with a person and their agent, and the home that the agent's runs are in."""

    home: Path

    def settled(self, says: str, during: Callable[[Taken], None] = lambda _: None, **changes: Any) -> RunRecord:  # noqa: ANN401
        """Take task-1, let something happen to it, and return the record once its run is settled."""
        node = self.add("task-1", readiness="agent")
        taken = self.graph.next(project="mail", accept="ready", candidates=[node], dispatch=RUN)
        assert taken is not None
        caller = self.graph.caller()
        facts: dict[str, Any] = {
            "server": self.graph.server,
            "incarnation": caller.incarnation,
            "agent": self.agent_id,
            "owner": caller.person,
            "node_type": "task",
            "epoch": taken.fence.epoch,
            "token_prefix": self.graph.mint(self.agent_id, taken.fence).prefix,
            **changes,
        }
        during(taken)
        with Journal(self.home).create(run_record(**facts)) as run:
            run.report.write_text(says)
            return self.settle(run)

    def settle(self, run: HeldRun) -> RunRecord:
        settings = Settings(home=self.home, inherited={}, graces=Graces(0, 0, 0))
        return settle(Settler(self.graph, settings, lambda: BEGAN), run, Crew(RUN))

    def holder(self) -> str | None:
        lease = self.person.node(NodeId("task-1")).lease
        return None if lease is None else lease.by

    def is_ready(self) -> bool:
        return self.person.node(NodeId("task-1")).frontmatter.get("readiness") == "agent"

    def related(self) -> list[str]:
        return [edge.src for edge in self.person.edges(NodeId("task-1"), direction="in", types=["relates-to"]).edges]


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Place]:
    with served_graph(database_url) as served:
        yield Place(served.server, served.person, served.agent, served.agent_id, served.graph, tmp_path / "home")


def test_a_report_is_the_agents_artifact_and_the_item_is_free(place: Place) -> None:
    record = place.settled("Half of it works. \x00 bat_agt_9fKq2mXv7LpWz3Rt")

    assert (record.terminal_state, record.terminal_enforced, record.lease_released) == (Terminal.REPORTED, True, True)
    assert place.related() == [record.report_node_id]
    filed = place.person.node(NodeId(str(record.report_node_id)))
    assert "Half of it works. \ufffd bat_agt_[redacted]" in filed.body
    assert filed.frontmatter["authored_by_agent"] == place.agent_id
    assert (place.holder(), place.is_ready()) == (None, True)


def test_a_live_resolving_edge_is_resolved_whatever_the_words_say(place: Place) -> None:
    def resolve(_taken: Taken) -> None:
        place.add("art-done", type="artifact", edges=[{"type": "resolves", "to": "task-1"}])

    record = place.settled(DECLINE, resolve)

    assert (record.terminal_state, record.resolved_by, record.resolved_edge) == (
        Terminal.RESOLVED,
        "art-done",
        "resolves",
    )
    assert place.related() == []


@pytest.mark.parametrize("near", ["another node", "another edge", "taken back"])
def test_what_is_no_live_resolving_edge_on_the_item_resolves_nothing(place: Place, near: str) -> None:
    def nearly(_taken: Taken) -> None:
        place.add("task-2")
        edge = {
            "another node": {"type": "resolves", "to": "task-2"},
            "another edge": {"type": "relates-to", "to": "task-2"},
            "taken back": {"type": "resolves", "to": "task-1"},
        }[near]
        place.add("art-done", type="artifact", edges=[edge])
        if near == "taken back":
            place.person.remove_edge(NodeId("art-done"), "resolves", NodeId("task-1"))

    assert place.settled("All done, tests pass, resolved task-1.", nearly).terminal_state is Terminal.REPORTED


def test_a_decline_is_an_open_finding_and_the_item_waits_for_a_person(place: Place) -> None:
    record = place.settled(DECLINE)

    assert (record.terminal_state, record.declined_reason) == (Terminal.DECLINED, "done already")
    assert (record.readiness_cleared, record.lease_released) == (True, True)
    finding = place.person.node(NodeId(str(record.finding_node_id))).frontmatter
    assert (finding["type"], finding["status"]) == ("finding", "open")
    assert (place.holder(), place.is_ready()) == (None, False)


def test_an_outage_without_a_report_gives_the_item_back_as_it_was(place: Place) -> None:
    outage: dict[str, Any] = {"state": State.FAILED, "termination_class": Ended.ENVIRONMENT, "failure": "rate_limit"}

    record = place.settled("", **outage)

    assert (record.terminal_state, record.terminal_enforced, record.lease_released) == (Terminal.FAILED, True, True)
    assert record.termination_class is Ended.ENVIRONMENT
    assert place.related() == []
    assert (place.holder(), place.is_ready()) == (None, True)


def test_a_settlement_that_was_overtaken_disturbs_nobody(place: Place) -> None:
    def take_over(_taken: Taken) -> None:
        place.person.take(NodeId("task-1"), reason="it hangs")

    record = place.settled(DECLINE, take_over)

    assert (record.terminal_state, record.readiness_cleared, record.lease_released) == (Terminal.DECLINED, False, False)
    assert place.related() == [record.finding_node_id]
    holder = place.holder()
    assert holder is not None
    assert holder != place.agent_id
    assert place.is_ready()
