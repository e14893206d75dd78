"""The calls about leases on nodes, one and many; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Sequence

from batonpass.client.calls import Call, Repeat, post, query_of
from batonpass.core.ids import Fence, NodeId
from batonpass.wire import leases as wire
from batonpass.wire import paths


def claim(
    node: NodeId,
    *,
    session: str | None = None,
    dispatch: str | None = None,
    if_epoch: int | None = None,
    force: bool = False,
) -> Call[wire.LeaseReply]:
    """Take the lease on `node`. With a `dispatch` nonce of its own a launch excludes every other, its twin included."""
    pinned = dispatch is not None or if_epoch is not None
    request = wire.ClaimRequest(session=session, dispatch=dispatch, if_epoch=if_epoch, force=force)
    return post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.SAFE if pinned else Repeat.NEVER)


def take(node: NodeId, *, reason: str, session: str | None = None) -> Call[wire.LeaseReply]:
    """End whatever tenure stands on `node` and claim it in the same step (D41); each sending begins a new tenure."""
    request = wire.ClaimRequest(session=session, take=True, reason=reason)
    return post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.NEVER)


def renew(
    node: NodeId, *, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Move the lease's end away. Without `if_epoch` a free node is claimed, as the protocol has it."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch, reclaim=reclaim)
    return post(paths.fill(paths.RENEW, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def extend(
    node: NodeId, *, ms: int, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Stretch the lease to `ms` milliseconds from now, at most to the policy's maximum."""
    request = wire.ExtendRequest(ms=ms, session=session, if_epoch=if_epoch, reclaim=reclaim)
    return post(paths.fill(paths.EXTEND, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def reserve(node: NodeId, *, if_epoch: int | None = None, session: str | None = None) -> Call[wire.LeaseReply]:
    """Park `node` for its holder. It ends the tenure, so a second sending could only be told that it is over."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch)
    return post(paths.fill(paths.RESERVE, id=node), request, wire.LeaseReply, Repeat.NEVER)


def release(node: NodeId, *, if_epoch: int | None = None, reason: str | None = None) -> Call[wire.ReleaseReply]:
    """Give `node` back; with `if_epoch`, only if that tenure is still the node's."""
    request = wire.ReleaseRequest(if_epoch=if_epoch, reason=reason)
    return post(paths.fill(paths.RELEASE, id=node), request, wire.ReleaseReply, _pinned(if_epoch))


def claim_many(nodes: Sequence[NodeId], *, session: str | None = None) -> Call[wire.BulkClaimReply]:
    """Claim a working set; the reply's `failed` says which did not land, and why."""
    request = wire.BulkClaimRequest(ids=list(nodes), session=session)
    return post(paths.QUEUE_CLAIM, request, wire.BulkClaimReply, Repeat.NEVER)


def renew_many(
    fences: Sequence[Fence], *, session: str | None = None, reclaim: bool = True
) -> Call[wire.BulkRenewReply]:
    """Renew exactly these tenures, one request for all; none is ever acquired anew (D2b)."""
    tenures = [wire.HeldTenure(fence.resource, fence.epoch) for fence in fences]
    request = wire.BulkRenewRequest(leases=tenures, session=session, reclaim=reclaim)
    return post(paths.QUEUE_RENEW, request, wire.BulkRenewReply, Repeat.SAFE)


def renew_held(*, session: str | None = None) -> Call[wire.BulkRenewReply]:
    """Renew every live lease the caller holds, of one session if given; reclaims nothing, leaves reservations."""
    return post(paths.QUEUE_RENEW, wire.BulkRenewRequest(session=session), wire.BulkRenewReply, Repeat.SAFE)


def release_held(*, session: str | None = None, reservations: bool = False) -> Call[wire.BulkReleaseReply]:
    """Give back every live claim the caller holds, of one session if given."""
    request = wire.BulkReleaseRequest(session=session, reservations=reservations)
    return post(paths.QUEUE_RELEASE, request, wire.BulkReleaseReply, Repeat.NEVER)


def leases(
    *,
    holder: str | None = None,
    project: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[wire.LeasesReply]:
    """List who holds what: `state` is live, lapsed or reserved (D41)."""
    query = query_of(holder=holder, project=project, state=state, limit=limit, after=after)
    return Call("GET", paths.LEASES, wire.LeasesReply, query)


def _pinned(if_epoch: int | None) -> Repeat:
    """Return how a verb may be repeated: pinned to a tenure it is idempotent, without it it could acquire."""
    return Repeat.SAFE if if_epoch is not None else Repeat.NEVER
