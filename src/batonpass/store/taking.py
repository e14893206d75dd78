"""What `queue/next` must know of its callers: what their launches have claimed, and who has reserved something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, NodeId, PersonId, Resource
from batonpass.core.leases import LockedLease
from batonpass.store import queue
from batonpass.store.base import Retry, Row, Statement, Tx, as_json, q

Launch = tuple[HolderId, str]
"""A holder and the nonce of one of its launches."""


def launches_locked(launches: Iterable[Launch]) -> Statement:
    """Keep every other `next` of these launches out until COMMIT; goes before `launched_asked`, which then sees all."""
    return q("taking.lock_launches", launches=_pairs(launches))


def launched_asked(launches: Iterable[Launch]) -> Statement:
    """Ask what these launches have claimed, as committed, so outside a write a hint; see `launched`."""
    return q("taking.launched", launches=_pairs(launches))


def launched(rows: Sequence[Row]) -> dict[Launch, Resource]:
    """Return the answer to `launched_asked`; a launch that has claimed nothing is absent."""
    return {(HolderId(holder), dispatch): Resource(resource) for holder, dispatch, resource in reversed(rows)}


async def lock_launch(tx: Tx, launch: Launch) -> LockedLease | None:
    """Keep every other `next` of this launch out until COMMIT, and return the lease it has already, locked, or None."""
    # Two statements: what the other one claimed is not in the snapshot of the statement that waited for it.
    _, rows = await tx.fetch(launches_locked([launch]), launched_asked([launch]))
    resource = launched(rows).get(launch)
    if resource is None:
        return None
    # Not waited for: whoever has it locked may be waiting for this launch (D44).
    lease = await queue.pick(tx, [NodeId(resource)])
    if lease is None:
        raise Retry(f"{resource} is being changed at this moment; nothing was changed")
    # It may have been released, or even acquired by somebody else, since it was read.
    return lease if (lease.holder, lease.dispatch) == launch else None


def reserving_asked(callers: Iterable[Principal]) -> Statement:
    """Ask which reservations callers have; see `reserving`."""
    owners = _owners(callers)
    return q("taking.reserving", holders=as_json(sorted(owners)), owners=as_json(sorted(filter(None, owners.values()))))


def reserving(rows: Sequence[Row], callers: Iterable[Principal], now: Instant) -> frozenset[HolderId]:
    """Return which callers have reservations of their own in force, from the answer to `reserving_asked` (D14)."""
    holding = {name for *names, until in rows if until > now for name in names}
    return frozenset(
        holder
        for holder, owner in _owners(callers).items()
        if holder in holding or (owner is not None and owner in holding)
    )


def _owners(callers: Iterable[Principal]) -> dict[HolderId, PersonId | None]:
    return {caller.id: caller.person if caller.is_person else None for caller in callers}


def _pairs(launches: Iterable[Launch]) -> str:
    return as_json([{"holder": holder, "dispatch": dispatch} for holder, dispatch in sorted(set(launches)) if dispatch])
