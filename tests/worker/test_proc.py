from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from batonpass.testing.processes import wait_gone
from batonpass.worker import proc
from batonpass.worker.crew import MARK, Crew, Exit, Graces, Identity, _marks, identify, is_alive
from batonpass.worker.errors import NotStarted, TimedOut
from batonpass.worker.proc import Child

PATH: Final = {"PATH": os.environ["PATH"]}
BRISK: Final = Graces(interrupt_s=0.3, terminate_s=0.3, kill_s=5)
LONG_S: Final = 20
"""A bound for what should take no time at all."""

Starter = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start a child whose output goes to `out` and `err` in the test's folder; whatever is left of it dies after."""
    children = []

    def starter(*argv: str, stdin: str | None = None, mark: str = "run-1", **environment: str) -> Child:
        child = proc.start(
            argv,
            mark=mark,
            cwd=tmp_path,
            environment={**PATH, **environment},
            stdin=stdin,
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )
        children.append(child)
        return child

    yield starter
    for child in children:
        child.stop(Graces(0, 0, 5))


def shell(script: str) -> tuple[str, str, str]:
    return ("sh", "-c", script)


def stray_of(child: Child, folder: Path) -> Identity:
    """The identity of the process whose number the child wrote to `pid` before it ended."""
    assert child.wait(LONG_S) == Exit(0)
    stray = identify(int((folder / "pid").read_text()))
    assert stray is not None
    return stray


# Starting


def test_output_reaches_the_files_byte_for_byte(start: Starter, tmp_path: Path) -> None:
    child = start(*shell(r"printf 'a\360\237\230\nb\000'; printf oops >&2"))

    assert child.wait(LONG_S) == Exit(0)
    assert (tmp_path / "out").read_bytes() == b"a\xf0\x9f\x98\nb\x00"
    assert (tmp_path / "err").read_bytes() == b"oops"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_the_prompt_arrives_whole_on_standard_input(start: Starter, tmp_path: Path) -> None:
    prompt = "first line\n" + "é" * 500_000

    child = start("cat", stdin=prompt)

    assert child.wait(LONG_S) == Exit(0)
    assert (tmp_path / "out").read_text() == prompt


def test_a_child_that_never_reads_a_large_prompt_just_ends(start: Starter) -> None:
    assert start("true", stdin="x" * 2_000_000).wait(LONG_S) == Exit(0)


def test_standard_input_is_closed_when_there_is_no_prompt(start: Starter, tmp_path: Path) -> None:
    assert start("cat").wait(LONG_S) == Exit(0)
    assert (tmp_path / "out").read_bytes() == b""


def test_the_environment_is_the_given_one_and_the_mark(start: Starter, tmp_path: Path) -> None:
    child = start("env", "-0", COLOUR="green", mark="run-7")

    assert child.wait(LONG_S) == Exit(0)
    told = dict(entry.split("=", 1) for entry in (tmp_path / "out").read_text().rstrip("\0").split("\0"))
    assert told == {**PATH, "COLOUR": "green", "BATON_RUN_MARK": "run-7"}


def test_a_run_within_a_run_carries_both_marks(start: Starter, tmp_path: Path) -> None:
    child = start("sh", "-c", "echo $BATON_RUN_MARK", mark="inner", BATON_RUN_MARK="outer")

    assert child.wait(LONG_S) == Exit(0)
    assert (tmp_path / "out").read_text() == "outer:inner\n"


