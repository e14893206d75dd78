"""Time as the rooms see it: a database instant, or a moment a test has set."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from batonpass.core.ids import Instant

MICROS_PER_MS: Final = 1_000
MICROS_PER_S: Final = 1_000_000
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_REMEMBERED: Final = 4096
"""What leaves a server is full of the same few seconds: those of the leases that were just granted or renewed."""


class Clock(Protocol):
    """Where the store's time comes from. Production passes `DatabaseClock`."""

    def moment(self) -> Instant | None:
        """Return the moment to use, or None for the database's own clock."""
        ...


class DatabaseClock:
    """The database decides what time it is; nothing else in the system does."""

    def moment(self) -> Instant | None:
        """Return None: ask the database."""
        return None


def micros(span: timedelta) -> int:
    """Return `span` in whole microseconds."""
    return span // _MICROSECOND


def iso(instant: Instant) -> str:
    """Return `instant` as RFC 3339 with milliseconds and an offset: ``2026-10-01T22:05:36.923+00:00``."""
    second, micros_of_it = divmod(instant, MICROS_PER_S)
    return f"{_iso_second(second)}.{micros_of_it // MICROS_PER_MS:03}+00:00"


def moment(instant: Instant) -> datetime:
    """Return `instant` as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def instant_of(at: datetime) -> Instant:
    """Return an aware datetime as an instant."""
    return Instant(micros(at - _EPOCH))


@functools.lru_cache(maxsize=_SECONDS_REMEMBERED)
def _iso_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat()
