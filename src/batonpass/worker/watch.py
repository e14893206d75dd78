"""Hearing of what changes while a worker waits: the queue, and the signals that end it."""

from __future__ import annotations

import threading

from batonpass.core.errors import BatonError
from batonpass.worker.worker import Worker


class Watch:
    """One question to the server, on a thread of its own: whether the queue has changed after a position.

    It asks again while nothing has, and tells the worker when something has or
    there was no answer. The thread is a daemon and holds nothing: a worker that
    ends does not wait for it.
    """

    def __init__(self, worker: Worker, seq: str) -> None:
        self._worker = worker
        self._seq = seq
        self._forgotten = threading.Event()
        self.answered = threading.Event()
        self.error: BatonError | None = None

    def start(self) -> None:
        """Begin to wait."""
        threading.Thread(target=self._wait, name="queue-watch", daemon=True).start()

    def forget(self) -> None:
        """Tell nobody any more."""
        self._forgotten.set()

    def _wait(self) -> None:
        worker = self._worker
        try:
            while not self._forgotten.is_set():
                seq = worker.graph.wait(
                    project=worker.order.project, after=self._seq, wait_s=worker.settings.queue_wait_s
                )
                if seq != self._seq:
                    break
        except BatonError as error:
            self.error = error
        except Exception:  # noqa: BLE001 — the client was closed under it: nobody is waiting for this answer
            return
        if not self._forgotten.is_set():
            self.answered.set()
            worker.tell()


class Notice:
    """What a person hears of the signals that came while runs are followed, each once.

    The signal may have come in the middle of a line that was being printed, so
    the one who heard it only leaves a mark, and this speaks of it in its turn.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._told_first = self._told_second = False

    def look(self, runs: int) -> None:
        """Say what is new, while `runs` runs are on their way."""
        what, it, verb = ("the run", "it", "is") if runs == 1 else (f"the {runs} runs", "them", "are")
        worker = self._worker
        if worker.interrupted.is_set():
            if not self._told_second:
                self._told_first = self._told_second = True
                worker.say(f"stopping {what} and settling {it}; once more to leave {it} to the next start")
        elif worker.stopping.is_set() and not self._told_first:
            self._told_first = True
            worker.say(f"{what} {verb} finished first; once more to stop {it}")
