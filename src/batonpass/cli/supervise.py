"""`baton supervise`: the supervisor of one run, started by a worker and by nobody else (D21a).

It is in no list of commands. What it is to do comes over its standard input,
with the run's lock; when that is read it is on its own. Started through
`main` without the command line's own machinery, which takes its time to load.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from batonpass.cli.exits import Exit
from batonpass.client.client import ONCE, Client
from batonpass.core.ids import Fence, NodeId
from batonpass.worker import signals
from batonpass.worker.crew import become_subreaper
from batonpass.worker.dispatch.child import Means
from batonpass.worker.dispatch.handover import Handover, Line
from batonpass.worker.graph import RunToken
from batonpass.worker.journal import RunFolder
from batonpass.worker.oversee import oversee
from batonpass.worker.server_graph import ServerGraph

STDIN: Final = 0


def supervise() -> int:
    """Take over the run that is handed to us, and see it through to its verdict; 2 where nobody hands us one."""
    if not stat.S_ISSOCK(os.fstat(STDIN).st_mode):
        sys.stderr.write("baton: supervise is for baton work and baton dispatch to start, which hand it a run\n")
        return Exit.USAGE
    adopts = become_subreaper()
    stopping = threading.Event()
    with signals.heard(lambda number: None if number == signal.SIGHUP else stopping.set()):
        line = Line(_connection())
        told = line.receive()
        with RunFolder(told.run).handed_over(told.lock) as run, _graph(told) as (graph, child_server):
            bind = partial(_bind, child_server)
            means = Means(graph, _now, child_server, stopping, called_off=line.called_off, adopts=adopts, bind=bind)
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

    # A run about no item has no tenure, and so needs a token that only the person may have made (D2a).
    as_agent = told.errand.taken is not None
    with serve_local(told.errand.settings.home) as served, served.inside(as_agent=as_agent) as client:
        yield ServerGraph(client), served.address


def _bind(server: str, token: RunToken, fence: Fence | None, session: str) -> None:
    """Bind the run's token to the session of its agent program, and let the lease show it."""
    with Client(server, token.secret, patience=ONCE) as client:
        client.bind_session(session)
        if fence is not None:
            client.renew(NodeId(fence.resource), if_epoch=fence.epoch, session=session)


def _now() -> datetime:
    return datetime.now(UTC)
