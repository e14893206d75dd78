"""What is kept for a while only: replies for repetition, events, tokens that have ended, runs (D11, D43)."""

from __future__ import annotations

from typing import Final, Literal

from batonpass.core.ids import Instant
from batonpass.store.base import Tx, q

ROWS_MAX: Final = 5_000
"""How many rows one transaction removes, so that nobody waits long for it."""

Passing = Literal["replies", "events", "working_sets", "tokens", "runs"]
"""What goes: events the oldest first, agents' tokens that no lease and no working set names, runs with their logs."""


async def remove(tx: Tx, kind: Passing, *, before: Instant) -> bool:
    """Remove what is older than `before`, or ended before it; return False when there may be more of it."""
    (removed,) = await tx.fetch(q(f"retention.{kind}", before=before, most=ROWS_MAX))
    return len(removed) < ROWS_MAX


async def remove_history(tx: Tx, *, after: Instant, before: Instant) -> Instant | None:
    """Remove what was done to records from `after` on and before `before`; return where to go on, None at the end.

    The last entry about each field stays, however old: it says whose word stands.
    """
    (((count, reach),),) = await tx.fetch(q("retention.history_reach", after=after, before=before, most=ROWS_MAX))
    if not count:
        return None
    await tx.fetch(q("retention.history", after=after, reach=reach))
    return Instant(reach + 1) if count == ROWS_MAX else None
