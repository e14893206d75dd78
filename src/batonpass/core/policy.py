"""Lease and run policy of a project (D8, D39, D41)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from batonpass.core.clock import micros

PROVISIONAL: Final = timedelta(seconds=60)
"""Horizon of a grant by `queue/next` until its first renewal: a lost answer costs a minute (D15)."""
EVERY_PROJECT: Final = "*"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a project's leases may do. A change touches the next grant only (D8)."""

    claim_ttl: timedelta = timedelta(minutes=45)
    claim_ttl_max: timedelta = timedelta(hours=8)
    reserve_grace: timedelta = timedelta(hours=48)
    lapse_limit: int = 5
    run_limit: int = 10
    max_claims: int = 50
    paused: str | None = None
    """The reason why claims are refused, or None when they are not."""
    agents_may_ready: bool = False

    @property
    def ttl(self) -> int:
        """Return the horizon of an ordinary grant in microseconds: never above the maximum."""
        return micros(min(self.claim_ttl, self.claim_ttl_max))

    @property
    def ttl_max(self) -> int:
        """Return the furthest horizon `extend` may reach, in microseconds."""
        return micros(self.claim_ttl_max)

    @property
    def grace(self) -> int:
        """Return how long a reservation is kept for its holder, in microseconds."""
        return micros(self.reserve_grace)
