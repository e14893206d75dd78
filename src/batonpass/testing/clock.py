"""Clocks that tests move by hand; the store reads one in place of the database's."""

from __future__ import annotations

import mmap
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from batonpass.core.clock import micros
from batonpass.core.ids import Instant

START: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
_WORD: Final = struct.Struct("@q")


class ManualClock:
    """Stands still until told to move; may also be set back."""

    def __init__(self, start: datetime = START) -> None:
        self._now = _instant(start)

    def moment(self) -> Instant:
        """Return the moment the clock stands at."""
        return self._now

    def advance(self, span: timedelta) -> Instant:
        """Move by `span`, backwards if it is negative, and return the new moment."""
        self._now = Instant(self._now + micros(span))
        return self._now


class TickingClock:
    """Counts seconds, and goes on by `step_s` at every look."""

    def __init__(self, step_s: float) -> None:
        self._now_s = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        """Return the seconds it has come to."""
        self._now_s += self._step_s
        return self._now_s


class SharedClock:
    """A manual clock in a file: every process that opens `path` reads the same moment, whoever moves it."""

    def __init__(self, path: Path, start: datetime = START) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(_WORD.pack(_instant(start)))
        with path.open("r+b") as file:
            # One aligned word of shared memory: a reader sees the moment before a move or after it, nothing between.
            self._word = mmap.mmap(file.fileno(), _WORD.size)

    def moment(self) -> Instant:
        """Return the moment the clock stands at."""
        (now,) = _WORD.unpack_from(self._word)
        return Instant(now)

    def advance(self, span: timedelta) -> Instant:
        """Move by `span`, backwards if it is negative, and return the new moment. One process moves it at a time."""
        return self.set(Instant(self.moment() + micros(span)))

    def set(self, moment: Instant) -> Instant:
        """Move to `moment` and return it."""
        _WORD.pack_into(self._word, 0, moment)
        return moment


def _instant(moment: datetime) -> Instant:
    return Instant(micros(moment - datetime(1970, 1, 1, tzinfo=UTC)))
