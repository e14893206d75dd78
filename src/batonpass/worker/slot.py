"""One slot of a worker: a run that is begun and followed on a thread of its own, so that no start holds up the others.

    claimed ─▶ begin (seconds: the supervisor's word) ─▶ follow ─▶ over, told to the worker's `news`

**Who decides what.** The supervisor runs the run. This thread asks it to end
when the worker is told to stop its runs, and finishes a run whose supervisor
died. It is a daemon: a worker that ends at once leaves its runs to their
supervisors.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.launch import Begun, Ground, Launcher, NotLaunched, Order
from batonpass.worker.graph import Taken
from batonpass.worker.journal import HeldRun, RunFolder
from batonpass.worker.reaping import take_up, told
from batonpass.worker.record import RunRecord
from batonpass.worker.worker import Worker

LOOK_S: Final = 0.25
"""How soon a signal to the worker reaches the supervisor of its run."""


class Slot:
    """A run of this worker, from its claim on. `record` is what was last known of it.

    Once `over` is set, `record` is final as far as this worker goes; an
    `error` is what kept it from being begun or read.
    """

    def __init__(self, worker: Worker, run: HeldRun, taken: Taken, *, order: Order, held: ExitStack) -> None:
        self._worker = worker
        self._run = run
        self._taken = taken
        self._order = order
        self._held = held
        self.record: RunRecord = replace(run.read(), node_id=taken.item.id)
        self.item = taken.item
        self.launching = True
        self.over = threading.Event()
        self.error: Exception | None = None

    def start(self, ground: Ground) -> None:
        """Begin the run."""
        threading.Thread(target=self._see_through, args=(ground,), name=f"slot-{self.item.id}", daemon=True).start()

    def _see_through(self, ground: Ground) -> None:
        try:
            begun = self._begin(ground)
            self.launching = False
            self._worker.tell()
            if isinstance(begun, Begun):
                self.record = self._follow(RunFolder(self._run.path), begun)
        except Exception as error:  # noqa: BLE001 — raised again by who looks at the slot
            self.error = error
        finally:
            self.launching = False
            self.over.set()
            self._worker.tell()

    def _begin(self, ground: Ground) -> Begun | NotLaunched:
        worker = self._worker
        launcher = Launcher(worker.graph, worker.settings, worker.now, worker.starter, worker.stopping)
        with self._held:  # the run's lock, which is its supervisor's alone from here on
            begun = launch.begin(launcher, self._run, self._taken, order=self._order, ground=ground)
        self.record = begun.record
        if isinstance(begun, Begun):
            worker.say(f"{begun.record.name}: at work in {begun.record.cwd} (run {begun.record.run_id})")
        return begun

    def _follow(self, run: RunFolder, begun: Begun) -> RunRecord:
        """Wait for the run's supervisor, and finish the run if that died before it had; return the record."""
        told_to_end = False
        while not begun.supervisor.wait(LOOK_S):
            if self._worker.interrupted.is_set() and not told_to_end:
                begun.supervisor.terminate()
                told_to_end = True
        record = run.read()
        died = not record.is_settled and record.pending_for is None
        if died and (taken_up := take_up(self._worker, run)) is not None:
            return taken_up
        return record

    def told(self) -> str:
        """Return in one line for a person how the run ended."""
        return told(self.record)
