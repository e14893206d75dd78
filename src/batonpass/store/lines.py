"""What those who wait in line for the queue are told apart by."""

from __future__ import annotations

from collections.abc import Collection

from batonpass.core.ids import HolderId
from batonpass.store.base import Reader, as_json, q


async def routed(tx: Reader, holders: Collection[HolderId]) -> frozenset[HolderId]:
    """Return which of `holders` has anything routed to it by hand, live or not."""
    (rows,) = await tx.fetch(q("lines.routed", holders=as_json(list(holders))))
    return frozenset(HolderId(row[0]) for row in rows)
