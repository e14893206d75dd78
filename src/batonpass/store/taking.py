"""What a set of `queue/next` calls must know of its callers: what their launches have, and who reserves something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant
from batonpass.store.base import Reader, Row, Statement, as_json, q

Launch = tuple[HolderId, str]
"""A holder and the nonce of one of its launches."""


def launches_locked(launches: Iterable[Launch]) -> Statement:
    """Keep every other `next` of these launches out until COMMIT; goes before `launched_asked`, which then sees all."""
    return q("taking.lock_launches", launches=_pairs(launches))


def launched_asked(launches: Iterable[Launch]) -> Statement:
    """Ask which of these launches have claimed something; see `launched`."""
    return q("taking.launched", launches=_pairs(launches))


def launched(rows: Sequence[Row]) -> frozenset[Launch]:
    """Return the answer to `launched_asked`."""
    return frozenset((HolderId(holder), dispatch) for holder, dispatch in rows)


async def standing(
    tx: Reader, launches: Iterable[Launch], callers: Iterable[Principal], now: Instant
) -> tuple[frozenset[Launch], frozenset[HolderId]]:
    """Return which launches have claimed something, and which callers have reservations of their own in force (D14)."""
    owners = {caller.id: caller.person if caller.is_person else None for caller in callers}
    claimed, reserving = await tx.fetch(
        launched_asked(launches),
        q(
            "taking.reserving",
            holders=as_json(sorted(owners)),
            owners=as_json(sorted(filter(None, owners.values()))),
            now=now,
        ),
    )
    holding = {name for row in reserving for name in row}
    return launched(claimed), frozenset(
        holder for holder, owner in owners.items() if holder in holding or (owner is not None and owner in holding)
    )


def _pairs(launches: Iterable[Launch]) -> str:
    return as_json([{"holder": holder, "dispatch": dispatch} for holder, dispatch in sorted(set(launches)) if dispatch])
