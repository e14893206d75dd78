"""Who waits for events is told that there are some: here, and in other processes over the same database (D15a).

A bell says *look*, never what there is to see, and it may ring for nothing.
It is rung after COMMIT: a NOTIFY inside the transaction would make all commits
wait for each other. Ringing is a hint that may get lost on its way, so whoever
hears it also looks by itself, every `silence_s_max` seconds.

Nothing runs while nobody listens, but for the telling of other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from batonpass.store.endings import ended

Heard = Callable[[], None]

LOOK_S: Final = 1.0
"""How long a listener trusts silence, in seconds."""
LOOK_DEAF_S: Final = 0.05
"""The same where other processes can't be heard."""


class Bell:
    """Rings within this process. A database adds how other processes are told, and heard."""

    def __init__(self) -> None:
        self._hearers: list[Heard] = []
        self._closers: list[Heard] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None

    @property
    def silence_s_max(self) -> float:
        """How long silence may be trusted, in seconds."""
        return LOOK_S

    def ring(self) -> None:
        """Say that events have been committed by this process; called after COMMIT has returned."""
        self._call()

    @contextmanager
    def heard(self, action: Heard) -> Iterator[None]:
        """Call `action` on the event loop whenever there may be events, from anywhere, while the block runs."""
        self._hearers.append(action)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="listen for events")
        try:
            yield
        finally:
            self._hearers.remove(action)
            if not self._hearers and self._listening is not None:
                self._listening.cancel()
                self._keep(self._listening)
                self._keep(asyncio.create_task(ended([self._listening]), name="end listening"))
                self._listening = None

    def when_closed(self, action: Heard) -> None:
        """Call `action` when the database is about to be closed."""
        self._closers.append(action)

    async def close(self) -> None:
        """Tell who waits that it is over, and let go of what this bell holds; safe twice."""
        for action in self._closers:
            action()
        self._closers.clear()
        listening = [self._listening] if self._listening is not None else []
        self._listening = None
        await ended([*listening, *self._tasks])

    async def _listen(self) -> None:
        """Call `_call` whenever another process has committed events, until cancelled."""

    def _call(self) -> None:
        for action in self._hearers:
            action()

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task until it is done: the event loop alone would forget it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
