"""`baton demo` as a newcomer types it: it ends well and tells every step, or ends with 1 and says which was not so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

DEMO_S_MAX: Final = 150
"""It takes twenty seconds; a machine that runs the whole suite has other things to do as well."""
LOOK_S: Final = 0.05
SECRET: Final = re.compile(rb"bat_(?:pat|agt|key)_[\w-]{8}")
CREDENTIALS: Final = "credentials.json"
# Whatever Python process of the demo asks for anything beyond this machine leaves a line in $ASKED, and is refused.
NO_NETWORK: Final = """
import os, socket
def guarded(name):
    plain = getattr(socket.socket, name)
    def guard(self, address, *rest):
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
        if host not in ("127.0.0.1", "::1", "localhost"):
            with open(os.environ["ASKED"], "a") as asked:
                asked.write(f"{name} {address}\\n")
            raise OSError("there is no network")
        return plain(self, address, *rest)
    setattr(socket.socket, name, guard)
for name in ("connect", "connect_ex"):
    guarded(name)
"""
NO_PROXY: Final = "http://127.0.0.1:9"
"""Nobody listens there: a demo that heeded a proxy would not get to its own server."""
STEPS: Final = (
    r"A repository, a server over an SQLite file, a person, and two agents",
    r"✓ the server listens at http://127\.0\.0\.1:\d+",
    r"✓ 3 tasks are in the queue",
    r"Two workers start at the same moment",
    r"✓ agent-worker-. holds task-describe-\w+ at epoch 1",
    r"✓ agent-worker-. holds task-describe-\w+ at epoch 1",
    r"worker-1 and the supervisor of its run are killed with -9 in the middle of task-describe-\w+",
    r"worker-2's agent goes on with task-describe-\w+",
    r"✓ the run reads resolved, because art-done-describe-\w+-1 resolves task-describe-\w+",
    r"The lease on task-describe-\w+ lapses",
    r"✓ task-describe-\w+ is free again",
    r"✓ worker-2 took task-describe-\w+ over at epoch 2 and resolved it",
    r"worker-1's agent wakes up",
    r"✓ refused: .*epoch 2, not 1",
    r"✓ nothing changed",
    r"worker-1 starts again",
    r"✓ the last agent printed that it is not finished: reported, filed as art-\S+",
    r"What the graph says in the end",
    r"✓ task-describe-\w+: resolved by art-done-describe-\w+",
    r"✓ task-describe-\w+: resolved by art-done-describe-\w+",
    r"✓ task-find-slow-test: not resolved, back in the queue",
    r"✓ no lease of a finished run is left",
    r"Everything happened as told",
)


@dataclass(frozen=True, slots=True)
class Played:
    """How a demo ended: its exit code, what it said, its folder and home, and the command lines seen meanwhile."""

    code: int
    out: str
    err: str
    folder: Path
    home: Path
    commands: frozenset[str]
    asked: str

    def left(self) -> list[psutil.Process]:
        """Return the processes of the story that are still there."""
        return [process for process in psutil.process_iter() if _is_of(process, self.folder)]


def play(place: Path, *argv: str) -> Played:
    """Run `argv` as a demo that plays in ``place/demo``, in an empty home and without a network."""
    folder, home, guard, asked = place / "demo", place / "home", place / "guard", place / "asked"
    for made in (home, guard):
        made.mkdir()
    (guard / "sitecustomize.py").write_text(NO_NETWORK)
    environ = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": str(guard),
        "ASKED": str(asked),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), NO_PROXY),
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE")},
    }
    commands: set[str] = set()
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        demo = subprocess.Popen(
            [*argv, "--folder", str(folder)], cwd=home, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        with demo:
            for _ in range(int(DEMO_S_MAX / LOOK_S)):
                commands |= set(_command_lines(demo.pid, folder))
                with suppress(subprocess.TimeoutExpired):
                    demo.wait(LOOK_S)
                    break
            else:
                demo.kill()
    return Played(
        demo.returncode,
        (place / "out").read_text(),
        (place / "err").read_text(),
        folder,
        home,
        frozenset(commands),
        asked.read_text() if asked.exists() else "",
    )


def _command_lines(pid: int, folder: Path) -> Iterator[str]:
    with suppress(psutil.Error):
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(psutil.Error):
                yield " ".join(process.cmdline())
    for process in psutil.process_iter():
        if _is_of(process, folder):
            with suppress(psutil.Error):
                yield " ".join(process.cmdline())


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Whether a process belongs to the story in `folder`, its strays included."""
    with suppress(psutil.Error):
        return process.environ().get("DEMO") == str(folder)
    return False


@pytest.mark.timeout(DEMO_S_MAX + 30)
def test_the_demo_happens_as_told_in_an_empty_home_and_without_a_network(tmp_path: Path) -> None:
    played = play(tmp_path, sys.executable, "-m", "batonpass", "demo")

    assert (played.code, played.err) == (0, ""), played.out
    assert_told_in_order(played.out)
    assert played.asked == "", "something beyond this machine was asked for"
    assert played.left() == []
    assert list(played.home.iterdir()) == []
    assert {"repository", "baton.db", "agent.sh"} <= {path.name for path in played.folder.iterdir()}
    assert_no_secret_in(played)
    assert_can_be_looked_around_in(played)