def test_the_child_has_a_session_of_its_own(start: Starter) -> None:
    child = start("sleep", "3600")

    assert os.getsid(child.identity.pid) == child.identity.pid
    assert child.wait(0) is None


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "/etc/passwd", "with\0nul"])
def test_a_command_that_cannot_be_executed_is_not_started(start: Starter, command: str) -> None:
    with pytest.raises(NotStarted, match="could not be started"):
        start(command)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_nothing_is_started_in_another_directory_than_the_one_asked_for(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "gone"
    if kind == "file":
        folder.touch()

    with pytest.raises(NotStarted, match="is not a directory"):
        proc.start(
            ["touch", str(tmp_path / "ran")],
            mark="run-1",
            cwd=folder,
            environment=PATH,
            stdin=None,
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )
    assert not (tmp_path / "ran").exists()


# Ending


@pytest.mark.parametrize(
    "script, expected", [("exit 0", Exit(0)), ("exit 137", Exit(137)), ("kill -9 $$", Exit(None, "SIGKILL"))]
)
def test_an_exit_is_told_as_a_code_or_a_signal(start: Starter, script: str, expected: Exit) -> None:
    child = start(*shell(script))

    assert child.wait(LONG_S) == expected
    assert child.wait(0) == expected


def test_a_child_is_asked_to_wind_up_before_it_is_forced(start: Starter, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    child = start(*shell(f"trap 'echo winding up; exit 3' INT; echo > {ready}; while :; do sleep 0.05; done"))
    ready.read_text()

    assert child.stop(Graces(LONG_S, 0, 0)) == frozenset()
    assert child.wait(0) == Exit(3)
    assert (tmp_path / "out").read_text() == "winding up\n"


def test_a_child_that_ignores_every_polite_signal_is_killed(start: Starter, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    child = start(*shell(f"trap '' INT TERM; echo > {ready}; while :; do sleep 0.05; done"))
    ready.read_text()

    assert child.stop(BRISK) == frozenset()
    assert child.wait(0) == Exit(None, "SIGKILL")


def test_a_stopped_child_dies_too(start: Starter) -> None:
    child = start(*shell("kill -STOP $$; sleep 3600"))
    os.waitid(os.P_PID, child.identity.pid, os.WSTOPPED | os.WNOWAIT)

    assert child.stop(BRISK) == frozenset()
    assert child.wait(0) == Exit(None, "SIGKILL")


def test_stopping_twice_is_harmless(start: Starter) -> None:
    child = start("sleep", "3600")

    child.stop(BRISK)
    child.stop(BRISK)

    assert child.wait(0) is not None


# Strays


def test_a_grandchild_in_its_own_session_that_holds_the_output_keeps_nobody_waiting_and_dies(
    start: Starter, tmp_path: Path
) -> None:
    child = start(*shell("echo done; setsid sleep 3600 & echo $! > pid"))

    stray = stray_of(child, tmp_path)
    assert (tmp_path / "out").read_text() == "done\n"
    assert child.crew.look() == {stray}
    assert child.stop(BRISK) == frozenset()
    assert not is_alive(stray)


def test_strays_are_found_by_a_process_that_did_not_start_them(start: Starter, tmp_path: Path) -> None:
    stray = stray_of(start(*shell("setsid sleep 3600 & echo $! > pid"), mark="run-9"), tmp_path)

    assert Crew("run-8").stop(BRISK) == frozenset()
    assert is_alive(stray)

    assert Crew("run-9").stop(BRISK) == frozenset()
    assert not is_alive(stray)


def test_a_process_seen_below_the_child_is_remembered_without_its_mark(start: Starter, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    child = start(*shell(f"env -i setsid sleep 3600 & echo $! > pid; echo > {ready}; cat {go}"))
    ready.read_text()
    seen = child.crew.look()
    go.write_text("")

    stray = stray_of(child, tmp_path)
    assert stray in seen
    assert child.stop(BRISK) == frozenset()
    assert not is_alive(stray)


def test_a_stranger_is_looked_into_again_when_it_executes_another_program(start: Starter, tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    os.mkfifo(go)
    os.mkfifo(done)
    turned = start(*shell(f"cat {go}; exec env {MARK}=run-1 sh -c 'echo > {done}; exec sleep 3600'"), mark="other")
    crew = Crew("run-1")
    assert turned.identity not in crew.look()
    assert turned.identity not in crew.look()

    go.write_text("")
    done.read_text()

    assert turned.identity in crew.look()


@pytest.mark.skipif(sys.platform != "linux", reason="where programs lie is told by Linux")
def test_a_stranger_is_looked_into_once(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    bystander = start("sleep", "3600", mark="other").identity
    looked_into: list[int] = []
    marks_of = _marks  # nothing else tells how often
    crew = Crew("run-1")

    def marks(pid: int) -> list[str]:
        looked_into.append(pid)
        return marks_of(pid)

    monkeypatch.setattr("batonpass.worker.crew._marks", marks)
    for _ in range(3):
        crew.look()

    assert looked_into.count(bystander.pid) == 1


ADOPTION: Final = """
import sys
from pathlib import Path
from batonpass.worker import proc
from batonpass.worker.crew import Exit, Graces, become_subreaper, identify, is_alive
folder = Path(sys.argv[1])
assert become_subreaper()
child = proc.start(
    ["sh", "-c", "env -i setsid sleep 3600 & echo $! > pid"],
    mark="m", cwd=folder, environment={"PATH": sys.argv[2]}, stdin=None,
    stdout=folder / "out", stderr=folder / "err", adopts=True,
)
assert child.wait(20) == Exit(0)
stray = identify(int((folder / "pid").read_text()))
assert stray is not None
assert child.stop(Graces(0.1, 0.5, 5)) == frozenset()
assert not is_alive(stray)
child.crew.look()
assert not Path(f"/proc/{stray.pid}").exists(), "it is still to be buried"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")
def test_a_reaper_stops_and_buries_an_orphan_that_hides_from_every_other_search(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ADOPTION, str(tmp_path), PATH["PATH"]], check=True, timeout=LONG_S)


SELF: Final = """
from batonpass.worker.crew import Crew, Graces
left = Crew("m").stop(Graces(0.1, 0.1, 0.1))
print("alive", left == frozenset())
"""


def test_whoever_stops_a_run_it_is_part_of_spares_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SELF],
        env={**os.environ, MARK: "m"},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )

    assert done.stdout == "alive True\n"


def test_processor_time_of_the_run_is_counted(start: Starter, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    child = start(*shell(f'{sys.executable} -c \'sum(range(5_000_000)); open("ready", "w"); open("go").read()\''))
    idle = start("sleep", "3600", mark="run-2")
    ready.read_text()

    assert child.crew.cpu_s() >= 0.05
    assert idle.crew.cpu_s() < 0.05


# Identity


def test_a_process_is_its_number_and_its_start_together(start: Starter) -> None:
    child = start("sleep", "3600")
    identity = child.identity

    assert identify(identity.pid) == identity
    assert is_alive(identity)
    assert not is_alive(replace(identity, started=identity.started + 1))
    assert not is_alive(replace(identity, boot="another"))


def test_a_child_that_waits_to_be_reaped_is_not_alive(start: Starter) -> None:
    child = start("true")
    os.waitid(os.P_PID, child.identity.pid, os.WEXITED | os.WNOWAIT)

    assert not is_alive(child.identity)
    assert child.wait(0) == Exit(0)


def test_a_number_that_belongs_to_somebody_else_now_is_never_signalled(start: Starter) -> None:
    bystander = start("sleep", "3600", mark="other")
    here = identify(os.getpid())
    assert here is not None

    for stale in (replace(bystander.identity, started=1), replace(here, started=1), Identity(1, 1, here.boot)):
        assert Crew("run-1", child=stale).stop(BRISK) == frozenset()

    assert bystander.wait(0) is None


def test_identity_without_a_proc_folder_comes_from_the_system_all_the_same(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.worker.crew._PROC", tmp_path / "nowhere")
    child = start("sleep", "3600")

    assert is_alive(child.identity)
    assert child.stop(BRISK) == frozenset()
    assert not is_alive(child.identity)


# Short commands


def test_a_short_command_is_answered_with_what_it_printed(tmp_path: Path) -> None:
    done = proc.run(shell("cat; echo bad >&2; exit 4"), cwd=tmp_path, environment=PATH, timeout_s=LONG_S, stdin=b"in")

    assert done == proc.Completed(4, b"in", b"bad\n")


def test_a_short_command_does_not_wait_for_what_it_left_running(tmp_path: Path) -> None:
    done = proc.run(shell("setsid sleep 3600 & echo $!"), cwd=tmp_path, environment=PATH, timeout_s=LONG_S)

    os.kill(int(done.out), signal.SIGKILL)


def test_a_short_command_that_is_not_short_is_killed_with_its_group(tmp_path: Path) -> None:
    with pytest.raises(TimedOut, match=r"sh did not end within 0.5 s"):
        proc.run(shell("sleep 3600 & echo $! > pid; wait"), cwd=tmp_path, environment=PATH, timeout_s=0.5)

    wait_gone(int((tmp_path / "pid").read_text()), seconds_max=LONG_S)


def test_a_short_command_that_is_not_there_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match="no-such-command"):
        proc.run(["no-such-command"], cwd=tmp_path, environment=PATH, timeout_s=LONG_S)
