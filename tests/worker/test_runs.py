"""What a box's runs really are, and ending one: identities and locks decide, never a number alone (case 56)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batonpass.core.errors import Invalid, NotFound
from batonpass.core.ids import NodeId, RunId
from batonpass.core.runs import Ended, State
from batonpass.testing.runs import BEGAN, RUN, put_run, run_record, settled
from batonpass.worker import journal, proc, runs
from batonpass.worker.crew import Crew, Graces, Identity, identify, identify_self, is_alive
from batonpass.worker.errors import RunBusy
from batonpass.worker.journal import HeldRun, Journal
from batonpass.worker.record import RunRecord, timestamp
from batonpass.worker.runs import Hands

GRACES = Graces(0.1, 0.2, 5)
FOLLOWS = """
import fcntl, os, pathlib, signal, sys
lock = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else signal.SIG_DFL)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def supervisor(lock: Path, *, hearing: str = "hears") -> subprocess.Popen[str]:
    """Start a process that holds a run's lock, and does not end at SIGTERM when it is deaf."""
    process = subprocess.Popen([sys.executable, "-c", FOLLOWS, str(lock), hearing], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def never(_held: HeldRun, _crew: Crew) -> RunRecord:
    raise AssertionError("there is nothing to settle here")


def settling(held: HeldRun, _crew: Crew) -> RunRecord:
    return held.change(held.read(), **settled())


def seen(run: runs.Run | None) -> tuple[State, Hands | None]:
    assert run is not None
    return run.record.state, run.hands


# As they are


def test_a_run_is_running_while_its_supervisor_lives(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING, runner=identify_self()))

    with folder.locked():
        assert seen(runs.look(folder)) == (State.RUNNING, Hands.SUPERVISOR)


@pytest.mark.parametrize("state, ended", [(State.RUNNING, Ended.UNKNOWN), (State.LAUNCHING, Ended.LAUNCH)])
@pytest.mark.parametrize("pid", ["our own", "init's", "nobody's"])
def test_a_number_without_its_start_is_not_a_supervisor(home: Path, state: State, ended: Ended, pid: str) -> None:
    number = {"our own": os.getpid(), "init's": 1, "nobody's": 2**22 + 1}[pid]
    runner = Identity(number, 1, identify_self().boot)
    folder = put_run(home, run_record(state=state, runner=runner, child=runner))

    run = runs.look(folder)

    assert seen(run) == (State.VANISHED, None)
    assert run is not None
    assert run.record.termination_class is ended
    assert folder.read().state is state, "looking changes nothing"


def test_a_supervisor_of_another_boot_is_gone(home: Path) -> None:
    runner = replace(identify_self(), boot="another")

    assert seen(runs.look(put_run(home, run_record(state=State.RUNNING, runner=runner)))) == (State.VANISHED, None)


def test_a_run_that_is_being_launched_or_settled_is_in_somebodys_hands(home: Path) -> None:
    gone = Identity(1, 1, "another boot")
    launching = put_run(home, run_record(RunId("a-launching"), state=State.LAUNCHING))
    left = put_run(home, run_record(RunId("b-left"), state=State.RUNNING, runner=gone))

    with launching.locked(), left.locked():
        assert seen(runs.look(launching)) == (State.LAUNCHING, Hands.WORKER)
        assert seen(runs.look(left)) == (State.VANISHED, Hands.SETTLEMENT)


def test_a_settled_run_is_in_nobodys_hands_though_its_worker_lives(home: Path) -> None:
    folder = put_run(home, run_record(runner=identify_self(), **settled()))

    assert seen(runs.look(folder)) == (State.DONE, None)


def test_a_run_whose_child_is_over_waits_for_its_settlement(home: Path) -> None:
    folder = put_run(home, run_record(runner=identify_self()))

    assert seen(runs.look(folder)) == (State.DONE, None)


def test_where_locks_cannot_be_asked_for_the_listing_says_so(home: Path) -> None:
    folder = put_run(home, run_record())
    (folder.path / "lock").unlink()

    assert not runs.listing(Journal(home), limit=9).is_reconciled


# Finding them


def several(home: Path, count: int) -> list[RunId]:
    ids = [RunId(f"{number:03}a") for number in range(count)]
    for number, run in enumerate(ids):
        at = timestamp(BEGAN + timedelta(minutes=number))
        put_run(home, run_record(run, created_at=at, node_id=NodeId(f"task-{number % 2}"), **settled()))
    return ids


