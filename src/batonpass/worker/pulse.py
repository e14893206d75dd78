"""Telling the server now and then that this machine is there, where it has told what it can run (companion 7.4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from batonpass.core.errors import BatonError, NotFound

EVERY_S: Final = 300.0


@dataclass(slots=True)
class Pulse:
    """Beats at most every `EVERY_S`, on a thread of its own, so that nothing waits for it.

    `beat` tells the server; `NotFound` means that nothing was published, and
    it is left alone from then on. Any other error is one beat that is missed.
    """

    beat: Callable[[], object]
    clock: Callable[[], float]
    _due_s: float = float("-inf")
    _published: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Begin in the belief that something was published."""
        self._published.set()

    def note(self) -> threading.Thread | None:
        """Beat if it is time to; return the thread that does, if there is one."""
        if not self._published.is_set() or self.clock() < self._due_s:
            return None
        self._due_s = self.clock() + EVERY_S
        thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        thread.start()
        return thread

    def _beat(self) -> None:
        try:
            self.beat()
        except NotFound:
            self._published.clear()
        except BatonError:
            pass
        except Exception:  # noqa: BLE001 — the client was closed under it: this worker ends
            return
