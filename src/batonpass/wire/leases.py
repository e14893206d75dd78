"""Lease bodies and replies, exactly as the leases specification has them (D2, D7, D43)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from batonpass.core.clock import MICROS_PER_MS, iso
from batonpass.core.ids import HolderId, Instant, PersonId, Resource
from batonpass.core.leases import Lease, LeaseView, view
from batonpass.wire.schemas import AnyId, Epoch, Label, Span


class LeaseBody(msgspec.Struct, omit_defaults=True):
    """A lease as everybody may see it. `expires` is in milliseconds since 1970."""

    node_id: str
    by: str
    expires: int
    expires_at: str
    epoch: int
    session: str | None
    claimed_at: str | None
    by_name: str | None = None
    owner: str | None = None
    dispatch: str | None = None
    reserved: bool = False


def lease_body(view: LeaseView) -> LeaseBody:
    """Return `view` as it goes over the wire."""
    return LeaseBody(
        node_id=view.node_id,
        by=view.by,
        expires=view.expires_at // MICROS_PER_MS,
        expires_at=iso(view.expires_at),
        epoch=view.epoch,
        session=view.session,
        claimed_at=iso(view.claimed_at) if view.claimed_at is not None else None,
        by_name=view.by_name,
        owner=view.owner,
        dispatch=view.dispatch,
        reserved=view.reserved,
    )


def lease_body_of(lease: Lease, now: Instant) -> LeaseBody:
    """Return a lease that has a holder as it goes over the wire."""
    seen = view(lease, now)
    assert seen is not None, lease
    return lease_body(seen)


def lease_view(body: LeaseBody) -> LeaseView:
    """Return the view a reply carries; instants are cut to milliseconds on the way."""
    return LeaseView(
        node_id=Resource(body.node_id),
        by=HolderId(body.by),
        by_name=body.by_name,
        owner=PersonId(HolderId(body.owner)) if body.owner is not None else None,
        expires_at=Instant(body.expires * MICROS_PER_MS),
        session=body.session,
        dispatch=body.dispatch,
        claimed_at=_instant(body.claimed_at),
        epoch=body.epoch,
        reserved=body.reserved,
    )


def _instant(text: str | None) -> Instant | None:
    return None if text is None else Instant(round(datetime.fromisoformat(text).timestamp() * 1_000_000))


# --- requests --------------------------------------------------------------------------------------------------------


class ClaimRequest(msgspec.Struct):
    """Body of `POST /v1/nodes/{id}/claim`."""

    session: Label | None = None
    dispatch: Label | None = None
    force: bool = False
    if_epoch: Epoch | None = None
    take: bool = False
    reason: str | None = None


class RenewRequest(msgspec.Struct):
    """Body of `POST /v1/nodes/{id}/renew` and `…/reserve`."""

    session: Label | None = None
    if_epoch: Epoch | None = None
    reclaim: bool = True


class ExtendRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/nodes/{id}/extend`; `ms` is a positive number of milliseconds."""

    ms: Span
    session: Label | None = None
    if_epoch: Epoch | None = None
    reclaim: bool = True


class ReleaseRequest(msgspec.Struct):
    """Body of `POST /v1/nodes/{id}/release`; `reason` is an admin's, for somebody else's lease."""

    session: Label | None = None
    if_epoch: Epoch | None = None
    reason: str | None = None


class BulkClaimRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/queue/claim`."""

    ids: list[AnyId]
    session: Label | None = None


class HeldTenure(msgspec.Struct):
    """A tenure to renew: a node and the epoch its holder acquired it at."""

    node_id: AnyId
    epoch: Epoch


class BulkRenewRequest(msgspec.Struct):
    """Body of `POST /v1/queue/renew`: `ids`, or `leases`, or neither to renew what the caller holds."""

    ids: list[AnyId] | None = None
    leases: list[HeldTenure] | None = None
    session: Label | None = None
    reclaim: bool = True


class BulkReleaseRequest(msgspec.Struct):
    """Body of `POST /v1/queue/release`."""

    session: Label | None = None
    reservations: bool = False


# --- replies ---------------------------------------------------------------------------------------------------------


class LeaseReply(msgspec.Struct, omit_defaults=True):
    """Reply of claim, renew, extend and reserve. `expires_in_ms` counts from when the call ran."""

    ok: bool
    status: str
    lease: LeaseBody
    expires_in_ms: int
    edge: str | None = None
    reclaimed: bool = False
    capped_to_max: bool = False
    claim_ttl_max_ms: int | None = None
    grace_window_ms: int | None = None
    took_over_from: str | None = None
    warnings: list[str] = []


class ReleaseReply(msgspec.Struct):
    """Reply of release."""

    node_id: str
    edge: str
    ok: bool = True
    status: str = "released"
    warnings: list[str] | UnsetType = UNSET


class Failed(msgspec.Struct, omit_defaults=True):
    """One item of a bulk call that did not land, and why."""

    node_id: str
    code: str
    message: str
    holder: LeaseBody | None = None


class BulkClaimReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/queue/claim`."""

    ok: bool
    status: Literal["claimed", "partial", "refused"]
    count: int
    claimed: list[str]
    leases: list[LeaseBody]
    failed: list[Failed]
    expires_in_ms: int | None = None


class BulkRenewReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/queue/renew`."""

    ok: bool
    status: Literal["renewed", "partial", "refused"]
    count: int
    renewed: list[str]
    leases: list[LeaseBody]
    failed: list[Failed]
    expires_in_ms: int | None = None
    reclaimed: list[str] | None = None
    skipped_other_session: int | None = None
    skipped_reserved: int | None = None


class BulkReleaseReply(msgspec.Struct):
    """Reply of `POST /v1/queue/release`."""

    released: list[str]
    count: int
    ok: bool = True
    status: str = "released"


class LeaseListed(msgspec.Struct, omit_defaults=True):
    """One row of `GET /v1/leases`."""

    lease: LeaseBody
    state: Literal["live", "lapsed", "reserved"]
    expires_in_ms: int
    project: str | None = None
    title: str | None = None


class LeasesReply(msgspec.Struct):
    """Reply of `GET /v1/leases`; `next` is the `after` of the next page, null at the end."""

    leases: list[LeaseListed]
    count: int
    next: str | None
