from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from batonpass.core import points
from batonpass.core.errors import BatonError, Forbidden, Internal, Invalid, Unauthorized, Unavailable, Unknown
from batonpass.core.ids import AgentId, HolderId, NodeId, PersonId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.reports import About, Standing, report_node
from batonpass.core.runs import State
from batonpass.testing.graph import AGENT, OWNER, MemoryGraph, failing_with
from batonpass.testing.repos import Repo
from batonpass.testing.runs import BEGAN, RUN, run_record
from batonpass.wire.errors import error_of
from batonpass.worker import proc, worktree
from batonpass.worker.crew import Crew, Exit, Graces, identify
from batonpass.worker.errors import RecordMoved
from batonpass.worker.graph import Caller
from batonpass.worker.journal import HeldRun, Journal
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord, Stopped, timestamp
from batonpass.worker.settings import Settings
from batonpass.worker.worktree import Worktree

REPORT_ID: Final = NodeId("art-dispatch-report-1-0b101010")
FINDING_ID: Final = NodeId("find-declined-1-0b101010")
DECLINE: Final = "DECLINED: done already\n\nSee the log."
GONE: Final = Unavailable("no route to host")
LOST: Final = Unknown("the answer was lost")
FOREIGN: Final = error_of(409, b"<html>A gateway of ours is confused.</html>")


@dataclass
class Ended:
    """A run whose child is over: its folder, its graph, and the settlement of it."""

    graph: MemoryGraph
    run: HeldRun
    settings: Settings
    tree: Worktree
    repo: Repo
    node: NodeId

    def says(self, text: str) -> None:
        self.run.log.write_text(text)

    def settle(self, graph: MemoryGraph | None = None) -> RunRecord:
        settler = Settler(graph or self.graph, self.settings, lambda: BEGAN)
        return settle(settler, self.run, Crew(RUN))

    def change(self, **changes: Any) -> None:  # noqa: ANN401 — whichever fields a test is about
        self.run.change(self.run.read(), **changes)

    @property
    def is_held(self) -> bool:
        return self.node in self.graph.held

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.graph.calls]


@pytest.fixture
def ended(tmp_path: Path, repo: Repo) -> Iterator[Ended]:
    """A run on task-1, claimed at epoch 1, with a token and a worktree; its child has ended well."""
    graph = MemoryGraph()
    node = graph.add_item("task-1")
    taken = graph.next(project=None, accept="ready", candidates=[node], dispatch=RUN)
    assert taken is not None
    token = graph.mint(AGENT, taken.fence)
    tree = Worktree(tmp_path / "trees/0b101010", "refs/heads/baton/task-1-0b101010", repo.head(), repo.checkout)
    worktree.create(tree)
    record = run_record(
        cwd=str(tree.path),
        server=graph.server,
        incarnation=graph.me.incarnation,
        project="mail",
        title="Retry e-mails",
        node_type="task",
        agent=AGENT,
        owner=OWNER,
        epoch=taken.fence.epoch,
        token_prefix=token.prefix,
        repository=str(repo.folder),
        worktree=str(tree.path),
        branch=tree.branch,
        base=tree.base,
    )
    settings = Settings(home=tmp_path / "home", inherited=repo.person, graces=Graces(0.2, 0.5, 5))
    with Journal(settings.home).create(record) as run:
        graph.calls.clear()
        yield Ended(graph, run, settings, tree, repo, node)


# The four outcomes


def test_a_report_is_filed_and_then_the_lease_released(ended: Ended) -> None:
    ended.says("Half of it works.")

    record = ended.settle()

    assert ended.order == ["caller", "revoke", "node", "put", "release"]
    assert ended.graph.nodes[REPORT_ID].body.endswith("Half of it works.")
    assert not ended.is_held
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, True)
    assert (record.report_node_id, record.lease_released) == (REPORT_ID, True)
    assert (record.contract_pending, record.contract_settled_at) == (False, timestamp(BEGAN))
    assert ended.run.read() == record


