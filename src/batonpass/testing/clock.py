"""A clock that tests move by hand; the store reads it in place of the database's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from batonpass.core.clock import micros
from batonpass.core.ids import Instant

START: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)


class ManualClock:
    """Stands still until told to move; may also be set back."""

    def __init__(self, start: datetime = START) -> None:
        self._now = Instant(micros(start - datetime(1970, 1, 1, tzinfo=UTC)))

    def moment(self) -> Instant:
        """Return the moment the clock stands at."""
        return self._now

    def advance(self, span: timedelta) -> Instant:
        """Move by `span`, backwards if it is negative, and return the new moment."""
        self._now = Instant(self._now + micros(span))
        return self._now
