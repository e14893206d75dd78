"""A worker that is told to stop while its run is being launched: a child that works already works on (D21a)."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from batonpass.core.outcome import Terminal
from batonpass.core.queue import Accept
from batonpass.core.runs import State
from batonpass.testing.graph import MemoryGraph
from batonpass.testing.inthread import InThread
from batonpass.testing.points import calling
from batonpass.testing.repos import Repo
from batonpass.worker import git
from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.handover import Line
from batonpass.worker.dispatch.launch import Begun, Launcher, NotLaunched, Order
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.record import RunRecord, Stopped
from batonpass.worker.settings import Settings

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
WAIT_S: Final = 30.0


def stopped_at(point: str, graph: MemoryGraph, repo: Repo, home: Path) -> tuple[Begun | NotLaunched, RunRecord]:
    """Launch a run whose worker is told to stop when its supervisor is at `point`; return how it began and ended."""
    starter, stopping = InThread(graph, now=lambda: NOW), threading.Event()
    settings = Settings(home=home, inherited=repo.person)
    order = Order(("sh", "-c", "echo Half of it works."), repo.folder)
    ground = launch.survey(order, settings)
    record = launch.new_record(order, ground, server=graph.server, caller=graph.me, now=NOW)
    node = graph.add_item("task-1")

    def stop() -> None:
        stopping.set()
        assert starter.started[0].called_off.wait(WAIT_S), "the launch is not called off"

    with Journal(home).create(record) as run, calling(point, stop):
        taken = graph.next(project=None, accept=Accept.READY, candidates=[node], dispatch=record.dispatch)
        launcher = Launcher(graph, settings, lambda: NOW, starter, stopping)
        begun = launch.begin(launcher, run, taken, order=order, ground=ground)
        (supervisor,) = starter.started
        assert supervisor.wait(WAIT_S)
    assert supervisor.error is None
    return begun, RunFolder(run.path).read()


@pytest.mark.parametrize("point", ["token.minted", "worktree.added"])
def test_a_launch_that_is_called_off_before_its_child_is_undone(repo: Repo, tmp_path: Path, point: str) -> None:
    graph = MemoryGraph()

    begun, record = stopped_at(point, graph, repo, tmp_path / "baton")

    assert isinstance(begun, NotLaunched)
    assert (record.state, record.stopped_for, record.is_settled) == (State.FAILED_LAUNCH, Stopped.INTERRUPTED, True)
    assert (graph.held, graph.tokens) == (set(), {})
    assert len(git.worktrees(repo.checkout)) == 1


def test_a_child_that_has_just_started_is_let_finish(repo: Repo, tmp_path: Path) -> None:
    graph = MemoryGraph()

    begun, record = stopped_at("child.started", graph, repo, tmp_path / "baton")

    assert isinstance(begun, Begun)
    assert (record.state, record.stopped_for, record.terminal_state) == (State.DONE, None, Terminal.REPORTED)
    assert record.report_node_id in graph.nodes


def test_only_a_worker_that_says_so_calls_a_launch_off() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = Line(theirs)
        assert not line.called_off(), "it is waited for"
        ours.sendall(b"\n")
        assert line.called_off()
        assert line.called_off(), "and stays so"


def test_a_worker_that_is_gone_calls_nothing_off() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        assert not Line(theirs).called_off()