def test_what_the_graph_resolved_is_resolved_and_nothing_is_filed_or_released(ended: Ended) -> None:
    ended.says("I could not finish.")
    ended.graph.resolve(ended.node)

    record = ended.settle()

    assert (record.terminal_state, record.terminal_enforced) == (Terminal.RESOLVED, True)
    assert (record.resolved_by, record.resolved_edge) == ("art-done", "resolves")
    assert record.lease_released is False
    assert ended.is_held
    assert ended.graph.nodes == {}


def test_saying_done_is_not_being_done(ended: Ended) -> None:
    ended.says("All done, tests pass, resolved task-1.")

    assert ended.settle().terminal_state is Terminal.REPORTED


def test_a_decline_is_filed_as_a_finding_and_the_item_given_back_unready(ended: Ended) -> None:
    ended.says(DECLINE)

    record = ended.settle()

    assert ended.order == ["caller", "revoke", "node", "put", "clear_readiness", "release"]
    finding = ended.graph.nodes[FINDING_ID]
    assert (finding.type, finding.status) == ("finding", "open")
    assert ended.node not in ended.graph.ready
    assert not ended.is_held
    assert (record.terminal_state, record.declined_reason) == (Terminal.DECLINED, "done already")
    assert (record.finding_node_id, record.readiness_cleared, record.lease_released) == (FINDING_ID, True, True)
    assert record.report_node_id is None


def test_a_run_without_a_word_hands_the_item_back_and_failed(ended: Ended) -> None:
    record = ended.settle()

    assert not ended.is_held
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.FAILED, True)
    assert record.terminal_note == "the run left no report"


def test_a_decline_with_commits_behind_it_is_judged_as_the_claim_they_make(ended: Ended) -> None:
    ended.says(DECLINE)
    ended.repo.commit("work.txt", at=ended.tree.path)

    record = ended.settle()

    assert (record.terminal_state, record.commits) == (Terminal.REPORTED, 1)
    assert set(ended.graph.nodes) == {REPORT_ID}
    assert ended.node in ended.graph.ready


def test_a_decline_is_not_believed_when_commits_cannot_be_counted(ended: Ended) -> None:
    ended.says(DECLINE)
    ended.change(base="f" * 40)

    assert ended.settle().terminal_state is Terminal.REPORTED


@pytest.mark.parametrize("node_type", ["decision", "finding"])
def test_a_target_closed_by_status_keeps_its_lease_and_is_not_verified(ended: Ended, node_type: str) -> None:
    ended.says("Settled it.")
    ended.graph.retype(ended.node, node_type)

    record = ended.settle()

    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, False)
    assert "not verified" in ended.graph.nodes[REPORT_ID].body
    assert ended.is_held


def test_how_the_process_ended_does_not_move_the_outcome(ended: Ended) -> None:
    ended.says("A full report.")
    ended.change(state=State.FAILED, exit_code=137)

    assert ended.settle().terminal_state is Terminal.REPORTED


def test_the_report_file_is_filed_rather_than_the_output(ended: Ended) -> None:
    ended.says("chatter")
    ended.run.report.write_text("The report.")

    ended.settle()

    assert ended.graph.nodes[REPORT_ID].body.endswith("The report.")


# Filing


def test_a_refused_report_leaves_the_lease_held(ended: Ended) -> None:
    ended.says("A report.")
    ended.graph.refused[REPORT_ID] = "project: no such project"

    record = ended.settle()

    assert (record.terminal_state, record.terminal_enforced) == (Terminal.FAILED, False)
    assert record.terminal_note is not None
    assert "no such project" in record.terminal_note
    assert ended.is_held
    assert record.is_settled


def test_a_door_that_refuses_the_whole_batch_is_a_refusal_too(ended: Ended) -> None:
    ended.says("A report.")
    ended.graph.failing["put"] = failing_with(Invalid("nodes: too much"))

    assert ended.settle().terminal_state is Terminal.FAILED
    assert ended.is_held


