"""Items that this worker leaves alone for a while, after something about them went wrong here.

    run failed, launch refused ──cool()──▶ cooling ──retry_after_s later──▶ free again

It is one worker's own memory, on a clock that is never set: another worker may
take the item at once, and a restart forgets. How often an item may be run in
its life is the server's to count (D22).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from batonpass.core.ids import NodeId

RETRY_AFTER: Final = timedelta(minutes=10)
RETRY_AFTER_MAX: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Cold:
    """Why an item is left alone, of which kind that is (`select.Kind`), and until when on the worker's clock."""

    kind: str
    reason: str
    until_s: float


@dataclass(slots=True)
class Cooling:
    """What cools off, each for `retry_after_s` from the moment it is told; 0 leaves nothing alone."""

    retry_after_s: float
    clock: Callable[[], float]
    busy: set[NodeId] = field(default_factory=set)
    """Items whose run is not over on this side, though the graph may have it settled by now."""
    _cold: dict[NodeId, Cold] = field(default_factory=dict)

    def cool(self, item: NodeId, *, kind: str, reason: str) -> None:
        """Leave an item alone from now on; told again, it is counted anew."""
        if self.retry_after_s > 0:
            self._cold[item] = Cold(kind, reason, self.clock() + self.retry_after_s)

    def of(self, item: NodeId) -> Cold | None:
        """Return why an item is left alone now, or None when it is not."""
        if item in self.busy:
            return Cold("leased", "its run here is about to end", math.inf)
        cold = self._cold.get(item)
        if cold is not None and cold.until_s <= self.clock():
            del self._cold[item]
            return None
        return cold

    def soonest_s(self) -> float | None:
        """Return when the first of them is free again, on the worker's clock; None when nothing cools."""
        now_s = self.clock()
        self._cold = {item: cold for item, cold in self._cold.items() if cold.until_s > now_s}
        return min((cold.until_s for cold in self._cold.values()), default=None)
