"""Starting processes: the only module that does.

Two kinds. `run` executes a short command to its end and returns what it
printed. `start` begins the child of a run, which may live for hours, start
processes of its own (`worker/crew.py`), and outlive whoever started it.

Output goes straight into files. A pipe would tie the end of a run to the last
stray that holds its other end, and lose what nobody had read when we died. The
prompt is given as an open file for the same reason: no writer, nothing to
block, and no half of a prompt when the writer is killed. Where each line is
acted on as it comes (`start_heard`) it is a pipe after all: a child that is
faster than we are then waits, and one whose listener was killed is told so.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from batonpass.worker.crew import MARK, Crew, Exit, Graces, Identity, identify_child, tell
from batonpass.worker.errors import CalledOff, NotStarted, TimedOut

OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of what a short command prints; the rest is not read."""
HEED_S: Final = 0.1
"""How soon a short command is ended when we are told to stop."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What a short command left behind."""

    code: int
    out: bytes
    err: bytes


def located(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Return the command with a path relative to `folder` made whole, so that it can be run anywhere."""
    if not command or os.sep not in command[0]:
        return command
    return (os.path.normpath(folder / command[0]), *command[1:])


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    stopping: threading.Event | None = None,
) -> Completed:
    """Return what a short command printed and its exit code, which the caller judges.

    The environment is the whole of it. `NotStarted` when it can't be executed;
    `TimedOut`, with its group killed, when it runs too long; `CalledOff`, with
    its group asked to end and then killed, once `stopping` is set.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = _spawn(argv, cwd=cwd, environment=environment, files=(given, out, err))
        try:
            code = process.wait(timeout_s) if stopping is None else _wait(process, timeout_s, stopping)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimedOut(f"{argv[0]} did not end within {timeout_s:g} s") from None
            raise
        return Completed(code, _content(out), _content(err))


def _wait(process: subprocess.Popen[bytes], timeout_s: float, stopping: threading.Event) -> int:
    """Wait for a process, but not when we are told to stop: then its group is asked to end, and `CalledOff` raised."""
    deadline_s = time.monotonic() + timeout_s
    while not stopping.is_set():
        left_s = deadline_s - time.monotonic()
        try:
            return process.wait(min(max(left_s, 0.0), HEED_S))
        except subprocess.TimeoutExpired:
            if left_s <= HEED_S:
                raise
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(Graces().terminate_s)
    raise CalledOff("it was stopped before it had ended")


def converse(argv: Sequence[str]) -> int:
    """Run a program that speaks with the person at this terminal, such as an editor, and return its exit code.

    It has our input, output and environment, and takes what the terminal's keys
    send. `NotStarted` when it can't be executed.
    """
    try:
        return subprocess.run(argv, check=False).returncode
    except (OSError, ValueError) as error:
        raise NotStarted(f"{argv[0]} could not be started: {error}") from error


def start(
    argv: Sequence[str],
    *,
    mark: str,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: str | None,
    stdout: Path,
    stderr: Path,
    adopts: bool = False,
) -> Child:
    """Start a run's child in its own session, its output appended to two files, and return it.

    `stdin` None closes standard input. `mark` is added to the environment.
    `adopts` says that this process is a subreaper and starts nothing else.
    `NotStarted` when it can't be executed.
    """
    marks = [*filter(None, environment.get(MARK, "").split(":")), mark]
    with tempfile.TemporaryFile() as given, _log(stdout) as out, _log(stderr) as err:
        given.write((stdin or "").encode(errors="replace"))
        given.seek(0)
        files = (subprocess.DEVNULL if stdin is None else given, out, err)
        process = _spawn(argv, cwd=cwd, environment={**environment, MARK: ":".join(marks)}, files=files)
    return Child(process, mark=mark, adopts=adopts)


def start_heard(
    argv: Sequence[str],
    *,
    mark: str,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    stderr: IO[bytes],
    adopts: bool = False,
) -> tuple[Child, int]:
    """Start a child as `start` does, but one that is listened to: return it, and where its output is read from.

    That is the reading end of a pipe, which does not block; the caller closes
    it. The child shares `stderr` with us.
    """
    marks = [*filter(None, environment.get(MARK, "").split(":")), mark]
    heard, spoken = os.pipe()
    os.set_blocking(heard, False)
    try:
        with tempfile.TemporaryFile() as given, os.fdopen(spoken, "wb", buffering=0) as out:
            given.write(stdin)
            given.seek(0)
            marked = {**environment, MARK: ":".join(marks)}
            process = _spawn(argv, cwd=cwd, environment=marked, files=(given, out, stderr))
        return Child(process, mark=mark, adopts=adopts), heard
    except BaseException:
        os.close(heard)
        raise


class Detached:
    """A process in a session of its own, which ends when it likes, whatever becomes of us.

    `channel` is a connection to it, whose other end is its standard input.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._end = _End(process)
        self.channel = channel
        self.identity = identify_child(process.pid)

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, having waited for that at most `timeout_s`."""
        return self._end.wait(timeout_s) is not None

    def terminate(self) -> None:
        """Ask it to end; safe when it has."""
        tell(self.identity, signal.SIGTERM)

    def kill(self) -> None:
        """End it on the spot."""
        self._process.kill()
        self._end.wait(None)
        self.channel.close()


def start_detached(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stderr: Path, inherits: tuple[int, ...]
) -> Detached:
    """Start a process in its own session, with a connection to us as its standard input, and return it.

    It keeps the open files `inherits` under their numbers. What it prints as
    errors is appended to `stderr`. `NotStarted` when it can't be executed.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs, _log(stderr) as err, Path(os.devnull).open("wb") as out:
            files = (theirs.fileno(), out, err)
            return Detached(_spawn(argv, cwd=cwd, environment=environment, files=files, inherits=inherits), ours)
    except BaseException:
        ours.close()
        raise


class Child:
    """The child of a run, started by this process."""

    def __init__(self, process: subprocess.Popen[bytes], *, mark: str, adopts: bool) -> None:
        self._end = _End(process)
        self.identity = identify_child(process.pid)
        self.crew = Crew(mark, child=self.identity, adopts=adopts)

    def wait(self, timeout_s: float) -> Exit | None:
        """Return how the child ended, or None when it still runs after `timeout_s`."""
        code = self._end.wait(timeout_s)
        if code is None:
            return None
        return Exit(code) if code >= 0 else Exit(None, _signal_name(-code))

    def stop(self, graces: Graces | None = None) -> frozenset[Identity]:
        """Stop the child and every process of its run; return those that would not die. Safe twice."""
        leftover = self.crew.stop(graces)
        self.wait(0)
        return leftover


class _End:
    """The end of a process that we started: waited for in the kernel, where that can be, and not looked at in turn."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._handle = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None

    def wait(self, timeout_s: float | None) -> int | None:
        """Return the process's code as `subprocess` has it, having buried it; None while it runs after `timeout_s`."""
        if self._handle is not None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                return None
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout_s)
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
            return code
        return None


def _spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    files: tuple[IO[bytes] | int, IO[bytes], IO[bytes]],
    inherits: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = files
    if not cwd.is_dir():
        # Without this the error would name the command, and a fallback could start it somewhere else.
        raise NotStarted(f"{cwd} is not a directory, so {argv[0]} was not started")
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=inherits,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(f"{argv[0]} could not be started: {error}") from error


def _log(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(OUTPUT_BYTES_MAX)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
