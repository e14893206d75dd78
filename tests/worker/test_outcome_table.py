"""Every cell of the outcome: what a run left, against what can be judged, reached, filed and handed back.

What is expected is said a second time here, in the order of the protocol's own
sentences, and by nothing of the code that is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import httpx
import pytest

from batonpass.client.client import Client, Patience
from batonpass.core.errors import Unavailable
from batonpass.core.ids import NodeId, Resource
from batonpass.core.outcome import Terminal
from batonpass.core.reports import About, Standing, report_node
from batonpass.core.runs import Ended, State
from batonpass.testing.graph import AGENT, OWNER, MemoryGraph, failing_with
from batonpass.testing.runs import BEGAN, RUN, run_record
from batonpass.worker import worktree
from batonpass.worker.crew import Crew, Graces, Identity
from batonpass.worker.graph import Put
from batonpass.worker.journal import HeldRun, Journal
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings

REPORT_ID: Final = NodeId("art-dispatch-report-1-0b101010")
FINDING_ID: Final = NodeId("find-declined-1-0b101010")
DECLINE: Final = "DECLINED: done already\n\nSee the log."
LEFT: Final = ("nothing", "blanks", "report", "decline", "decline and commits", "error")
LEASES: Final = ("held", "lost", "borrowed")


class Nobody(Crew):
    """The crew of a run whose processes are gone."""

    def stop(self, graces: Graces | None = None) -> frozenset[Identity]:  # noqa: ARG002
        return frozenset()


@dataclass(frozen=True)
class Cell:
    """What a run left, and how things stand where it is settled."""

    left: str
    judged: bool
    resolved: bool
    reached: bool
    refused: bool
    lease: str

    def __str__(self) -> str:
        words = (
            "judged" if self.judged else "by status",
            "resolved" if self.resolved else "open",
            "reached" if self.reached else "away",
            "refused" if self.refused else "taken",
        )
        return f"{self.left}, {', '.join(words)}, lease {self.lease}"


@dataclass(frozen=True)
class Verdict:
    """What the record and the graph are to say."""

    state: Terminal
    enforced: bool
    pending: bool = False
    filed: NodeId | None = None
    released: bool = False
    unreadied: bool = False


def expected(cell: Cell) -> Verdict:
    """Return the outcome that the protocol asks for in this cell."""
    has_text = cell.left in {"report", "decline", "decline and commits"}
    holds = cell.lease == "held"
    if not cell.reached:
        guess = {"decline": Terminal.DECLINED, "nothing": Terminal.FAILED}.get(cell.left)
        return Verdict(guess or (Terminal.REPORTED if has_text else Terminal.FAILED), enforced=False, pending=True)
    if cell.resolved and cell.judged:
        return Verdict(Terminal.RESOLVED, enforced=True)
    if cell.left == "decline" and not cell.resolved:
        if cell.refused:
            return Verdict(Terminal.DECLINED, enforced=False)
        return Verdict(
            Terminal.DECLINED, enforced=cell.judged, filed=FINDING_ID, released=holds, unreadied=cell.lease != "lost"
        )
    if has_text:
        if cell.refused:
            return Verdict(Terminal.FAILED, enforced=False)
        return Verdict(Terminal.REPORTED, enforced=cell.judged, filed=REPORT_ID, released=cell.judged and holds)
    return Verdict(Terminal.FAILED, enforced=cell.judged, released=cell.judged and holds)


CELLS: Final = [
    Cell(*facts) for facts in product(LEFT, (True, False), (True, False), (True, False), (True, False), LEASES)
]


@dataclass
class Over:
    """A run on task-1 whose child is over, with its graph."""

    graph: MemoryGraph
    run: HeldRun
    settings: Settings

    def settle(self) -> RunRecord:
        return settle(Settler(self.graph, self.settings, lambda: BEGAN), self.run, Nobody(RUN))


@contextmanager
def over(folder: Path, **changes: object) -> Iterator[Over]:
    """A run that was claimed at epoch 1 and has a token."""
    graph = MemoryGraph()
    node = graph.add_item("task-1")
    taken = graph.next(project=None, accept="ready", candidates=[node], dispatch=RUN)
    assert taken is not None
    facts: dict[str, object] = {
        "server": graph.server,
        "incarnation": graph.me.incarnation,
        "agent": AGENT,
        "owner": OWNER,
        "node_type": "task",
        "epoch": taken.fence.epoch,
        "token_prefix": graph.mint(AGENT, taken.fence).prefix,
        **changes,
    }
    record = run_record(RUN)
    settings = Settings(home=folder, inherited={})
    with Journal(folder).create(record) as run:
        run.change(record, **facts)
        yield Over(graph, run, settings)


def leave(end: Over, left: str) -> None:
    """Put into the run's folder what its child left."""
    match left:
        case "blanks":
            end.run.report.write_text(" \n\x00\t\n")
        case "report":
            end.run.report.write_text("Half of it works.")
        case "decline" | "decline and commits":
            end.run.report.write_text(DECLINE)
        case "error":
            # An agent program whose result was an error: its stream is full of words, and none is a report.
            end.run.change(end.run.read(), harness="claude-code")
            end.run.log.write_text('{"type": "result", "is_error": true, "result": "DECLINED: API Error 529"}\n')
        case _:
            pass


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("judged", [True, False], ids=["judged", "by status"])
@pytest.mark.parametrize("resolved", [True, False], ids=["resolved", "open"])
def test_every_cell_ends_as_the_protocol_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str, *, judged: bool, resolved: bool
) -> None:
    monkeypatch.setattr(worktree, "of_run", lambda *_: object())
    monkeypatch.setattr(worktree, "commit_count", lambda _: 1 if left == "decline and commits" else 0)
    monkeypatch.setattr(worktree, "remove", lambda *_, **__: ())
    cells = [cell for cell in CELLS if (cell.left, cell.judged, cell.resolved) == (left, judged, resolved)]
    assert len(cells) == 12
    for number, cell in enumerate(cells):
        with over(tmp_path / str(number)) as end:
            check(end, cell)


