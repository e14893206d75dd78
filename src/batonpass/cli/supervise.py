"""`baton supervise`: the supervisor of one run, started by a worker and by nobody else (D21a).

It is in no list of commands. What it is to do comes over its standard input,
with the run's lock; when that is read it is on its own. Started through
`main` without the command line's own machinery, which takes its time to load.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from batonpass.client.client import Client
from batonpass.worker import proc, signals
from batonpass.worker.dispatch.child import Means
from batonpass.worker.dispatch.handover import Handover, Line
from batonpass.worker.journal import RunFolder
from batonpass.worker.oversee import oversee
from batonpass.worker.server_graph import ServerGraph

STDIN: Final = 0


def supervise() -> int:
    """Take over the run that is handed to us, and see it through to its verdict."""
    adopts = proc.become_subreaper()
    stopping = threading.Event()
    with signals.heard(lambda number: None if number == signal.SIGHUP else stopping.set()):
        line = Line(_connection())
        told = line.receive()
        with RunFolder(told.run).handed_over(told.lock) as run, _graph(told) as (graph, child_server):
            means = Means(graph, _now, child_server, stopping, adopts=adopts)
            oversee(means, run, told.errand, answer=line.answer)
    return 0


def _connection() -> socket.socket:
    """Return the connection to our worker, in whose place nothing stands at standard input from now on."""
    channel = socket.socket(fileno=os.dup(STDIN))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    return channel


@contextmanager
def _graph(told: Handover) -> Iterator[tuple[ServerGraph, str]]:
    """Speak as the agent to the server we were told of; without one, serve this machine's own for the child (D37)."""
    if told.server is not None:
        with Client(told.server, told.token) as client:
            yield ServerGraph(client), client.server
        return
    from batonpass.cli.local import serve_local

    with serve_local(told.errand.settings.home) as served, served.inside(as_agent=True) as client:
        yield ServerGraph(client), served.address


def _now() -> datetime:
    return datetime.now(UTC)
