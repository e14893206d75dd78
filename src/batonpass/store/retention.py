"""What is kept for a while only: replies for repetition, events, tokens that have ended (D11, D43)."""

from __future__ import annotations

from typing import Final

from batonpass.core.ids import Instant
from batonpass.store.base import Tx, q

ROWS_MAX: Final = 5_000
"""How many rows of a kind one transaction removes, so that nobody waits long for it."""


def remove_replies(tx: Tx, *, before: Instant) -> None:
    """Remove stored replies older than `before`."""
    tx.put(q("retention.replies", before=before, most=ROWS_MAX))


def remove_events(tx: Tx, *, before: Instant) -> None:
    """Remove events older than `before`, the oldest first."""
    tx.put(q("retention.events", before=before, most=ROWS_MAX))


def remove_tokens(tx: Tx, *, before: Instant) -> None:
    """Remove agents' tokens that ended before `before`, with the working sets of their runs."""
    tx.put(q("retention.working_sets", before=before, most=ROWS_MAX))
    tx.put(q("retention.tokens", before=before, most=ROWS_MAX))
