from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from batonpass.core import points
from batonpass.core.digest_text import Mode
from batonpass.core.errors import BatonError, Forbidden, Internal, Paused, Unavailable, Unknown
from batonpass.core.ids import Fence, NodeId, Resource
from batonpass.core.outcome import Terminal
from batonpass.core.queue import Accept
from batonpass.core.runs import Ended, State
from batonpass.testing.clock import TickingClock
from batonpass.testing.graph import AGENT, MemoryGraph, failing_with
from batonpass.testing.inthread import InThread
from batonpass.testing.repos import Repo
from batonpass.worker import git, proc, shift
from batonpass.worker.crew import Crew, Exit, Graces, Identity, identify, identify_self
from batonpass.worker.dispatch import launch, supervisor
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Caller
from batonpass.worker.journal import Journal
from batonpass.worker.reaping import reap
from batonpass.worker.record import RunRecord, Stopped
from batonpass.worker.settings import Settings
from batonpass.worker.worker import Worker

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
DUMP: Final = """
import json, os, sys
with open({!r}, "w") as told:
    json.dump([dict(os.environ), sys.argv, sys.stdin.read(), os.getcwd()], told)
"""


@dataclass
class Box:
    """A worker's box: its graph in memory, its repository, what it said, and the worker for a command."""

    graph: MemoryGraph
    repo: Repo
    home: Path
    scratch: Path
    said: list[str] = field(default_factory=list)
    interrupted: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.monotonic
    child_server: str | None = None
    supervisors: InThread = field(init=False)
    changes: dict[str, Any] = field(default_factory=dict)

    def worker(self, *command: str, **order: Any) -> Worker:  # noqa: ANN401 — whichever fields a test is about
        settings = Settings(home=self.home, inherited=self.repo.person, graces=Graces(0.2, 0.5, 5))
        return Worker(
            graph=self.graph,
            settings=replace(settings, **self.changes),
            order=Order(command=command, folder=self.repo.folder, **order),
            now=lambda: NOW,
            interrupted=self.interrupted,
            say=self.said.append,
            starter=self.starter(),
        )

    def starter(self) -> InThread:
        self.supervisors = InThread(self.graph, now=lambda: NOW, clock=self.clock, child_server=self.child_server)
        return self.supervisors

    def runs(self, *command: str, **order: Any) -> RunRecord | None:  # noqa: ANN401
        return shift.once(self.worker(*command, **order))

    def ran(self, script: str) -> RunRecord:
        record = self.runs("sh", "-c", script)
        assert record is not None
        return record

    @property
    def journal(self) -> Journal:
        return Journal(self.home)

    def traces(self) -> dict[str, object]:
        """What a launch that came to nothing must not have changed."""
        return {
            "refs": self.repo.refs(),
            "worktrees": git.worktrees(self.repo.checkout),
            "held": set(self.graph.held),
            "tokens": dict(self.graph.tokens),
        }


@pytest.fixture
def box(tmp_path: Path, repo: Repo) -> Iterator[Box]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    box = Box(MemoryGraph(), repo, tmp_path / "baton", scratch)
    yield box
    assert all(heart.stopped for heart in box.graph.hearts), "a heartbeat outlived its run"


# A run from end to end


def test_a_command_gets_the_prompt_the_worktree_and_its_own_environment(box: Box) -> None:
    node = box.graph.add_item("task-1")
    box.repo.person["BATON_TOKEN"] = "bat_pat_thepersonsown"
    told = box.scratch / "told.json"

    record = box.runs(sys.executable, "-c", DUMP.format(str(told)), "argument")

    assert record is not None
    environ, argv, prompt, cwd = json.loads(told.read_text())
    assert argv == ["-c", "argument"]
    assert "Work on `task-1`." in prompt
    assert '"Title of task-1"' in prompt
    assert "> Text of task-1." in prompt
    assert cwd == record.cwd == str(box.home / "worktrees/project" / record.run_id[:8])
    run = box.home / "runs" / record.run_id
    assert (
        environ.items()
        >= {
            "BATON_SERVER": box.graph.server,
            "BATON_TOKEN": "bat_agt_secret-of-00000001",
            "BATON_HOME": str(run / "home"),
            "BATON_RUN": record.run_id,
            "BATON_NODE": node,
            "BATON_PROJECT": "mail",
            "BATON_EPOCH": "1",
            "BATON_REPORT": str(run / "report.md"),
            "BATON_RUN_MARK": record.run_id,
            "GIT_AUTHOR_NAME": AGENT,
            "PWD": cwd,
        }.items()
    )
    assert not [name for name in environ if "pat_theperson" in environ[name]]


