"""When leases on items of the queue end: read along the items that are held, not along all leases there ever were."""

from __future__ import annotations

from typing import Final

from batonpass.core.ids import Instant
from batonpass.store.base import Reader, q

PROJECTS_MAX: Final = 1_000
"""How many projects are told apart; when something ended in more of them, it may have been in any."""


async def ended(tx: Reader, *, after: Instant, upto: Instant) -> frozenset[str | None] | None:
    """Return in which projects a lease or a reservation on an item has ended after one moment, up to another.

    None when those are too many to be told apart.
    """
    (rows,) = await tx.fetch(q("moments.ended", after=after, upto=upto, most=PROJECTS_MAX))
    return frozenset(row[0] for row in rows) if len(rows) < PROJECTS_MAX else None


async def next_end(tx: Reader, *, after: Instant) -> Instant | None:
    """Return when the next of them ends, None when nothing is held."""
    ((row,),) = await tx.fetch(q("moments.next", after=after))
    return Instant(row[0]) if row[0] is not None else None
