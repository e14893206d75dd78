"""A run under its supervisor: agent programs heard and judged, hooks around it, and a task in free words."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from batonpass.core.outcome import Terminal
from batonpass.core.queue import Accept
from batonpass.core.runs import Ended, State
from batonpass.testing.clock import TickingClock
from batonpass.testing.graph import MemoryGraph
from batonpass.testing.inthread import InThread
from batonpass.testing.repos import Repo
from batonpass.worker.crew import Graces
from batonpass.worker.dispatch import launch, supervisor
from batonpass.worker.dispatch.launch import Begun, Launcher, NotLaunched, Order
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.record import RunRecord, Stopped
from batonpass.worker.settings import Settings

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
STREAMS: Final = Path(__file__).parents[1] / "harness/streams"
WAIT_S: Final = 30.0


@dataclass
class Box:
    """A box where orders are carried out under supervisors that are threads, by a graph in memory."""

    graph: MemoryGraph
    repo: Repo
    home: Path
    scratch: Path
    clock: Callable[[], float] = lambda: 0.0
    starter: InThread = field(init=False)

    def program(self, script: str) -> Path:
        """Put a program that reads its prompt and does as `script` says in a place of its own, and return it."""
        path = self.scratch / "agent program"
        path.write_text(f"#!/bin/sh\ncat > {shlex.quote(str(self.scratch / 'prompt'))}\n{script}\n")
        path.chmod(0o755)
        return path

    def carry_out(
        self,
        order: Order,
        *,
        item: bool = True,
        borrowed: bool = False,
        **settings: Any,  # noqa: ANN401
    ) -> tuple[RunFolder, RunRecord]:
        """Begin a run of this order, wait for its supervisor, and return where it stands then."""
        self.starter = InThread(self.graph, now=lambda: NOW, clock=self.clock)
        chosen = replace(Settings(home=self.home, inherited=self.repo.person, graces=Graces(0.2, 0.5, 5)), **settings)
        ground = launch.survey(order, chosen)
        record = launch.new_record(order, ground, server=self.graph.server, caller=self.graph.me, now=NOW)
        with Journal(self.home).create(record) as run:
            taken = None
            if item:
                node = self.graph.add_item("task-1")
                taken = self.graph.next(project=None, accept=Accept.READY, candidates=[node], dispatch=record.dispatch)
                taken = None if taken is None else replace(taken, borrowed=borrowed)
            begun = launch.begin(
                Launcher(self.graph, chosen, lambda: NOW, self.starter), run, taken, order=order, ground=ground
            )
        if isinstance(begun, Begun):
            assert begun.supervisor.wait(WAIT_S)
        (supervising,) = self.starter.started
        assert supervising.error is None, supervising.error
        folder = RunFolder(run.path)
        assert folder.is_held() is False
        assert isinstance(begun, Begun | NotLaunched)
        return folder, folder.read()


@pytest.fixture
def box(tmp_path: Path, repo: Repo) -> Box:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Box(MemoryGraph(), repo, tmp_path / 'it\'s a "home" of für', scratch)


def claude(box: Box, script: str, **more: Any) -> Order:  # noqa: ANN401
    return Order((), box.repo.folder, harness="claude-code", program=box.program(script), **more)


def printing(case: str) -> str:
    return f"cat {shlex.quote(str(STREAMS / f'claude-code-{case}.jsonl'))}"


def test_an_agent_program_is_heard_out_and_its_last_message_is_its_report(box: Box) -> None:
    run, record = box.carry_out(claude(box, printing("ok"), instructions="Mind the gap."))

    assert (record.state, record.termination_class) == (State.DONE, Ended.COMPLETED)
    assert record.harness == "claude-code"
    assert record.terminal_state is Terminal.REPORTED
    assert record.session_id
    assert box.starter.sessions == [record.session_id]
    assert record.usage
    assert record.steps
    final = run.final.read_text()
    (filed,) = box.graph.nodes.values()
    assert final.strip() in filed.body
    assert "Mind the gap." in (box.scratch / "prompt").read_text()
    assert '"type"' not in final, "a line of the stream is no report"


@pytest.mark.parametrize("case, trouble", [("s401", "auth"), ("s429", "rate_limit")])
def test_what_the_surroundings_did_is_put_down_to_them_and_to_no_item(box: Box, case: str, trouble: str) -> None:
    run, record = box.carry_out(claude(box, f"{printing(case)}; exit 1"))

    assert (record.state, record.termination_class, record.failure) == (State.FAILED, Ended.ENVIRONMENT, trouble)
    assert not run.final.exists(), "the text of a failure is nobody's report"
    assert record.is_settled


def test_a_program_that_stays_after_its_last_word_is_stopped_and_counts_as_completed(box: Box) -> None:
    box.clock = TickingClock(supervisor.LAST_WORD_S / 4)

    _, record = box.carry_out(claude(box, f"{printing('ok')}; exec sleep 3600"), run_idle_s=0)

    assert (record.state, record.termination_class, record.stopped_for) == (State.DONE, Ended.COMPLETED, None)
    assert record.signal is not None
    assert record.terminal_state is Terminal.REPORTED


def test_a_retry_is_no_sign_of_life(box: Box) -> None:
    box.clock = TickingClock(10)
    line = '{"type":"system","subtype":"api_retry","attempt":1,"error":"overloaded"}'

    _, record = box.carry_out(claude(box, f"while :; do echo {shlex.quote(line)}; sleep 0.05; done"), run_idle_s=200)

    assert (record.stopped_for, record.termination_class) == (Stopped.IDLE, Ended.IDLE)


def test_an_agent_that_takes_step_after_step_is_stopped(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STEPS_MAX", 3)
    step = '{"type":"assistant","message":{"id":"m%d","role":"assistant","content":[{"type":"text","text":"On."}]}}'

    _, record = box.carry_out(claude(box, f"n=0; while :; do n=$((n+1)); printf '{step}\\n' $n; sleep 0.05; done"))

    assert (record.state, record.stopped_for, record.termination_class) == (State.FAILED, Stopped.MAX, Ended.FAILED)
    assert record.termination_reason == "the agent took more than 3 steps and was stopped"
    assert record.steps is not None
    assert record.steps > supervisor.STEPS_MAX
    assert box.graph.held == set()


def test_lines_of_any_kind_are_read_past(box: Box) -> None:
    junk = r"printf 'no json\342\200\250 at all\000\377\n{\"half\": \n'; head -c 3000000 /dev/zero; echo"

    _, record = box.carry_out(claude(box, f'{junk}; {printing("ok")}; printf \'{{"type": "sys\''))

    assert (record.state, record.terminal_state) == (State.DONE, Terminal.REPORTED)


def test_hooks_stand_around_the_run(box: Box) -> None:
    steps = box.scratch / "steps"
    tell = ("sh", "-c", f'echo "$0 $BATON_DISPATCH_NODE" >> {steps}')
    order = Order(
        ("sh", "-c", f"echo child >> {steps}; echo Half of it."),
        box.repo.folder,
        set_up=(*tell, "set-up"),
        tear_down=(*tell, "tear-down"),
    )

    _, record = box.carry_out(order)

    assert steps.read_text().splitlines() == ["set-up task-1", "child", "tear-down task-1"]
    assert record.terminal_state is Terminal.REPORTED
    assert not Path(record.cwd).exists()


def test_a_set_up_that_fails_gives_the_item_back(box: Box) -> None:
    order = Order(("true",), box.repo.folder, set_up=("sh", "-c", "echo no such package >&2; exit 3"))

    _, record = box.carry_out(order)

    assert (record.state, record.lease_released, record.is_settled) == (State.FAILED_LAUNCH, True, True)
    assert record.termination_reason is not None
    assert "no such package" in record.termination_reason
    assert box.graph.held == set()
    assert box.graph.tokens == {}
    assert not Path(record.cwd).exists()


def test_a_run_that_comes_to_nothing_leaves_a_lease_that_it_did_not_begin(box: Box) -> None:
    order = Order(("true",), box.repo.folder, set_up=("false",))

    _, record = box.carry_out(order, borrowed=True)

    assert (record.state, record.lease_released) == (State.FAILED_LAUNCH, False)
    assert box.graph.held == {"task-1"}


def test_a_task_in_free_words_is_done_under_no_lease(box: Box) -> None:
    order = Order(
        ("sh", "-c", f"cat > {box.scratch}/prompt; echo ${{BATON_NODE-none}}"),
        box.repo.folder,
        instructions="Count the lines of the README.",
        name="count the lines",
        contract=False,
    )

    run, record = box.carry_out(order, item=False)

    assert (record.state, record.name, record.node_id) == (State.DONE, "count the lines", None)
    assert run.log.read_text() == "none\n"
    assert "Count the lines of the README." in (box.scratch / "prompt").read_text()
    assert record.is_settled
    assert box.graph.tokens == {}
    assert not Path(record.cwd).exists()


def test_a_run_may_stand_in_a_folder_that_is_there_already(box: Box) -> None:
    order = Order(("pwd",), box.repo.folder, directory=box.repo.folder)

    run, record = box.carry_out(order)

    assert run.log.read_text().strip() == str(box.repo.folder)
    assert (record.worktree, record.branch) == (None, None)
    assert box.repo.folder.exists()


def test_a_supervisor_that_is_told_to_end_stops_its_child_and_settles(box: Box) -> None:
    told = threading.Event()

    def clock() -> float:
        if box.starter.started and not told.is_set():
            told.set()
            box.starter.started[0].terminate()
        return 0.0

    box.clock = clock

    _, record = box.carry_out(Order(("sh", "-c", "echo As far as I came.; exec sleep 3600"), box.repo.folder))

    assert record.stopped_for is Stopped.INTERRUPTED
    assert record.is_settled
    assert box.graph.held == set()
