"""A worker that owns its process: what it does about signals, relative commands and orphans."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batonpass import __version__
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.fleet import Fleet, WorkerProcess, fleet
from batonpass.testing.graph import MemoryGraph
from batonpass.testing.inthread import InThread
from batonpass.testing.points import wait_paused
from batonpass.testing.repos import Repo
from batonpass.worker.app import run_once
from batonpass.worker.crew import identify
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.record import Stopped
from batonpass.worker.settings import Settings


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet over SQLite: nothing here depends on the database."""
    folder = tmp_path_factory.mktemp("fleet")
    with fleet(f"sqlite:///{folder / 'baton.db'}", folder) as running:
        yield running


def script_that_waits(box: Fleet, project: str, *, then: str = "") -> str:
    """A child that reports, says that it is ready, and waits to be let go."""
    for name in ("ready", "go"):
        os.mkfifo(box.folder / f"{project}-{name}")
    return (
        f"echo As far as I came. > $BATON_REPORT; {then} echo > {box.folder}/{project}-ready;"
        f" read _ < {box.folder}/{project}-go; exit 0"
    )


def when_ready(box: Fleet, project: str) -> None:
    (box.folder / f"{project}-ready").read_text()


def send(worker: WorkerProcess, number: signal.Signals, *, expect: str) -> None:
    """Send a signal and wait until the worker has said what it makes of it."""
    worker.process.send_signal(number)
    assert worker.process.stdout is not None
    while expect not in (line := worker.process.stdout.readline()):
        assert line, f"the worker ended before it said {expect!r}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_run_finish(box: Fleet, number: signal.Signals) -> None:
    project = f"first-{number.name.lower()}"
    node = box.add_item(f"task-{project}", project=project)

    with box.worker("sh", "-c", script_that_waits(box, project), project=project) as worker:
        when_ready(box, project)
        send(worker, number, expect="finished first")
        (box.folder / f"{project}-go").write_text("\n")
        assert worker.died() == 0

    ((_, record),) = box.runs(project)
    assert (record.state, record.stopped_for, record.terminal_state) == (State.DONE, None, Terminal.REPORTED)
    assert not box.is_leased(node)


def test_the_second_signal_stops_the_run_and_settles_it(box: Fleet) -> None:
    node = box.add_item("task-second", project="second")

    with box.worker("sh", "-c", script_that_waits(box, "second"), project="second") as worker:
        when_ready(box, "second")
        send(worker, signal.SIGINT, expect="finished first")
        send(worker, signal.SIGTERM, expect="stopping the run")
        assert worker.died() == 0

    ((_, record),) = box.runs("second")
    assert (record.stopped_for, record.terminal_state) == (Stopped.INTERRUPTED, Terminal.REPORTED)
    assert box.related(node) == [record.report_node_id]
    assert not box.is_leased(node)


def test_a_terminal_that_goes_away_leaves_the_run_to_its_supervisor(box: Fleet) -> None:
    node = box.add_item("task-hup", project="hup")

    with box.worker("sh", "-c", script_that_waits(box, "hup"), project="hup") as worker:
        when_ready(box, "hup")
        worker.process.send_signal(signal.SIGHUP)
        worker.process.send_signal(signal.SIGHUP)
        assert worker.died() == 0
    ((run, _),) = box.runs("hup")
    assert run.is_held()
    (box.folder / "hup-go").write_text("\n")
    box.wait_overseen("hup")

    ((_, record),) = box.runs("hup")
    assert (record.state, record.stopped_for, record.terminal_state) == (State.DONE, None, Terminal.REPORTED)
    assert not box.is_leased(node)


def test_a_signal_while_the_claim_is_under_way_gives_back_what_it_brought(box: Fleet) -> None:
    node = box.add_item("task-early", project="early")
    paused = box.folder / "early-paused"

    with box.worker("true", project="early", points=f"claim.sent:pause={paused}") as worker:
        wait_paused(paused)
        worker.process.send_signal(signal.SIGTERM)
        paused.unlink()
        assert worker.died() == 0

    ((_, record),) = box.runs("early")
    assert (record.state, record.stopped_for) == (State.FAILED_LAUNCH, Stopped.INTERRUPTED)
    assert not box.is_leased(node)


def test_the_third_signal_ends_the_worker_and_leaves_the_run_to_its_supervisor(box: Fleet) -> None:
    node = box.add_item("task-third", project="third")
    paused = box.folder / "third-paused"

    script = script_that_waits(box, "third")
    with box.worker("sh", "-c", script, project="third", points=f"settle.read:pause={paused}") as worker:
        when_ready(box, "third")
        send(worker, signal.SIGINT, expect="finished first")
        send(worker, signal.SIGINT, expect="stopping the run")
        wait_paused(paused)
        worker.process.send_signal(signal.SIGINT)
        assert worker.died() != 0
    ((run, record),) = box.runs("third")
    assert run.is_held()
    assert not record.is_settled
    paused.unlink()

    box.wait_overseen("third")

    ((_, record),) = box.runs("third")
    assert (record.stopped_for, record.is_settled) == (Stopped.INTERRUPTED, True)
    assert len(box.related(node)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")
def test_an_orphan_that_hides_from_every_search_dies_with_its_run(box: Fleet) -> None:
    box.add_item("task-hidden", project="hidden")
    pid = box.folder / "hidden.pid"

    script = f"env -i $(command -v setsid) $(command -v sleep) 3600 & echo $! > {pid}; echo The report."
    with box.worker("sh", "-c", script, project="hidden") as worker:
        assert worker.died() == 0

    assert identify(int(pid.read_text())) is None


def test_a_relative_command_is_the_one_beside_whoever_typed_it(repo: Repo, tmp_path: Path) -> None:
    graph = MemoryGraph()
    graph.add_item("task-1")
    agent = repo.folder / "agent.sh"
    agent.write_text("#!/bin/sh\necho Untracked, and found all the same.\n")
    agent.chmod(0o755)

    record = run_once(
        graph,
        Settings(home=tmp_path / "baton", inherited=repo.person),
        Order(("./agent.sh",), repo.folder),
        starter=InThread(graph, now=lambda: datetime.now(UTC)),
        say=lambda _: None,
    )

    assert record is not None
    assert record.report_node_id is not None
    assert "found all the same" in graph.nodes[record.report_node_id].body


def test_a_worker_started_from_a_git_hook_in_an_odd_place_does_its_run_as_any_other(
    box: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = box.add_item("task-odd", project="odd")
    home = tmp_path / 'it\'s a "home" für $USER'
    for name, value in {
        "GIT_DIR": "/nonexistent/.git",
        "GIT_INDEX_FILE": "/nonexistent/index",
        "GIT_WORK_TREE": "/nonexistent",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setitem(box.repo.person, name, value)
    script = "cat > /dev/null; env | grep -c '^GIT_DIR=\\|^GIT_INDEX'; git rev-parse --show-toplevel; echo $LC_ALL;"
    script += " baton --version"

    with box.worker("sh", "-c", script, project="odd", home=home) as worker:
        assert worker.died() == 0

    ((run, record),) = box.runs("odd", home=home)
    assert (record.state, record.terminal_state) == (State.DONE, Terminal.REPORTED)
    assert run.log.read_text().splitlines() == ["0", record.cwd, "C.UTF-8", __version__]
    assert (run.path / "supervisor.log").read_bytes() == b""
    assert box.related(node) == [record.report_node_id]