@pytest.mark.parametrize(
    "error", [GONE, LOST, Unauthorized("expired"), Forbidden("read only"), Internal("broke"), FOREIGN], ids=repr
)
def test_a_report_that_may_be_sent_again_stays_pending_with_the_lease_held(ended: Ended, error: BatonError) -> None:
    ended.says("A report.")
    ended.graph.failing["put"] = failing_with(error, times=1)

    record = ended.settle()
    assert (record.contract_pending, record.terminal_enforced, record.report_node_id) == (True, False, None)
    assert ended.graph.held == {ended.node}
    assert record.pending_for == error.code

    record = ended.settle()
    assert record.pending_for is None
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, True)
    assert not ended.is_held
    assert record.attempt == 2


@pytest.mark.parametrize("error", [LOST, Internal("broke after the commit"), FOREIGN], ids=repr)
def test_a_report_whose_answer_was_lost_is_found_and_filed_once(ended: Ended, error: BatonError) -> None:
    ended.says("A report.")
    ended.graph.failing_after["put"] = failing_with(error, times=1)

    ended.settle()
    record = ended.settle()

    assert set(ended.graph.nodes) == {REPORT_ID}
    assert (record.terminal_state, record.report_node_id) == (Terminal.REPORTED, REPORT_ID)


def test_an_id_that_another_run_has_taken_gets_longer(ended: Ended) -> None:
    ended.says("A report.")
    other = About(
        run=RunId("0b101010-ffff-4fff-8fff-ffffffffffff"),
        harness="command",
        target=ended.node,
        target_type="task",
        ended="done",
        date="2026-11-29",
    )
    theirs = report_node(other, "Another report.", Standing.UNRESOLVED)
    ended.graph.nodes[theirs.id] = theirs

    record = ended.settle()

    assert record.report_node_id == "art-dispatch-report-1-0b10101012344abc"
    assert ended.graph.nodes[theirs.id] == theirs
    assert not ended.is_held


def test_a_report_that_finds_no_free_id_is_refused(ended: Ended) -> None:
    ended.says("A report.")
    others = About(
        run=RunId("another"), harness="command", target=ended.node, target_type="task", ended="done", date="2026-11-29"
    )
    for digits in (8, 16, 32):
        mine = report_node(replace(others, run=RUN), "x", Standing.UNRESOLVED, digits=digits)
        ended.graph.nodes[mine.id] = replace(report_node(others, "x", Standing.UNRESOLVED), id=mine.id)

    record = ended.settle()

    assert record.terminal_state is Terminal.FAILED
    assert ended.is_held


# The lease


def test_a_runner_that_slept_through_a_takeover_disturbs_nobody(ended: Ended) -> None:
    ended.says(DECLINE)
    ended.graph.take_over(ended.node)

    record = ended.settle()

    assert ended.is_held
    assert ended.node in ended.graph.ready
    assert record.readiness_cleared is False
    assert record.finding_node_id == FINDING_ID
    assert record.terminal_note is not None
    assert "the tenure 1 of task-1 is over" in record.terminal_note


def test_a_run_that_lost_its_lease_files_its_report_and_releases_nothing(ended: Ended) -> None:
    ended.says("A report.")
    ended.change(lease_lost=True)

    record = ended.settle()

    assert record.report_node_id == REPORT_ID
    assert record.lease_released is False
    assert "release" not in ended.order