def test_children_are_told_the_address_they_can_reach(box: Box) -> None:
    box.graph.add_item("task-1")

    box.child_server = "http://127.0.0.1:9"

    box.ran(f"echo $BATON_SERVER > {box.scratch}/told")

    assert (box.scratch / "told").read_text() == "http://127.0.0.1:9\n"


def test_work_that_is_committed_and_reported_comes_out_whole(box: Box) -> None:
    node = box.graph.add_item("task-1")

    record = box.ran("echo work > work.txt && git add . && git commit -qm Work && echo Done half. > $BATON_REPORT")

    assert (record.state, record.exit_code, record.termination_class) == (State.DONE, 0, Ended.COMPLETED)
    assert (record.terminal_state, record.commits) == (Terminal.REPORTED, 1)
    assert node not in box.graph.held
    assert box.graph.tokens == {}
    assert record.branch == f"refs/heads/baton/task-1-{record.run_id[:8]}"
    assert box.repo.git("log", "-1", "--format=%an <%ae> %cn", record.branch) == f"{AGENT} <{AGENT}@localhost> {AGENT}"
    assert box.repo.git("show", f"{record.branch}:work.txt") == "work"
    assert not Path(record.cwd).exists()
    assert box.repo.git("status", "--porcelain") == ""


def test_the_next_run_is_shown_what_the_last_one_reported(box: Box) -> None:
    box.graph.add_item("task-1")
    box.ran("echo The cache is the cause. > $BATON_REPORT")

    box.runs("sh", "-c", f"cat > {box.scratch}/prompt")

    prompt = (box.scratch / "prompt").read_text()
    assert "> The cache is the cause." in prompt


@pytest.mark.parametrize("why", [Unavailable("no answer within 10 s"), Internal("something broke here")])
def test_a_briefing_that_cannot_be_compiled_costs_no_run(box: Box, why: BatonError) -> None:
    box.graph.add_item("task-1")
    box.graph.failing["digest"] = failing_with(why)

    record = box.ran(f"cat > {box.scratch}/prompt; echo Half of it. > $BATON_REPORT")

    prompt = (box.scratch / "prompt").read_text()
    assert record.terminal_state is Terminal.REPORTED
    assert "could not be compiled, so decisions, earlier reports and related work are missing here" in prompt
    assert f'The reason: "{why.message}"' in prompt
    assert "> Text of task-1." in prompt


@pytest.mark.parametrize("mode", [None, Mode.DIGEST, Mode.FULL])
def test_a_run_is_told_as_much_as_the_worker_was_asked_to_tell(box: Box, mode: Mode | None) -> None:
    box.graph.add_item("task-1")
    box.ran("echo The cache is the cause. > $BATON_REPORT")
    box.graph.calls.clear()
    box.changes["briefing"] = mode

    box.ran(f"cat > {box.scratch}/prompt")

    prompt = (box.scratch / "prompt").read_text()
    assert box.graph.done("digest") == ([] if mode is None else [("task-1", "mail", mode)])
    assert ("> The cache is the cause." in prompt) is (mode is not None)
    assert "> Text of task-1." in prompt


def test_no_secret_is_in_an_argument_a_record_a_log_or_a_prompt(box: Box) -> None:
    box.graph.add_item("task-1")
    seen = box.scratch / "seen"

    record = box.ran(f"cat /proc/$PPID/cmdline /proc/$$/cmdline - > {seen}")

    told = seen.read_text()
    assert "Work on `task-1`" in told
    assert "bat_agt_" not in told
    run = box.home / "runs" / record.run_id
    assert not [path for path in run.rglob("*") if path.is_file() and b"bat_agt_" in path.read_bytes()]
    assert not [line for line in box.said if "bat_agt_" in line]


