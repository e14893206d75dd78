"""What those who wait in line for the queue are told apart by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from batonpass.core.ids import HolderId
from batonpass.store.base import Reader, as_json, q


@dataclass(frozen=True, slots=True)
class Favoured:
    """Who has anything routed to it by hand, and who has reservations, itself or by its agents; live or not."""

    routed: frozenset[HolderId] = frozenset()
    reserving: frozenset[HolderId] = frozenset()

    def __contains__(self, holder: HolderId) -> bool:
        """Whether a holder is either."""
        return holder in self.routed or holder in self.reserving


async def favoured(tx: Reader, holders: Collection[HolderId]) -> Favoured:
    """Return which of `holders` may find what others do not."""
    asked = as_json(list(holders))
    routed, reserving = await tx.fetch(q("lines.routed", holders=asked), q("lines.reserving", holders=asked))
    return Favoured(frozenset(HolderId(row[0]) for row in routed), frozenset(HolderId(row[0]) for row in reserving))
