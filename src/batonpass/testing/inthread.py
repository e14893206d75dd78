"""Supervisors as threads of the test's own process: with its graph, its clocks and its armed points.

What is handed over goes through the same bytes as between processes, and the
run's lock is handed on as it is there. Only the process is missing.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from batonpass.worker.crew import Identity, identify_self
from batonpass.worker.dispatch.child import Means
from batonpass.worker.dispatch.handover import Handover, decode, encode
from batonpass.worker.dispatch.launch import Answer, Errand
from batonpass.worker.graph import Graph
from batonpass.worker.journal import HeldRun, RunFolder
from batonpass.worker.oversee import oversee


class InThread:
    """Starts supervisors as threads. `child_server` is what children are told, `clock` what counts their deadlines.

    `sessions` are those that runs were bound to.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        child_server: str | None = None,
    ) -> None:
        self.graph = graph
        self.now = now
        self.clock = clock
        self.child_server = child_server or graph.server
        self.started: list[SupervisorThread] = []
        self.sessions: list[str] = []

    def start(self, run: HeldRun, errand: Errand) -> SupervisorThread:
        """Start the supervisor of a run and hand the run over."""
        lock = os.dup(run.lock)
        told = decode(encode(Handover(run=run.path, lock=lock, server=None, token=None, errand=errand)))
        supervisor = SupervisorThread(self, told)
        self.started.append(supervisor)
        supervisor.begin()
        return supervisor


class SupervisorThread:
    """A supervisor that is a thread; `error` is what it died of."""

    def __init__(self, means: InThread, told: Handover) -> None:
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.told_to_end = threading.Event()
        self.called_off = threading.Event()
        self._told = told
        self._starter = means
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._oversee, name="supervisor")

    def begin(self) -> None:
        """Begin to oversee the run."""
        self._thread.start()

    @property
    def identity(self) -> Identity:
        """Which process it is: ours."""
        return identify_self()

    def answer(self, timeout_s: float) -> Answer | None:
        """Return its word on the start, waiting at most `timeout_s`; None while, or when, there is none."""
        with suppress(queue.Empty):
            return self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        return None

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, waiting at most `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def call_off(self) -> None:
        """Have it start no child any more."""
        self.called_off.set()

    def terminate(self) -> None:
        """Have it stop its child, settle the run and end."""
        self.told_to_end.set()

    def _oversee(self) -> None:
        starter, told = self._starter, self._told
        means = Means(
            starter.graph,
            starter.now,
            starter.child_server,
            self.told_to_end,
            self.called_off.is_set,
            bind=lambda _token, _fence, session: starter.sessions.append(session),
        )
        try:
            with RunFolder(told.run).handed_over(told.lock) as run:
                oversee(means, run, told.errand, answer=self._answers.put, clock=starter.clock)
        except BaseException as error:  # noqa: BLE001 — a process would end with a trace; the test looks here
            self.error = error