@pytest.mark.parametrize("says", ["A report.", DECLINE, ""])
@pytest.mark.parametrize("method", ["caller", "revoke", "node", "put", "clear_readiness", "release"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_is_unreachable_the_next_attempt_ends_as_if_nothing_had_been(
    ended: Ended, says: str, method: str, when: str
) -> None:
    ended.says(says)
    hooks = ended.graph.failing if when == "before" else ended.graph.failing_after
    hooks[method] = failing_with(LOST, times=1)

    first = ended.settle()
    assert says == "" or ended.is_held or ended.graph.nodes, "released without its report"
    second = ended.settle() if first.contract_pending else first

    assert second.is_settled
    assert second.terminal_enforced
    assert second.terminal_state == {"": "failed", DECLINE: "declined"}.get(says, "reported")
    assert not ended.is_held
    assert len(ended.graph.nodes) == (1 if says else 0)
    assert ended.graph.tokens == {}


def test_an_unreachable_graph_is_a_guess_and_never_resolved(ended: Ended) -> None:
    ended.says("A report.")
    ended.graph.resolve(ended.node)
    ended.graph.failing["caller"] = failing_with(GONE)

    record = ended.settle()

    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, False)
    assert (record.terminal_unreachable, record.contract_pending) == (True, True)
    assert record.resolved_by is None
    assert record.worktree_kept is None
    assert ended.tree.path.exists()


def test_a_target_that_is_gone_gets_its_report_all_the_same(ended: Ended) -> None:
    ended.says("A report.")
    del ended.graph.items[ended.node]

    record = ended.settle()

    assert record.report_node_id == REPORT_ID
    assert record.terminal_note == "task-1 is not there any more"


# Whose report it is (D20)


@pytest.mark.parametrize("stranger", ["server", "incarnation", "agent", "nobody"])
def test_a_report_goes_to_its_own_graph_under_its_own_identity_only(ended: Ended, stranger: str) -> None:
    ended.says("A report.")
    graph = ended.graph
    match stranger:
        case "server":
            graph.server = "http://elsewhere.baton"
        case "incarnation":
            graph.me = replace(graph.me, incarnation="incarnation-2")
        case "agent":
            graph.me = replace(graph.me, agent=AgentId(HolderId("agent-other")), person=PersonId(HolderId("person-x")))
        case _:
            graph.me = Caller(None, None, graph.me.incarnation)

    record = ended.settle()

    assert graph.nodes == {}
    assert ended.is_held
    assert record.contract_pending


@pytest.mark.parametrize("me", [Caller(None, OWNER, "incarnation-1"), Caller(AgentId(OWNER), OWNER, "incarnation-1")])
def test_the_agents_owner_may_deliver_it(ended: Ended, me: Caller) -> None:
    ended.says("A report.")
    ended.graph.me = me

    assert ended.settle().terminal_state is Terminal.REPORTED


# Processes and order


def test_nothing_of_the_run_writes_once_the_graph_is_read(ended: Ended, tmp_path: Path) -> None:
    stray_script = f"while :; do echo tick >> {ended.run.log}; sleep 0.01; done"
    child = proc.start(
        ["sh", "-c", f"setsid sh -c '{stray_script}' & echo $! > {tmp_path}/pid; echo A report."],
        mark=RUN,
        cwd=ended.tree.path,
        environment={"PATH": os.environ["PATH"]},
        stdin=None,
        stdout=ended.run.log,
        stderr=ended.run.errors,
    )
    assert child.wait(20) == Exit(0)
    stray = int((tmp_path / "pid").read_text())
    sizes = []
    ended.graph.failing["revoke"] = lambda: sizes.append(ended.run.log.stat().st_size)

    record = ended.settle()

    assert identify(stray) is None
    assert sizes == [ended.run.log.stat().st_size]
    assert record.terminal_state is Terminal.REPORTED
    assert worktree.remove(ended.tree) == ()


def test_the_report_is_on_disk_before_anything_is_sent(ended: Ended) -> None:
    ended.says("A report.")
    found = []

    def look() -> None:
        spooled = ended.run.spooled()
        found.append(spooled.text if spooled else None)

    ended.graph.failing["caller"] = look

    ended.settle()

    assert found == ["A report."]
    spooled = ended.run.spooled()
    assert spooled is not None
    assert (spooled.server, spooled.incarnation, spooled.run_id) == (ended.graph.server, "incarnation-1", RUN)
    assert (spooled.agent, spooled.node, spooled.epoch) == (AGENT, ended.node, 1)


@pytest.mark.parametrize("left", [b"", b"{}", b"\xff", b'{"text": '])
def test_a_damaged_spool_is_set_aside_and_the_report_taken_anew(ended: Ended, left: bytes) -> None:
    ended.says("A report.")
    (ended.run.path / "spool.json").write_bytes(left)

    record = ended.settle()

    assert record.terminal_state is Terminal.REPORTED
    assert ended.graph.nodes[REPORT_ID].body.endswith("A report.")
    aside = ended.run.path / "spool.json.damaged"
    assert aside.read_bytes() == left
    assert str(aside) in (record.terminal_note or "")


def test_the_runs_token_is_dead_before_the_graph_is_read(ended: Ended) -> None:
    tokens = []
    ended.graph.failing["node"] = lambda: tokens.append(dict(ended.graph.tokens))

    ended.settle()

    assert tokens == [{}]


def test_no_secret_is_in_the_runs_folder_even_when_the_child_printed_one(ended: Ended) -> None:
    ended.says("BATON_TOKEN=bat_agt_9fKq2mXv7LpWz3Rt\n")

    ended.settle()

    files = [path for path in ended.run.path.rglob("*") if path.is_file() and path != ended.run.log]
    assert files
    assert not any(b"bat_agt_9fKq" in path.read_bytes() for path in files)
    assert "bat_agt_9fKq" not in ended.graph.nodes[REPORT_ID].body


# Taking a run up


@pytest.mark.parametrize("state", [State.RUNNING, State.LAUNCHING])
def test_a_run_nobody_saw_the_end_of_has_vanished_and_is_judged_all_the_same(ended: Ended, state: State) -> None:
    ended.says("As far as I came.")
    ended.change(state=state)

    record = ended.settle()

    assert record.state is State.VANISHED
    assert record.terminal_state is Terminal.REPORTED
    assert not ended.is_held


def test_what_an_agent_said_last_is_found_in_its_stream_when_its_supervisor_died(ended: Ended) -> None:
    said = {"type": "result", "subtype": "success", "is_error": False, "result": "Half of it works."}
    ended.says('{"type": "system", "subtype": "init", "session_id": "s-1"}\n' + json.dumps(said))
    ended.change(state=State.RUNNING, harness="claude-code")

    record = ended.settle()

    assert (record.state, record.terminal_state) == (State.VANISHED, Terminal.REPORTED)
    assert ended.graph.nodes[REPORT_ID].body.endswith("Half of it works.")
    assert ended.run.final.read_text() == "Half of it works."


@pytest.mark.parametrize("harness", ["claude-code", "somebody's own"])
def test_words_of_a_failure_and_a_stream_nobody_can_read_are_no_report(ended: Ended, harness: str) -> None:
    ended.says('{"type": "result", "subtype": "success", "is_error": true, "result": "API Error: 529"}\n')
    ended.change(state=State.RUNNING, harness=harness)

    record = ended.settle()

    assert record.terminal_state is Terminal.FAILED
    assert ended.graph.nodes == {}
    assert ("is not known" in (record.terminal_note or "")) is (harness != "claude-code")


def test_a_run_that_never_got_its_claim_is_closed_without_a_word_to_the_graph(ended: Ended) -> None:
    ended.change(node_id=None, state=State.LAUNCHING, epoch=None, token_prefix=None)

    record = ended.settle()

    assert record.is_settled
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.FAILED, False)
    assert ended.graph.calls == []


