"""Inboxes: what waits for a person's word, read in one snapshot (companion 3.2).

An agent sees what its person would: whoever it asks for help is who it works for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core.identity import Principal
from batonpass.core.ids import Instant
from batonpass.core.inbox import NOBODY, SHARED, Box
from batonpass.store import inbox
from batonpass.store.base import Reader, Store
from batonpass.store.inbox import Key, Read, Waiting

LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Inbox:
    """Each box with the longest waiting first, and which of them go on beyond what is listed."""

    boxes: Mapping[Box, Sequence[Waiting]]
    truncated: tuple[Box, ...]
    now: Instant


class Inboxes:
    """The inboxes of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, viewer: Principal, *, limit: int = LIMIT_DEFAULT) -> Inbox:
        """Return at most `limit` entries of each box of the viewer's person."""
        async with self._store.read() as tx:
            return await within(tx, viewer, limit=limit)


async def within(tx: Reader, viewer: Principal, *, limit: int = LIMIT_DEFAULT) -> Inbox:
    """Return the same within a snapshot that the caller has."""
    most = min(limit, LIMIT_MAX)
    now = await tx.now()
    found = await inbox.read(tx, [key for box in Box for key in _keys(box, viewer)], most=most)
    boxes: dict[Box, Sequence[Waiting]] = {}
    truncated: list[Box] = []
    for box in Box:
        own = [found[key] for key in _keys(box, viewer)]
        boxes[box], more = _merged(own, most)
        truncated += [box] if more else []
    return Inbox(boxes, tuple(truncated), now)


def _keys(box: Box, viewer: Principal) -> list[Key]:
    own = [(box, viewer.person)] if viewer.person is not None else []
    return [*own, *([(box, NOBODY)] if box in SHARED else [])]


def _merged(parts: Sequence[Read], most: int) -> tuple[Sequence[Waiting], bool]:
    waiting = sorted((each for part in parts for each in part.waiting), key=lambda each: (each.at, each.id))
    return waiting[:most], len(waiting) > most or any(part.more for part in parts)
