"""Lock first, compare, then let the body run: the beginning of every write (D2a, H3).

A read from the statement's snapshot is no check: the lease could be taken
over between the read and our COMMIT, and the late write would appear after
the takeover was answered. So the rows are locked, in one order, and stay
locked to the end.

They are locked for update, not shared: sharers let each other in past
whoever waits to move the row, so a run that writes without pause would keep
its own revocation waiting for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batonpass.core import points
from batonpass.core.errors import FenceBroken
from batonpass.core.fences import fence_broken, working_fence_broken
from batonpass.core.ids import Fence, Instant, Resource
from batonpass.core.leases import LeaseView, LockedLease, view
from batonpass.core.records import is_of_record
from batonpass.store import leases
from batonpass.store.base import Statement, Tx, Writer, as_json, q
from batonpass.store.leases import locked_row

WorkingSet = Mapping[tuple[str, Resource], int]


async def lock_and_compare(tx: Tx, writers: Sequence[Writer], *, along: Sequence[Statement], skip_locked: bool) -> None:
    """Lock the rows of all `writers`, and note in `tx.broken` whose fence does not hold."""
    resources: set[Resource] = set()
    creating: set[Resource] = set()
    for writer in writers:
        resources |= writer.fences.resources(writer.principal)
        creating |= writer.fences.creating
    assert creating <= resources, "a row that is made is one that is changed"
    # In the order of the locks, and before any: who makes a row waits for nobody that holds one.
    leases.create(tx, sorted(creating))
    working = _working_set_query(writers)
    if resources:
        lock = "lock_free" if skip_locked else "lock"
        statements = [q(f"leases.{lock}", resources=as_json(sorted(resources))), *working, *along]
        rows, *rest = await tx.fetch(*statements)
        noted, tx.along = rest[: len(working)], rest[len(working) :]
        tx.locked.update((row.resource, row) for row in map(locked_row, rows))
        await points.areach("lease.locked")
    else:
        noted, tx.along = [], await tx.fetch(*along) if along else []
    acquired = {(token, Resource(resource)): epoch for token, resource, epoch in (noted[0] if noted else ())}
    if skip_locked:
        tx.skipped = frozenset(resources - tx.locked.keys())
    for position, writer in enumerate(writers):
        if (why := _broken(tx.locked, writer, acquired)) is not None:
            tx.broken[position] = why
    await points.areach("fence.checked")


async def refuse_broken(tx: Tx, writer: Writer) -> None:
    """Raise `LeaseLost` for the single writer of a write, naming who holds the resource now."""
    if tx.broken:
        raise lost(tx, 0, writer, await tx.now())


def lost(tx: Tx, position: int, writer: Writer, now: Instant) -> FenceBroken:
    """Return the refusal of a writer whose fence is broken, naming who holds the node at `now`; no record's task."""
    fences = [*writer.fences.named, *([writer.principal.run] if writer.principal.run else [])]
    holder = _present_holder(tx.locked, fences, now)
    return FenceBroken(f"{tx.broken[position]}; nothing was changed", holder=holder)


def _present_holder(locked: Mapping[Resource, LockedLease], fences: Sequence[Fence], now: Instant) -> LeaseView | None:
    for fence in fences:
        lease = locked.get(fence.resource)
        if lease is None or is_of_record(fence.resource):
            continue
        if lease.epoch != fence.epoch and lease.in_force(now):
            return view(lease, now)
    return None


def _working_set_query(writers: Sequence[Writer]) -> list[Statement]:
    tokens = sorted({w.principal.token for w in writers if w.principal.run is not None and w.fences.onto})
    if not tokens:
        return []
    onto = sorted({resource for w in writers for resource in w.fences.onto})
    return [q("leases.working_set", tokens=as_json(tokens), resources=as_json(onto))]


def _broken(locked: Mapping[Resource, LockedLease], writer: Writer, acquired: WorkingSet) -> str | None:
    principal = writer.principal
    fences = writer.fences.named if principal.run is None else (*writer.fences.named, principal.run)
    for fence in fences:
        if (why := fence_broken(locked.get(fence.resource), fence, principal)) is not None:
            return why
    if principal.run is None:
        return None
    for resource in sorted(writer.fences.onto):
        epoch = acquired.get((principal.token, resource))
        if epoch is None:
            continue
        fence = Fence(resource, epoch)
        if (why := working_fence_broken(locked.get(resource), fence, principal.token)) is not None:
            return why
    return None