def unanswered(ended: Ended, *, nonce: str = RUN, **more: Any) -> None:  # noqa: ANN401
    """Let the run have died before its claim was answered, and the item be held under a nonce."""
    ended.graph.nonces[ended.node] = nonce
    ended.change(state=State.LAUNCHING, epoch=None, token_prefix=None, dispatch=RUN, **more)


def test_a_claim_whose_answer_nobody_heard_is_given_back_by_its_nonce(ended: Ended) -> None:
    unanswered(ended)

    record = ended.settle()

    assert record.is_settled
    assert (record.terminal_state, record.lease_released) == (Terminal.FAILED, True)
    assert not ended.is_held


def test_a_claim_that_was_not_granted_disturbs_nobody(ended: Ended) -> None:
    unanswered(ended, nonce="another")

    record = ended.settle()

    assert (record.is_settled, record.lease_released) == (True, False)
    assert ended.graph.done("release") == []


def test_a_claim_whose_answer_nobody_heard_waits_for_the_server(ended: Ended) -> None:
    unanswered(ended)
    ended.graph.failing["node"] = failing_with(GONE, times=1)

    first, second = ended.settle(), ended.settle()

    assert (first.is_settled, first.pending_for) == (False, GONE.code)
    assert (second.is_settled, second.pending_for, ended.is_held) == (True, None, False)


