"""Removing what is past its retention. Nothing depends on when, or whether, this runs (D11, D43)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from batonpass.core.clock import micros
from batonpass.core.ids import Instant
from batonpass.core.runs import RUNS_KEPT
from batonpass.server.services.change import REPLIES_KEPT
from batonpass.store import retention
from batonpass.store.base import SYSTEM, Fences, Store, retried
from batonpass.store.retention import Passing

EVENTS_KEPT: Final = timedelta(days=30)
TOKENS_KEPT: Final = timedelta(days=30)
"""How long an ended token can still be listed."""
KEPT: Final[Mapping[Passing, timedelta]] = {
    "replies": REPLIES_KEPT,
    "events": EVENTS_KEPT,
    "working_sets": TOKENS_KEPT,
    "tokens": TOKENS_KEPT,
    "runs": RUNS_KEPT,
}
"""In this order: a token goes after its working set."""
EVERY: Final = timedelta(hours=1)
"""How often a server that goes on looks."""


async def sweep(store: Store, *, record_history: timedelta | None = None) -> None:
    """Remove all that is past its retention, in transactions of a bounded number of rows, so that others come between.

    The histories of records are kept for ever, or for `record_history` (D36).
    It ends: what it looks for only grows as fast as the clock.
    """
    for kind, kept in KEPT.items():
        while not await _remove_some(store, kind, kept):
            pass
    after: Instant | None = Instant(0) if record_history is not None else None
    while record_history is not None and after is not None:
        after = await _remove_history(store, record_history, after)


@retried
async def _remove_some(store: Store, kind: Passing, kept: timedelta) -> bool:
    """Remove some rows of a kind, and return whether those were all."""
    async with store.write(SYSTEM, Fences()) as tx:
        return await retention.remove(tx, kind, before=Instant(await tx.now() - micros(kept)))


@retried
async def _remove_history(store: Store, kept: timedelta, after: Instant) -> Instant | None:
    """Remove some of the histories of records, and return where to go on."""
    async with store.write(SYSTEM, Fences()) as tx:
        return await retention.remove_history(tx, after=after, before=Instant(await tx.now() - micros(kept)))