def assert_told_in_order(out: str) -> None:
    lines = iter(out.splitlines())
    for step in STEPS:
        assert any(re.search(step, line) for line in lines), f"{step!r} was not told, or not in its place:\n{out}"


def assert_no_secret_in(played: Played) -> None:
    """No token in what was said, in any command line, or in any file but the credentials of its owner alone."""
    said = "\n".join([played.out, played.err, *played.commands]).encode()
    files = [path for path in played.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    holding = {path for path in files if SECRET.search(path.read_bytes())}

    assert len(files) > 50
    for seen in ("batonpass serve", "batonpass work --once", "bash"):
        assert any(seen in command for command in played.commands), f"the watching did not see {seen}"
    assert SECRET.findall(said) == []
    assert {path.name for path in holding} <= {CREDENTIALS}
    assert {path.stat().st_mode & 0o777 for path in holding} <= {0o600}
    assert played.folder.stat().st_mode & 0o777 == 0o700


def assert_can_be_looked_around_in(played: Played) -> None:
    """The commands that the demo ends with work as they are printed."""
    commands = re.findall(r"^  (?:the graph|the commits)\s+(.*)$", played.out, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        shown = subprocess.run(
            ["/bin/sh", "-c", command], env={"PATH": path, "HOME": str(played.home)}, capture_output=True, check=True
        )
        assert b"describe" in shown.stdout, command


# --- a story that goes otherwise --------------------------------------------------------------------------------------

# Plays the demo with another agent, and with less patience, in a process of its own.
OTHERWISE: Final = """
import sys
from pathlib import Path
from batonpass.cli import demo, main
demo.files = lambda _package: Path(sys.argv[1])
demo.STEP_S_MAX = float(sys.argv[2])
demo.LEASE_MS = int(sys.argv[3])
sys.exit(main.main(["demo", *sys.argv[4:]]))
"""
BEGIN: Final = """
touch "$DEMO/started.$BATON_NODE.$BATON_EPOCH"
until [ -e "$DEMO/cue.$BATON_NODE.$BATON_EPOCH" ]; do sleep 0.05; done
"""
FAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "an agent that never begins": (
        "exec sleep 300\n",
        r"somebody begins task-describe-\w+: nothing of the kind within \d+ s",
    ),
    "an agent that says it is done, and no more": (
        BEGIN + 'echo "All done, tests pass."\n',
        r"the run reads reported",
    ),
    "a zombie that is not refused": (
        BEGIN
        + 'code=0; baton add Done --id "art-${BATON_NODE#task-}-$BATON_EPOCH" --type artifact'
        + ' --link "resolves:$BATON_NODE" >"$DEMO/refused.$BATON_NODE.$BATON_EPOCH" 2>&1 || code=0\n'
        + 'echo $code >"$DEMO/code.$BATON_NODE.$BATON_EPOCH"\n',
        r"its write ended with 0",
    ),
}


@pytest.mark.timeout(DEMO_S_MAX + 30)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_that_does_not_happen_as_told_is_named_and_ends_the_demo_with_1(tmp_path: Path, fault: str) -> None:
    script, finding = FAULTS[fault]
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "demo_agent.sh").write_text(f"#!/usr/bin/env bash\n{script}")
    patience_s = 8 if "never" in fault else 20

    played = play(tmp_path, sys.executable, "-c", OTHERWISE, str(agents), str(patience_s), "4000")

    assert played.code == 1, played.out
    assert re.search(f"This did not happen as told: {finding}", played.err), (played.out, played.err)
    assert f"Everything is left in {played.folder}" in played.err
    assert "Everything happened as told" not in played.out
    assert (played.folder / "repository").is_dir()
    assert played.left() == []


# --- a story that is broken off ---------------------------------------------------------------------------------------

DURING: Final[Mapping[str, str]] = {
    "init": "init.out",
    "the wait for the agents": "server.out",
}
"""When the signal comes: as soon as a process has been given this file to write to."""


@pytest.mark.timeout(DEMO_S_MAX)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("during", DURING)
def test_a_signal_ends_the_demo_with_130_and_leaves_no_process(
    tmp_path: Path, during: str, number: signal.Signals
) -> None:
    folder = tmp_path / "demo"
    environ = {**os.environ, "HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "batonpass", "demo", "--folder", str(folder)]
    with subprocess.Popen(argv, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        deadline = time.monotonic() + DEMO_S_MAX / 2
        while not (folder / DURING[during]).exists():
            with suppress(subprocess.TimeoutExpired):
                pytest.fail(f"it ended with {demo.wait(LOOK_S / 10)}")
            assert time.monotonic() < deadline
        demo.send_signal(number)
        _, err = demo.communicate(timeout=DEMO_S_MAX / 2)

    assert (demo.returncode, err.decode()) == (130, f"Interrupted; everything is left in {folder}\n")
    assert [process for process in psutil.process_iter() if _is_of(process, folder)] == []
