"""Whether what a write stands on still holds: the fence of a tenure, and a run's working set (D2a, D2b)."""

from __future__ import annotations

from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, TokenHash
from batonpass.core.leases import Lease, may_renew
from batonpass.core.records import identity_of, is_of_record


def fence_broken(lease: Lease | None, fence: Fence, principal: Principal) -> str | None:
    """Return why `fence` does not hold against the locked `lease`, or None when it does (D2a).

    Holding needs the same tenure, not yet ended, by one who may act on it; a
    lapse that nobody used breaks nothing. For a run token it must be the one
    token of that tenure. Of a record's task it is told alike whatever is wrong:
    who has it is for those whom its class lets read it, and no class is known here.
    """
    why = _why_broken(lease, fence, principal)
    if why is not None and is_of_record(fence.resource):
        return not_theirs(fence, principal)
    return why


def not_theirs(fence: Fence, principal: Principal) -> str:
    """Return that a record's task is not `principal`'s, which is all that is told where its class is not asked."""
    return f"{fence.resource} at epoch {fence.epoch} is not, or not any more, {identity_of(principal.id)}'s"


def working_fence_broken(lease: Lease | None, fence: Fence, token: TokenHash) -> str | None:
    """Return why a node of a run's working set is not the run's any more, or None (D2b, H30)."""
    if lease is None or lease.epoch != fence.epoch or not lease.tenure_stands or lease.acquired_under != token:
        return f"{fence.resource} was acquired by this run at epoch {fence.epoch}, and is its no more"
    return None


def _why_broken(lease: Lease | None, fence: Fence, principal: Principal) -> str | None:
    if lease is None:
        return f"there is no lease on {fence.resource}"
    if lease.epoch != fence.epoch:
        why = "somebody acquired it since" if lease.epoch > fence.epoch else "nobody has had that tenure"
        return f"{fence.resource} is at epoch {lease.epoch}, not {fence.epoch}: {why}"
    if not lease.tenure_stands:
        return f"the tenure of {fence.resource} at epoch {fence.epoch} has ended"
    if principal.run == fence and principal.token != lease.run_token:
        return f"this run's token is no longer the one of {fence.resource} at epoch {fence.epoch}"
    if not may_renew(lease, principal):
        return f"{fence.resource} at epoch {fence.epoch} is {lease.holder}'s"
    return None
