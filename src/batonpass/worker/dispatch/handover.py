"""Handing a run over to its supervisor: what it is told, over which wire, and what it answers.

    worker ──one line: Handover──▶ supervisor's standard input
    worker ──one more line, perhaps: start no child any more
    worker ◀──one line: the answer─┘ (the same connection; its end says no more than that somebody is gone)

The line carries the agent's own token, which is why it is on no disk, in no
argument and in no environment. The run's lock comes along as an open file.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from batonpass.worker import environment, proc
from batonpass.worker.crew import Identity
from batonpass.worker.dispatch.launch import Answer, Errand, NotStarted, Started
from batonpass.worker.errors import FileDamaged
from batonpass.worker.errors import NotStarted as NoProcess
from batonpass.worker.journal import HeldRun
from batonpass.worker.proc import Detached

VERSION: Final = 1
SEND_S_MAX: Final = 30.0
"""How long a supervisor may take to read what it is told: its own start, on a busy machine."""
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Handover:
    """What a supervisor is told. `server` and `token` are None in local mode, where it serves the server itself.

    `run` is the run's folder and `lock` the number of the open file that holds it.
    """

    run: Path
    lock: int
    server: str | None
    token: str | None
    errand: Errand
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    refused: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ByProcess:
    """Starts supervisors as processes: `baton supervise` of this very installation.

    `server` and `token` are what they speak to and as whom, None in local
    mode. `extra` is added to the environment they run in.
    """

    server: str | None
    token: str | None
    extra: Mapping[str, str] = field(default_factory=dict)

    def start(self, run: HeldRun, errand: Errand) -> SupervisorProcess:
        """Start the supervisor of a run and hand the run over; `NotStarted` of `worker.errors` when that fails."""
        inherited = environment.plain(errand.settings.inherited)
        told = Handover(
            run=run.path,
            lock=run.lock,
            server=self.server,
            token=self.token,
            errand=replace(errand, settings=replace(errand.settings, inherited=inherited)),
        )
        process = proc.start_detached(
            # -P: what lies about in the checkout we stand in is not to be imported.
            [sys.executable, "-P", "-m", "batonpass", "supervise"],
            cwd=Path.cwd(),
            environment={**inherited, **self.extra},
            stderr=run.path / "supervisor.log",
            inherits=(run.lock,),
        )
        process.channel.settimeout(SEND_S_MAX)
        try:
            process.channel.sendall(encode(told) + b"\n")
        except OSError as error:
            process.kill()
            raise NoProcess(f"the run's supervisor did not take the run: {error}") from error
        return SupervisorProcess(process)


class SupervisorProcess:
    """A supervisor in a process of its own."""

    def __init__(self, process: Detached) -> None:
        self._process = process
        self._heard = b""

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        return self._process.identity

    def answer(self, timeout_s: float) -> Answer | None:
        """Return its word on the start, waiting at most `timeout_s`; None while, or when, there is none."""
        deadline_s = time.monotonic() + timeout_s
        while not self._heard.endswith(b"\n") and self._listen(deadline_s):
            pass
        return _answer_of(self._heard) if self._heard.endswith(b"\n") else None

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, waiting at most `timeout_s`."""
        if not self._process.wait(timeout_s):
            return False
        while self._listen(0.0):  # what it said before it ended
            pass
        self._process.channel.close()
        return True

    def _listen(self, deadline_s: float) -> bool:
        """Take in what has come, and return whether there may be more before the deadline."""
        left_s = max(deadline_s - time.monotonic(), 0.0)
        try:
            self._process.channel.settimeout(left_s)
            chunk = self._process.channel.recv(CHUNK)
        except OSError:
            return False
        if not chunk:
            self._process.wait(left_s)
        self._heard += chunk
        return bool(chunk)

    def call_off(self) -> None:
        """Have it start no child any more; one that is at work already goes on. Safe when it has ended."""
        with suppress(OSError):
            self._process.channel.sendall(b"\n")

    def terminate(self) -> None:
        """Have it stop its child, settle the run and end; safe when it has ended."""
        self._process.terminate()


class Line:
    """A supervisor's end of the connection to its worker."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def receive(self) -> Handover:
        """Return what the worker hands over; `FileDamaged` when it died on the way, or speaks another version."""
        told = bytearray()
        self._channel.settimeout(SEND_S_MAX)
        while not told.endswith(b"\n"):
            chunk = self._channel.recv(CHUNK)
            if not chunk or len(told) > LINE_BYTES_MAX:
                raise FileDamaged(Path("/dev/stdin"))
            told += chunk
        return decode(bytes(told))

    def called_off(self) -> bool:
        """Whether the worker, which has no answer yet, asks for no child to be started; one that is gone does not."""
        self._channel.settimeout(0.0)
        try:
            return bool(self._channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False
        finally:
            self._channel.settimeout(SEND_S_MAX)

    def answer(self, answer: Answer) -> None:
        """Tell the worker how the start went; a worker that is gone does not matter."""
        reply = _Reply(refused=answer.why if isinstance(answer, NotStarted) else None)
        with suppress(OSError):
            self._channel.sendall(msgspec.json.encode(reply) + b"\n")
        self._channel.close()


def encode(told: Handover) -> bytes:
    """Return what is handed over as one line, without its line feed."""
    return msgspec.json.encode(told, enc_hook=_encoded)


def decode(line: bytes) -> Handover:
    """Return what is handed over; `FileDamaged` when it is something else."""
    try:
        return msgspec.json.decode(line, type=Handover, dec_hook=_decoded)
    except msgspec.MsgspecError as error:
        raise FileDamaged(Path("/dev/stdin")) from error


def _answer_of(line: bytes) -> Answer:
    refused = msgspec.json.decode(line, type=_Reply).refused
    return Started() if refused is None else NotStarted(refused)


def _encoded(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decoded(kind: type, value: object) -> object:
    if issubclass(kind, Path):
        return Path(str(value))
    if kind is object:  # a harness as the box describes it, which is whatever JSON its configuration holds
        return value
    raise NotImplementedError(kind)
