"""When a field has moved, for somebody who waits for that.

A field moves when it is put, appended to, claimed, taken over or released, and
a task also when its lease *ends by time*: nothing is written then, so nobody
but the clock tells of it. A renewal is no move. It raises the version, so who
names the version before it is answered at once; but who waits already is not
woken by every heartbeat of somebody else, and still hears of the end of that
lease and of every takeover.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.ids import Instant
from batonpass.core.records import FieldName, RecordPath
from batonpass.core.values import value

_EPSILON_S: Final = 0.001
"""A clock that has reached the end of a lease by our timer may lack a little of it by the database's."""


@dataclass(frozen=True, slots=True, order=True)
class FieldAt:
    """Which field, of which record."""

    record: RecordPath
    field: FieldName


@value(frozen=True, slots=True)
class Stand:
    """Where a field was when it was looked at; of a task, the tenure and how long its lease still was in force."""

    version: int
    epoch: int = 0
    tenure: bool = False
    left_us: int = 0

    @property
    def held(self) -> bool:
        """Whether a lease was in force."""
        return self.left_us > 0

    @property
    def left_s(self) -> float:
        """How long after it was looked at time alone may have moved it, in seconds; for ever when it cannot."""
        return self.left_us / MICROS_PER_S + _EPSILON_S if self.held else float("inf")

    def moved_from(self, before: Stand) -> bool:
        """Whether more than a renewal has happened since `before`."""
        if self.tenure and before.tenure:
            return (self.epoch, self.held) != (before.epoch, before.held)
        return self.version != before.version


def held_until(granted_at: Instant, expires_at: Instant, now: Instant) -> Instant:
    """Return when a lease ends, its span moved to begin at `now` if the clock was set back (D5, H26)."""
    return expires_at if now >= granted_at else Instant(now + expires_at - granted_at)