def check(end: Over, cell: Cell) -> None:
    """Settle the run of one cell, and compare what came of it with what was to come."""
    node = NodeId("task-1")
    leave(end, cell.left)
    if not cell.judged:
        end.graph.retype(node, "decision")
        end.run.change(end.run.read(), node_type="decision")
    if cell.resolved:
        end.graph.resolve(node)
    if not cell.reached:
        end.graph.failing["node"] = failing_with(Unavailable("no route to host"))
    if cell.refused:
        end.graph.refused = {REPORT_ID: "project: no such project", FINDING_ID: "project: no such project"}
    match cell.lease:
        case "lost":
            end.graph.take_over(node)
            end.run.change(end.run.read(), lease_lost=True)
        case "borrowed":
            record = end.run.read()
            end.run.change(record, borrowed_epoch=record.epoch)
        case _:
            pass

    record = end.settle()

    wanted = expected(cell)
    filed = record.report_node_id or record.finding_node_id
    assert record.terminal_state is not None
    told = Verdict(
        state=record.terminal_state,
        enforced=record.terminal_enforced is True,
        pending=record.contract_pending,
        filed=filed,
        released=record.lease_released is True,
        unreadied=record.readiness_cleared is True,
    )
    assert told == wanted, str(cell)
    assert set(end.graph.nodes) == ({filed} if filed else set()), str(cell)
    assert (node in end.graph.held) is not wanted.released, str(cell)
    assert (node in end.graph.ready) is not wanted.unreadied, str(cell)
    assert record.report_node_id is None or record.terminal_state is Terminal.REPORTED, str(cell)
    assert (record.declined_reason is not None) is (record.terminal_state is Terminal.DECLINED), str(cell)
    assert record.terminal_note or record.terminal_state in {Terminal.RESOLVED, Terminal.REPORTED, Terminal.DECLINED}


# Surroundings that failed (D22)


@pytest.mark.parametrize("left, state", [("error", Terminal.FAILED), ("report", Terminal.REPORTED)])
def test_a_run_that_ended_for_an_outage_is_judged_like_any_other_and_keeps_its_class(
    tmp_path: Path, left: str, state: Terminal
) -> None:
    outage = {"state": State.FAILED, "exit_code": 1, "termination_class": Ended.ENVIRONMENT, "failure": "overloaded"}
    with over(tmp_path, **outage) as end:
        leave(end, left)

        record = end.settle()

        assert (record.terminal_state, record.terminal_enforced, record.lease_released) == (state, True, True)
        assert (record.state, record.termination_class) == (State.FAILED, Ended.ENVIRONMENT)
        assert NodeId("task-1") in end.graph.ready, "it says nothing of the item"
        assert not end.graph.held


# Each entry of a batch has an answer of its own (case 72); a server that broke is asked by the next attempt, see
# test_a_report_whose_answer_was_lost_is_found_and_filed_once


def answer(status: int, put: str, **more: object) -> Callable[[], httpx.Response]:
    """Return what answers with the result of the one entry that was sent."""
    entry = {"ok": put != "error", "status": put, "id": REPORT_ID, "revision": None, "warnings": [], **more}
    return lambda: httpx.Response(status, json={"results": [entry]})


def reset() -> httpx.Response:
    raise httpx.ReadError("Connection reset by peer")


@pytest.mark.parametrize(
    "answers, landed",
    [
        ([answer(200, "created")], Put("created")),
        ([answer(207, "created")], Put("created")),
        ([answer(207, "error", message="no such project")], Put("error", "no such project")),
        ([answer(200, "skipped")], Put("skipped")),
        ([reset, answer(200, "skipped")], Put("skipped")),
    ],
    ids=["200", "207 ours landed", "207 ours refused", "there already", "reset after commit"],
)
def test_a_batch_is_judged_by_the_runs_own_entry_and_asked_again_under_the_same_id(
    answers: list[Callable[[], httpx.Response]], landed: Put
) -> None:
    about = About(RUN, "command", NodeId("task-1"), "task", "done", "2026-11-30")
    sent: list[bytes] = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return answers[len(sent) - 1]()

    at_once = Patience(sleep=lambda _: None)
    token = "bat_agt_9fKq2mXv7LpWz3Rt9fKq2mXv7LpWz3Rt"
    with Client("http://baton.test", token, transport=httpx.MockTransport(serve), patience=at_once) as client:
        assert ServerGraph(client).put(report_node(about, "A report.", Standing.UNRESOLVED)) == landed

    assert len(sent) == len(answers)
    assert len(set(sent)) == 1


def test_the_lease_is_named_by_the_tenure_that_was_claimed(tmp_path: Path) -> None:
    with over(tmp_path) as end:
        end.run.report.write_text(DECLINE)

        end.settle()

        fences = [*end.graph.done("clear_readiness"), *end.graph.done("release")]
        assert [(fence.resource, fence.epoch) for fence in fences] == [(Resource("task-1"), 1)] * 2  # type: ignore[attr-defined]
