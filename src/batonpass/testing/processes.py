"""Real server processes over a database of the test's: started, paused, killed with -9, started again.

    with server_process(url, clock=clock) as server:
        server.kill()                                   # as kill -9 does
        with server_process(url, clock=clock, port=server.port): ...

The process is ``python -m batonpass.testing.server``: the application as it is
served in production, by the same HTTP server, with a clock the test moves and
points it arms (`batonpass.testing.points`). It ends with the test process,
however that ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batonpass.testing.clock import SharedClock
from batonpass.testing.crew import Gathered
from batonpass.testing.points import environment

STOP_S_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server in a process of its own, listening on 127.0.0.1."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Return the base URL to send requests to."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End the process as kill -9 does; safe twice."""
        self.process.kill()
        self.process.wait(STOP_S_MAX)

    def stop(self) -> None:
        """Freeze the process, as a suspended machine does."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self.process.send_signal(signal.SIGCONT)

    def died(self) -> int:
        """Wait until the process has ended by itself, at a point armed to kill it say, and return its exit status."""
        return self.process.wait(STOP_S_MAX)


@dataclass(frozen=True, slots=True)
class Site:
    """Servers over one database with the crew in it, and the clock they share."""

    gathered: Gathered
    clock: SharedClock
    servers: tuple[ServerProcess, ...]


@contextmanager
def site_of(gathered: Gathered, folder: Path, *, servers: int) -> Iterator[Site]:
    """Serve `gathered` from `servers` processes; their clock is a file in `folder`."""
    clock = SharedClock(folder / "clock")
    with ExitStack() as stack:
        running = [stack.enter_context(server_process(gathered.url, clock=clock)) for _ in range(servers)]
        yield Site(gathered, clock, tuple(running))


@contextmanager
def server_process(
    url: str, *, clock: SharedClock | None = None, points: str = "", port: int = 0
) -> Iterator[ServerProcess]:
    """Serve the database at `url` until the end of the block; `port` 0 is any free one.

    Without a `clock` the database's own is used. `points` is what to arm, see
    `batonpass.testing.points`.
    """
    argv = [sys.executable, "-m", "batonpass.testing.server", "--db", url, "--port", str(port)]
    if clock is not None:
        argv += ["--clock", str(clock.path)]
    with ExitStack() as stack:
        process = stack.enter_context(
            # Its standard input is never written: reaching its end tells the process that the test is over.
            subprocess.Popen(argv, env=environment(points), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        stack.callback(_end, process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with status {process.wait(STOP_S_MAX)} before it listened")
        yield ServerProcess(json.loads(line)["port"], process)


def wait_gone(pid: int, *, seconds_max: float) -> None:
    """Wait until a process that need not be our child has ended with the last of its threads: that holds its locks."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(seconds_max * 1000), f"process {pid} goes on"
        finally:
            os.close(handle)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to stop, and make it when it does not."""
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