def test_the_newest_are_listed_and_all_are_counted(home: Path) -> None:
    ids = several(home, 5)

    found = runs.listing(Journal(home), limit=2)

    assert [run.record.run_id for run in found.runs] == [ids[4], ids[3]]
    assert found.total == 5
    assert found.is_reconciled


def test_a_list_is_of_one_item_or_of_ids_that_begin_alike(home: Path) -> None:
    ids = several(home, 5)
    book = Journal(home)

    assert [run.record.run_id for run in runs.listing(book, limit=9, node=NodeId("task-1")).runs] == [ids[3], ids[1]]
    assert runs.listing(book, limit=9, prefix="004").total == 1
    assert runs.listing(book, limit=9, prefix="004", node=NodeId("task-1")).total == 0


def test_what_cannot_be_read_is_named_and_hides_nothing(home: Path) -> None:
    several(home, 1)
    damaged = put_run(home, run_record(RunId("broken")))
    damaged.record.write_bytes(b"\0" * 100)

    found = runs.listing(Journal(home), limit=9)

    assert (len(found.runs), found.damaged) == (1, (damaged,))
    assert runs.look(damaged) is None


def test_a_run_is_found_by_what_only_its_id_begins_with(home: Path) -> None:
    ids = several(home, 8)
    book = Journal(home)

    assert runs.find(book, "003").path.name == ids[3]
    with pytest.raises(NotFound, match="'x'"):
        runs.find(book, "x")
    with pytest.raises(Invalid, match=r"8 runs begin with '00': 000a, .*, 004a and 3 more"):
        runs.find(book, "00")


# Ending one


def end(folder: journal.RunFolder, settle: Any, *, patience_s: float = 20.0) -> RunRecord:  # noqa: ANN401
    return runs.end(folder, settle, patience_s=patience_s, graces=GRACES)


def test_a_supervisor_is_asked_and_what_it_leaves_is_settled_here(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING))
    with supervisor(folder.path / "lock") as process:
        runner = identify(process.pid)
        HeldRun(folder.path, -1).change(folder.read(), runner=runner)

        record = end(folder, settling)

        assert process.wait(20) == -signal.SIGTERM
    assert record.is_settled


def test_a_supervisor_that_does_not_hear_is_killed_in_the_end(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING))
    with supervisor(folder.path / "lock", hearing="deaf") as process:
        HeldRun(folder.path, -1).change(folder.read(), runner=identify(process.pid))

        record = end(folder, settling, patience_s=0.3)

        assert process.wait(20) == -signal.SIGKILL
    assert record.is_settled


def test_a_run_somebody_else_is_launching_or_settling_is_left_to_them(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING, runner=Identity(1, 1, "another boot")))

    with folder.locked(), pytest.raises(RunBusy, match="try again"):
        end(folder, never, patience_s=0.2)


def test_a_settled_run_is_left_as_it_is(home: Path) -> None:
    folder = put_run(home, run_record(**settled()))

    assert end(folder, never) == folder.read()


def test_a_settled_run_need_not_be_free(home: Path) -> None:
    folder = put_run(home, run_record(runner=identify_self(), **settled()))

    with folder.locked():
        assert end(folder, never) == folder.read()


def test_a_run_without_a_supervisor_has_its_processes_stopped_and_is_settled(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING, runner=Identity(1, 1, "another boot")))
    stray = proc.start(
        ["sh", "-c", "setsid sleep 3600 & wait"],
        mark=RUN,
        cwd=home,
        environment={"PATH": os.environ["PATH"]},
        stdin=None,
        stdout=folder.log,
        stderr=folder.errors,
    )
    while len(crew := stray.crew.look()) < 2:
        pass

    record = end(folder, settling)

    assert record.is_settled
    stray.wait(5)
    assert not any(map(is_alive, crew))


@pytest.mark.parametrize("recorded", ["runner", "child"])
def test_a_process_that_only_has_the_number_is_never_signalled(
    home: Path, bystander: subprocess.Popen[bytes], recorded: str
) -> None:
    real = identify(bystander.pid)
    assert real is not None
    stale: dict[str, Any] = {recorded: replace(real, started=real.started - 1)}
    folder = put_run(home, run_record(state=State.RUNNING, **stale))

    assert end(folder, settling).is_settled

    assert bystander.poll() is None
    assert is_alive(real)


def test_we_never_signal_ourselves(home: Path) -> None:
    folder = put_run(home, run_record(state=State.RUNNING, runner=identify_self(), child=identify_self()))

    with folder.locked(), pytest.raises(RunBusy):
        end(folder, never, patience_s=0.2)
