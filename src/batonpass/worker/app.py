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
from batonpass.worker.pace import Pace
from batonpass.worker.record import RunRecord
from batonpass.worker.settings import Settings
from batonpass.worker.shift import Shift, once
from batonpass.worker.worker import Width, Worker


def assemble(
    graph: Graph, settings: Settings, order: Order, *, starter: Starter, say: Callable[[str], None], pace: Pace
) -> Worker:
    """Return a worker for `order`, whose runs are followed by supervisors that `starter` starts.

    `say` gets lines for a person.
    """
    return Worker(
        graph,
        settings,
        replace(order, command=proc.located(order.command, order.folder)),
        now=_now,
        interrupted=threading.Event(),
        say=say,
        starter=starter,
        width=Width.of(pace.concurrency),
    )


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

    Returns the run's record, or None when there was nothing to take. It blocks
    for as long as the run lasts. `owns_process` says that this process does
    nothing else, and so listens to signals (`heeding`). `KeyboardInterrupt`
    when it was told to stop before it took anything. `LaunchRefused` when
    nothing can be launched here; errors of the server are raised as they come.
    """
    worker = assemble(graph, settings, order, starter=starter, say=say, pace=Pace(once=True))
    if not owns_process:
        return once(worker)
    with heeding(worker):
        return once(worker)


def run(shift: Shift) -> None:
    """Work until a signal ends the shift, or it is over by itself; this process does nothing else."""
    with heeding(shift.worker):
        shift.run()


@contextmanager
def heeding(worker: Worker) -> Iterator[None]:
    """Heed the signals that end a worker.

    The first SIGINT or SIGTERM has it take nothing more and finish its runs,
    or begin none; the second stops them, the third ends this process on the
    spot. SIGHUP, the terminal's going away, leaves its runs to their
    supervisors.
    """
    count = 0

    def told(number: int) -> None:
        nonlocal count
        worker.stopping.set()
        if number == signal.SIGHUP:
            worker.leaving.set()
        else:
            count += 1
        if count >= 2:  # noqa: PLR2004 — the second signal
            worker.interrupted.set()
        worker.tell()
        if count > 2:  # noqa: PLR2004
            raise KeyboardInterrupt

    with signals.heard(told):
        yield


def _now() -> datetime:
    return datetime.now(UTC)