def test_a_lease_that_stood_before_the_run_is_never_handed_back(ended: Ended) -> None:
    unanswered(ended, borrowed_epoch=1)
    before = ended.settle()
    ended.change(state=State.DONE, epoch=1, contract_pending=True)
    ended.says("A report.")

    record = ended.settle()

    assert before.is_settled
    assert (record.terminal_state, record.lease_released) == (Terminal.REPORTED, False)
    assert record.terminal_note is not None
    assert "left to whoever claimed it" in record.terminal_note
    assert ended.is_held


def test_a_settlement_that_was_overtaken_changes_nothing_more(ended: Ended) -> None:
    ended.says("A report.")

    def overtake() -> None:
        ended.change(attempt=7)

    ended.graph.failing["release"] = overtake

    with pytest.raises(RecordMoved):
        ended.settle()

    assert ended.run.read().attempt == 7
    assert ended.run.read().lease_released is None


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


SETTLE_POINTS: Final = (
    "settle.locked settle.stopped final.read spool.tmp spool.renamed settle.revoked settle.read report.sent"
    " report.filed finding.filed readiness.cleared release.sent released record.settled"
).split()


@pytest.mark.parametrize("says", ["A report.", DECLINE, ""])
@pytest.mark.parametrize("point", SETTLE_POINTS)
def test_a_settlement_cut_off_at_any_point_is_finished_by_the_next(
    ended: Ended, says: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended.says(says)
    reached = []

    def die() -> None:
        reached.append(point)
        raise Killed

    monkeypatch.setitem(points.armed, point, die)
    try:
        ended.settle()
    except Killed:
        assert ended.is_held or not says or ended.graph.nodes, "released without its report"
    monkeypatch.delitem(points.armed, point)

    record = ended.settle()

    assert record.is_settled
    assert record.terminal_state == {"": "failed", DECLINE: "declined"}.get(says, "reported")
    assert not ended.is_held
    assert len(ended.graph.nodes) == (1 if says else 0)
    expected = {
        "A report.": set(SETTLE_POINTS) - {"finding.filed", "readiness.cleared"},
        DECLINE: set(SETTLE_POINTS) - {"report.filed"},
        "": set(SETTLE_POINTS)
        - {"spool.tmp", "spool.renamed", "report.sent", "report.filed", "finding.filed", "readiness.cleared"},
    }
    assert bool(reached) is (point in expected[says])


# The worktree afterwards (D31a)


def test_a_clean_worktree_goes_and_the_commits_stay_on_the_branch(ended: Ended) -> None:
    ended.says("A report.")
    tip = ended.repo.commit("work.txt", at=ended.tree.path)

    record = ended.settle()

    assert record.worktree_kept is None
    assert not ended.tree.path.exists()
    assert ended.repo.git("rev-parse", ended.tree.branch) == tip


def test_a_dirty_worktree_stays_and_is_listed(ended: Ended) -> None:
    (ended.tree.path / "unfinished.py").write_text("x")

    record = ended.settle()

    assert record.worktree_kept == ("untracked: unfinished.py",)
    assert (ended.tree.path / "unfinished.py").exists()


def test_a_run_stopped_for_idleness_keeps_its_worktree(ended: Ended) -> None:
    ended.change(stopped_for=Stopped.IDLE)

    assert ended.settle().worktree_kept == ("the run was stopped for giving no sign of life",)
    assert ended.tree.path.exists()