def test_an_empty_queue_leaves_no_trace(box: Box) -> None:
    assert box.runs("true") is None

    assert box.journal.runs() == ()
    assert box.said == ["there is nothing to take"]


def test_what_may_not_be_taken_is_left_with_a_reason(box: Box) -> None:
    box.graph.add_item("task-1", readiness="human")
    box.graph.add_item("question-2", type="question")

    assert box.runs("true") is None
    assert box.said[:2] == [
        "task-1: left alone, it needs a person",
        "question-2: left alone, a question is for a person to answer",
    ]


def test_the_page_widens_until_something_may_be_taken(box: Box) -> None:
    for i in range(60):
        box.graph.add_item(f"task-{i}", readiness=None)
    box.graph.add_item("task-ready")

    record = box.ran("true")

    assert record.node_id == "task-ready"
    assert box.graph.done("page") == [25, 50, 100]


def test_an_open_worker_takes_what_nobody_has_triaged(box: Box) -> None:
    box.graph.add_item("task-1", readiness=None)
    box.changes = {"accept": Accept.OPEN}

    assert box.ran("true").node_id == "task-1"


def test_a_worker_that_loses_every_race_gives_up_for_this_round(box: Box) -> None:
    box.graph.add_item("task-0")
    rounds: list[int] = []

    def others_win() -> None:
        box.graph.take_over(NodeId(f"task-{len(rounds)}"))
        rounds.append(1)
        box.graph.add_item(f"task-{len(rounds)}")

    box.graph.failing["next"] = others_win

    assert box.runs("true") is None
    assert len(rounds) == shift.LOST_RACES_MAX
    assert box.said == ["others were faster each time"]
    assert box.journal.runs() == ()


def test_losing_every_race_for_a_page_is_not_the_end(box: Box) -> None:
    first = box.graph.add_item("task-1")
    rounds = []

    def others_win() -> None:
        rounds.append(1)
        if len(rounds) == 1:
            box.graph.take_over(first)
            box.graph.add_item("task-2")

    box.graph.failing["next"] = others_win

    assert box.ran("true").node_id == "task-2"
    assert len(box.journal.runs()) == 1


# Guards: nothing is changed before they pass


