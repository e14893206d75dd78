"""Reads that go on for as long as somebody listens, as an export does: each on a connection of its own, few at a time.

Neither the readers' pool nor the event loop may wait for whoever is slow to
read. So each of these has a connection of its own, which ends with it, and on
SQLite a thread as well (D42). A snapshot that stays open keeps old row
versions in PostgreSQL and the write-ahead log in SQLite from being cleared
away, which is why their number is bounded, and why whoever opens one has to
give up on a listener that has stopped listening.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from batonpass.core.errors import Unavailable

LONG_READS_MAX: Final = 4
"""How many go on at once in one process; the next is told to come back."""
RETRY_AFTER_S: Final = 10


class LongReads:
    """Counts the long reads of one store."""

    def __init__(self) -> None:
        self._going_on = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be one of the few while the block runs; `Unavailable` when there are as many as may be."""
        if self._going_on >= LONG_READS_MAX:
            raise Unavailable(
                f"{LONG_READS_MAX} exports are being read from this server; wait for one to end",
                retry_after_s=RETRY_AFTER_S,
            )
        self._going_on += 1
        try:
            yield
        finally:
            self._going_on -= 1
