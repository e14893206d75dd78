"""Removing what is past its retention. Nothing depends on when, or whether, this runs (D11, D43)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from batonpass.core.clock import micros
from batonpass.core.ids import Instant
from batonpass.server.services.change import RETENTION_US
from batonpass.store import retention
from batonpass.store.base import SYSTEM, Fences, Store, retried

EVENTS_KEPT: Final = timedelta(days=30)
TOKENS_KEPT: Final = timedelta(days=30)
"""How long an ended token can still be listed."""
EVERY: Final = timedelta(hours=1)
"""How often a server that goes on looks."""


@retried
async def sweep(store: Store) -> None:
    """Remove a bounded number of rows of each kind that are past their retention."""
    async with store.write(SYSTEM, Fences()) as tx:
        now = await tx.now()
        retention.remove_replies(tx, before=Instant(now - RETENTION_US))
        retention.remove_events(tx, before=Instant(now - micros(EVENTS_KEPT)))
        retention.remove_tokens(tx, before=Instant(now - micros(TOKENS_KEPT)))