@pytest.mark.parametrize(
    "command, order, message",
    [
        ((), {}, "no command"),
        (("no-such-agent",), {}, "no-such-agent is not a command"),
        (("true",), {"base": "no-such-branch"}, "no branch, tag or commit no-such-branch"),
        (("true",), {"folder": Path("/")}, "not inside a git checkout"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_before_anything_is_asked_or_changed(
    box: Box, command: tuple[str, ...], order: dict[str, Any], message: str
) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    worker = box.worker(*command)
    worker = replace(worker, order=replace(worker.order, **order))

    with pytest.raises(LaunchRefused, match=message):
        shift.once(worker)

    assert box.graph.calls == []
    assert box.traces() == before
    assert box.journal.runs() == ()


@pytest.mark.parametrize(
    "me, message",
    [
        (Caller(None, None, "i"), "not an agent's"),
        (Caller(AGENT, None, "i", run=Fence(Resource("task-9"), 1)), "a run's own token"),
    ],
)
def test_a_token_that_is_not_the_agents_own_launches_nothing(box: Box, me: Caller, message: str) -> None:
    box.graph.add_item("task-1")
    box.graph.me = me

    with pytest.raises(LaunchRefused, match=message):
        box.runs("true")

    assert box.graph.held == set()


def test_the_base_may_be_any_branch_and_the_work_starts_there(box: Box) -> None:
    box.graph.add_item("task-1")
    box.repo.git("checkout", "--quiet", "-b", "release")
    tip = box.repo.commit("fix.txt")
    box.repo.git("checkout", "--quiet", "main")

    record = box.runs("test", "-e", "fix.txt", base="release")

    assert record is not None
    assert (record.base, record.exit_code) == (tip, 0)


# Undoing (D0, case 80)


@pytest.mark.parametrize(
    "error, leaves_a_record", [(Paused("paused"), False), (Unavailable("no"), False), (Unknown("lost"), True)]
)
def test_without_an_answered_claim_there_is_no_child(box: Box, error: BatonError, *, leaves_a_record: bool) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    box.graph.failing["next"] = failing_with(error, times=1)

    with pytest.raises(type(error)):
        box.runs("touch", str(box.scratch / "ran"))

    assert not (box.scratch / "ran").exists()
    assert box.traces() == before
    assert len(box.journal.unsettled()) == int(leaves_a_record)

    # The record of a claim nobody knows the fate of is closed by the next start.
    reaped = reap(box.worker("true"))
    assert reaped == tuple(replace(run.read(), mirrored_at=None) for run in box.journal.runs())
    assert list(box.graph.runs) == [record.run_id for record in reaped], "the server hears of it too"
    assert box.journal.unsettled() == ()


def test_the_nonce_is_written_down_before_it_is_sent(box: Box) -> None:
    box.graph.add_item("task-1")
    written: list[str] = []
    box.graph.failing["next"] = lambda: written.extend(run.read().dispatch for run in box.journal.runs())

    box.ran("true")

    assert written == box.graph.done("next")


def test_a_record_that_cannot_be_written_stops_the_launch_before_the_claim(box: Box) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    box.home.mkdir()
    (box.home / "runs").write_text("in the way")

    with pytest.raises(OSError, match="runs"):
        box.runs("true")

    assert box.graph.done("next") == []
    assert box.traces() == before


@pytest.mark.parametrize("method", ["mint", "node"])
def test_a_launch_that_fails_after_its_claim_is_undone_in_reverse(box: Box, method: str) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    box.graph.failing[method] = failing_with(Forbidden("this token may not"))

    record = box.ran(f"touch {box.scratch}/ran")

    assert not (box.scratch / "ran").exists()
    assert box.traces() == before
    assert (record.state, record.termination_class) == (State.FAILED_LAUNCH, Ended.LAUNCH)
    assert (record.termination_reason, record.lease_released) == ("this token may not", True)
    assert record.is_settled


def test_a_worktree_that_cannot_be_made_gives_everything_back(box: Box) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    box.home.mkdir()
    (box.home / "worktrees").write_text("in the way")

    record = box.ran("true")

    assert record.state is State.FAILED_LAUNCH
    assert box.traces() == before
    names = [name for name, _ in box.graph.calls if name in {"keep", "mint", "revoke", "release"}]
    assert names == ["keep", "mint", "revoke", "release"]


def test_a_command_that_turns_out_not_to_run_gives_everything_back(box: Box) -> None:
    box.graph.add_item("task-1")
    script = box.scratch / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    before = box.traces()

    record = box.runs(str(script))

    assert record is not None
    assert record.state is State.FAILED_LAUNCH
    assert "could not be started" in (record.termination_reason or "")
    assert box.traces() == before


def test_what_cannot_be_given_back_now_lapses_and_is_said(box: Box) -> None:
    box.graph.add_item("task-1")
    box.graph.failing["mint"] = failing_with(Unavailable("gone"))
    box.graph.failing["release"] = failing_with(Unavailable("gone"))

    record = box.ran("true")

    assert (record.state, record.lease_released) == (State.FAILED_LAUNCH, False)


def test_a_lease_lost_while_the_worktree_is_made_starts_no_child(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    node = box.graph.add_item("task-1")

    def lose() -> None:
        box.graph.take_over(node)
        box.graph.hearts[0].why = "held by agent-other"

    monkeypatch.setitem(points.armed, "worktree.added", lose)

    record = box.ran(f"touch {box.scratch}/ran")

    assert not (box.scratch / "ran").exists()
    assert record.state is State.FAILED_LAUNCH
    assert "held by agent-other" in (record.termination_reason or "")
    assert node in box.graph.held
    assert len(git.worktrees(box.repo.checkout)) == 1


def test_a_lease_is_renewed_from_the_claim_on_not_from_the_childs_start(box: Box) -> None:
    box.graph.add_item("task-1")

    box.ran("true")

    names = [name for name, _ in box.graph.calls]
    assert names.index("next") < names.index("keep") < names.index("mint")


# The end of a child


@pytest.mark.parametrize(
    "script, state, exit_",
    [
        ("exit 0", State.DONE, Exit(0)),
        ("exit 7", State.FAILED, Exit(7)),
        ("kill -9 $$", State.FAILED, Exit(None, "SIGKILL")),
    ],
)
def test_the_record_says_how_the_process_ended(box: Box, script: str, state: State, exit_: Exit) -> None:
    box.graph.add_item("task-1")

    record = box.ran(script)

    assert (record.state, record.exit_code, record.signal) == (state, exit_.code, exit_.signal)
    assert record.terminal_state is Terminal.FAILED


def endless(box: Box, *, then: str = "") -> str:
    """A script that reports, says that it is ready, and goes on until it is stopped."""
    return f"echo As far as I came. > $BATON_REPORT; touch {box.scratch}/ready; {then} while :; do sleep 0.05; done"


def when_ready(box: Box, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Call `act` once, in the supervisor's own loop, when the child has got far enough."""
    wait = proc.Child.wait
    done: list[int] = []

    def wait_and_act(child: proc.Child, timeout_s: float) -> Exit | None:
        if (box.scratch / "ready").exists() and not done:
            done.append(1)
            act()
        return wait(child, timeout_s)

    monkeypatch.setattr(proc.Child, "wait", wait_and_act)


def test_a_lost_lease_stops_the_child_and_releases_nothing(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    node = box.graph.add_item("task-1")

    def lose() -> None:
        box.graph.take_over(node)
        box.graph.hearts[0].why = "held by agent-other until 12:45"

    when_ready(box, lose, monkeypatch)
    record = box.ran(endless(box))

    assert (record.state, record.stopped_for, record.lease_lost) == (State.FAILED, Stopped.LEASE_LOST, True)
    assert "held by agent-other" in (record.termination_reason or "")
    assert node in box.graph.held
    assert box.graph.done("release") == []
    assert record.terminal_state is Terminal.REPORTED
    assert not Crew(record.run_id).look()


def test_a_worker_that_is_told_to_stop_while_it_settles_takes_nothing(box: Box) -> None:
    box.graph.add_item("task-1")
    worker = box.worker("true")
    worker.stopping.set()

    with pytest.raises(KeyboardInterrupt):
        shift.once(worker)

    assert box.graph.done("next") == []
    assert box.journal.runs() == ()
    assert box.said == ["told to stop: nothing is taken"]


def test_a_worker_that_is_told_to_stop_while_it_looks_takes_nothing(box: Box) -> None:
    box.graph.add_item("task-1")
    worker = box.worker("true")
    box.graph.failing["page"] = worker.stopping.set

    with pytest.raises(KeyboardInterrupt):
        shift.once(worker)

    assert box.graph.done("next") == []


@pytest.mark.parametrize("point", ["lease.taken", "token.minted", "worktree.added"])
def test_a_worker_that_is_told_to_stop_before_the_child_starts_hands_back(
    box: Box, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.graph.add_item("task-1")
    before = box.traces()
    worker = box.worker("touch", str(box.scratch / "ran"))

    def stop() -> None:
        worker.stopping.set()
        assert box.supervisors.started[0].called_off.wait(20)

    monkeypatch.setitem(points.armed, point, stop)

    record = shift.once(worker)

    assert record is not None
    assert (record.state, record.stopped_for, record.lease_released) == (
        State.FAILED_LAUNCH,
        Stopped.INTERRUPTED,
        True,
    )
    assert box.traces() == before
    assert not (box.scratch / "ran").exists()
    assert box.journal.unsettled() == ()


def test_a_run_whose_worker_cannot_speak_is_its_supervisors_all_the_same(box: Box) -> None:
    box.graph.add_item("task-1")
    worker = replace(box.worker("echo", "The report."), say=unspeakable)

    with pytest.raises(BrokenPipeError):
        shift.once(worker)

    assert box.supervisors.started[0].wait(20)
    (run,) = box.journal.runs()
    assert run.read().terminal_state is Terminal.REPORTED


def unspeakable(line: str) -> None:
    raise BrokenPipeError(line)


def test_an_interrupted_run_is_stopped_and_settled(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    node = box.graph.add_item("task-1")
    when_ready(box, box.interrupted.set, monkeypatch)

    record = box.ran(endless(box))

    assert (record.stopped_for, record.terminal_state) == (Stopped.INTERRUPTED, Terminal.REPORTED)
    assert node not in box.graph.held


def test_an_interruption_is_spoken_of_whenever_it_comes(box: Box) -> None:
    box.graph.add_item("task-1")
    calls = iter(range(3))

    def clock() -> float:
        if next(calls, None) is None:  # in the middle of a look
            box.interrupted.set()
        return 0.0

    box.clock = clock

    assert box.ran("exec sleep 3600").stopped_for is Stopped.INTERRUPTED
    assert [line for line in box.said if line.startswith("stopping the run")]


def test_a_run_that_takes_too_long_is_stopped(box: Box) -> None:
    box.graph.add_item("task-1")
    box.changes = {"run_max_s": 100.0, "run_idle_s": 0.0}
    box.clock = TickingClock(30)

    record = box.ran(endless(box))

    assert (record.stopped_for, record.termination_class) == (Stopped.MAX, Ended.FAILED)


def test_a_run_without_any_sign_of_life_is_stopped_as_idle_and_keeps_its_worktree(box: Box) -> None:
    box.graph.add_item("task-1")
    box.changes = {"run_idle_s": 100.0}
    box.clock = TickingClock(30)

    record = box.ran("exec sleep 3600")

    assert (record.stopped_for, record.termination_class) == (Stopped.IDLE, Ended.IDLE)
    assert Path(record.cwd).exists()


@pytest.mark.parametrize("life", ["echo busy", "x=1; while [ $x -lt 20000 ]; do x=$((x+1)); done"])
def test_output_or_processor_time_is_a_sign_of_life(box: Box, life: str, monkeypatch: pytest.MonkeyPatch) -> None:
    box.graph.add_item("task-1")
    box.changes = {"run_idle_s": 100.0}
    box.clock = TickingClock(5)
    monkeypatch.setattr(supervisor, "CPU_SHARE_MIN", 1e-6)
    monkeypatch.setattr(supervisor, "TICK_S", 0.02)
    looks = iter(range(40))

    wait = proc.Child.wait

    def wait_or_end(child: proc.Child, timeout_s: float) -> Exit | None:
        if next(looks, None) is None:
            box.interrupted.set()
        return wait(child, timeout_s)

    monkeypatch.setattr(proc.Child, "wait", wait_or_end)

    assert box.ran(f"while :; do {life}; done").stopped_for is Stopped.INTERRUPTED


def test_a_resolver_written_before_an_idle_stop_still_counts(box: Box) -> None:
    node = box.graph.add_item("task-1")
    box.graph.resolve(node)
    box.changes = {"run_idle_s": 100.0}
    box.clock = TickingClock(30)

    record = box.ran("exec sleep 3600")

    assert (record.state, record.termination_class) == (State.FAILED, Ended.IDLE)
    assert record.terminal_state is Terminal.RESOLVED


def test_a_stray_that_holds_the_output_keeps_nobody_waiting(box: Box) -> None:
    box.graph.add_item("task-1")

    record = box.ran(f"echo The report.; setsid sleep 3600 & echo $! > {box.scratch}/pid")

    assert record.state is State.DONE
    assert record.terminal_state is Terminal.REPORTED
    assert identify(int((box.scratch / "pid").read_text())) is None


# Crashes, and the next start


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


POINTS: Final = (
    "record.written claim.nonce_written lease.taken token.minted worktree.added child.started child.exited"
    " settle.stopped report.filed released"
).split()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_cut_off_at_any_point_leaves_what_the_next_start_can_finish(
    box: Box, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = box.graph.add_item("task-1")

    def die() -> None:
        raise Killed

    def die_once() -> None:
        del points.armed[point]
        die()

    monkeypatch.setitem(points.armed, point, die_once)
    with suppress(Killed):  # the worker's own; a supervisor's is the end of its thread
        box.ran("echo The report.")
    monkeypatch.undo()

    box.graph.items[NodeId("task-1")] = replace(box.graph.items[node], readiness="human")
    assert box.runs("true") is None

    assert box.journal.unsettled() == ()
    if box.graph.held:
        # Only where nobody can know that the claim was granted: it lapses in a minute.
        assert point in {"record.written", "claim.nonce_written"}
    (run,) = box.journal.runs()
    record = run.read()
    has_spoken = (run.path / "spool.json").exists()
    assert (record.terminal_state is Terminal.REPORTED) is has_spoken
    assert len(box.graph.nodes) == int(has_spoken)
    assert box.graph.tokens == {}
    assert len(git.worktrees(box.repo.checkout)) == 1
    assert any("which was left" in line for line in box.said)


def test_a_run_that_somebody_is_at_work_on_is_left_to_them(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.graph.add_item("task-1")
    seen = []

    def second_start() -> None:
        seen.append(reap(replace(box.worker("true"), interrupted=threading.Event())))
        box.interrupted.set()

    when_ready(box, second_start, monkeypatch)

    record = box.ran(endless(box))

    assert seen == [()]
    assert record.stopped_for is Stopped.INTERRUPTED


def test_the_child_of_a_dead_worker_is_stopped_before_its_run_is_judged(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.graph.add_item("task-1")
    orphans: list[proc.Child] = []

    def die() -> None:
        raise Killed

    def leave_running(child: proc.Child, _: Graces) -> frozenset[Identity]:
        orphans.append(child)
        return frozenset()

    # As if the worker had been killed: the child is not stopped on the way out.
    monkeypatch.setattr(proc.Child, "stop", leave_running)
    when_ready(box, die, monkeypatch)
    record = box.ran(endless(box))

    assert isinstance(box.supervisors.started[0].error, Killed)
    (child,) = orphans
    assert child.wait(20) is not None
    assert (record.child, record.state) == (child.identity, State.VANISHED)
    assert record.terminal_state is Terminal.REPORTED
    assert box.graph.nodes


def test_a_record_whose_number_is_somebody_elses_by_now_harms_nobody(box: Box) -> None:
    box.graph.add_item("task-1")
    with box.journal.create(_left_behind(box)):
        pass

    (record,) = reap(box.worker("true"))

    assert record.state is State.VANISHED


def test_a_run_that_cannot_be_settled_here_keeps_nobody_waiting(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.graph.add_item("task-1")
    with box.journal.create(_left_behind(box)):
        pass

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert reap(box.worker("true")) == ()

    assert "not settled: [Errno 28] No space left on device" in box.said[-1]
    assert len(box.journal.unsettled()) == 1
    assert len(reap(box.worker("true"))) == 1


@pytest.mark.parametrize("left", [b"", b"{}", b"[]", b"\xff", b'{"run_id": "0b'])
def test_a_damaged_record_is_set_aside_and_stops_no_other_work(box: Box, left: bytes) -> None:
    box.graph.add_item("task-1")
    with box.journal.create(_left_behind(box)) as run:
        run.record.write_bytes(left)

    assert box.ran("echo Done.").node_id == "task-1"

    aside = run.path / "run.json.damaged"
    assert aside.read_bytes() == left
    assert [line for line in box.said if str(aside) in line] == box.said[:1]
    assert box.journal.damaged() == ()


def test_a_damaged_record_of_a_run_somebody_holds_is_left_to_them(box: Box) -> None:
    with box.journal.create(_left_behind(box)) as run:
        run.record.write_bytes(b"")
        assert reap(box.worker("true")) == ()
        assert run.record.exists()


def test_a_run_whose_worker_lives_is_left_even_where_locks_do_not_work(box: Box) -> None:
    runner = identify(os.getppid())
    with box.journal.create(replace(_left_behind(box), runner=runner)):
        pass

    assert reap(box.worker("true")) == ()
    assert len(box.journal.unsettled()) == 1


def _left_behind(box: Box) -> RunRecord:
    worker = box.worker("true")
    ground = launch.survey(worker.order, worker.settings)
    record = launch.new_record(worker.order, ground, server=box.graph.server, caller=box.graph.me, now=NOW)
    here = identify_self()
    return replace(
        record,
        state=State.RUNNING,
        node_id=NodeId("task-1"),
        node_type="task",
        epoch=1,
        runner=replace(here, pid=1, started=1),
        child=replace(here, started=here.started - 1),
    )
