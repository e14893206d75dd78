"""Putting a worker together: a graph, a home, a command, and the signals that end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from batonpass.worker import proc, signals
from batonpass.worker.dispatch.launch import Order, Starter
from batonpass.worker.graph import Graph
from batonpass.worker.journal import RunRecord
from batonpass.worker.loop import Worker, tick
from batonpass.worker.settings import Settings


def run_once(
    graph: Graph,
    settings: Settings,
    order: Order,
    *,
    starter: Starter,
    say: Callable[[str], None],
    owns_process: bool = False,
) -> RunRecord | None:
    """Settle what earlier workers left, take the best item there is, and see its run through to its verdict.

    Returns the run's record, or None when there was nothing to take. The work
    is `baton work --once`: it blocks for as long as the run lasts, which is
    followed by a supervisor that `starter` starts. `say` gets lines for a
    person. `owns_process` says that this process does nothing else: it then
    listens to SIGINT and SIGTERM (the first lets the run finish, or nothing
    begin; the second stops the run, the third ends the worker on the spot) and
    to SIGHUP (which stops the run at once). `KeyboardInterrupt` when it was
    told to stop before it took anything. `LaunchRefused` when nothing can be
    launched here; errors of the server are raised as they come.
    """
    order = replace(order, command=proc.located(order.command, order.folder))
    interrupted, stopping = threading.Event(), threading.Event()
    worker = Worker(
        graph,
        settings,
        order,
        now=_now,
        interrupted=interrupted,
        say=say,
        starter=starter,
        stopping=stopping,
    )
    if not owns_process:
        return tick(worker)
    with _signals(stopping, interrupted):
        return tick(worker)


@contextmanager
def _signals(stopping: threading.Event, interrupted: threading.Event) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into: take nothing more, then stop the run, then give up; SIGHUP into the second."""
    count = 0

    def told(number: int) -> None:
        nonlocal count
        # A terminal that goes away may say so twice, and is never a reason to leave a run unsettled.
        count = max(count, 2) if number == signal.SIGHUP else count + 1
        stopping.set()
        if count >= 2:  # noqa: PLR2004 — the second signal
            interrupted.set()
        if count > 2:  # noqa: PLR2004
            raise KeyboardInterrupt

    with signals.heard(told):
        yield


def _now() -> datetime:
    return datetime.now(UTC)
