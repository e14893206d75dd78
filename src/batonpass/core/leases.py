"""What a lease is, who may act on one, and what is asked and answered of it (leases specification, D1 to D6).

A lease is *in force* iff the database's clock reads before `expires_at`. A
*tenure* is the time from an acquisition to its end: release, reservation,
revocation, or the next acquisition. `epoch` counts acquisitions and is the
fence. What a request does to a lease, `core.lease_law` decides.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from batonpass.core.errors import (
    Conflict,
    Forbidden,
)
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.policy import Policy
from batonpass.core.records import is_of_record
from batonpass.core.values import value


class Kind(StrEnum):
    """What a lease row holds at present."""

    NONE = "none"
    CLAIM = "claim"
    RESERVATION = "reservation"


@value(frozen=True, slots=True)
class Lease:
    """One lease row as read from the database. Times are database instants.

    `acquired_under` names the run token under which this tenure was acquired
    (a working set, D2b); `run_token` is the one token minted *for* this
    tenure (D2a). `taken_from` is the holder whose lapsed tenure the present
    one displaced, so that its next heartbeat can be told. `provisional`
    marks a grant of `queue/next` that nobody has renewed yet.
    """

    resource: Resource
    kind: Kind
    holder: HolderId | None
    holder_name: str | None
    owner: PersonId | None
    session: str | None
    dispatch: str | None
    epoch: int
    version: int
    claimed_at: Instant | None
    granted_at: Instant | None
    expires_at: Instant | None
    lapses: int
    run_token: TokenHash | None
    acquired_under: TokenHash | None
    taken_from: HolderId | None
    provisional: bool

    def in_force(self, now: Instant) -> bool:
        """Whether somebody holds the resource at `now`."""
        return self.kind is not Kind.NONE and self.expires_at is not None and now < self.expires_at

    @property
    def tenure_stands(self) -> bool:
        """Whether the latest tenure has not ended: claimed, in force or lapsed (D2)."""
        return self.kind is Kind.CLAIM

    def anchored(self, now: Instant) -> Lease:
        """Return this lease with its span moved to begin at `now` if the clock was set back (D5, H26)."""
        if self.granted_at is None or self.expires_at is None or now >= self.granted_at:
            return self
        return replace(self, granted_at=now, expires_at=Instant(now + self.expires_at - self.granted_at))


@value(frozen=True, slots=True)
class LockedLease(Lease):
    """A lease row under this transaction's lock. Made only by the lock statement."""


@value(frozen=True, slots=True)
class LeaseView:
    """What everybody may see of a lease in force or lapsed (D43)."""

    node_id: Resource
    by: HolderId
    by_name: str | None
    owner: PersonId | None
    expires_at: Instant
    session: str | None
    dispatch: str | None
    claimed_at: Instant | None
    epoch: int
    reserved: bool


def view(lease: Lease, now: Instant) -> LeaseView | None:
    """Return the public view of `lease` at `now`, or None when it has no holder."""
    lease = lease.anchored(now)
    if lease.kind is Kind.NONE or lease.holder is None:
        return None
    assert lease.expires_at is not None, lease
    return LeaseView(
        node_id=lease.resource,
        by=lease.holder,
        by_name=lease.holder_name,
        owner=lease.owner,
        expires_at=lease.expires_at,
        session=lease.session,
        dispatch=lease.dispatch,
        claimed_at=lease.claimed_at,
        epoch=lease.epoch,
        reserved=lease.kind is Kind.RESERVATION,
    )


# --- who may ---------------------------------------------------------------------------------------------------------


def may_renew(lease: Lease, principal: Principal) -> bool:
    """Whether `principal` may act on the tenure of `lease` (D1).

    The holder; the person who owns the holding agent; a run token minted for
    this very tenure or under which it was acquired. A run token reaches no
    other lease of its own agent: a sibling run is a stranger (D2b).
    """
    if lease.holder is None:
        return False
    if principal.run is not None:
        return principal.token in (lease.run_token, lease.acquired_under)
    return lease.holder == principal.id or (
        principal.is_person and lease.owner is not None and lease.owner == principal.person
    )


def is_callers(lease: Lease, principal: Principal) -> bool:
    """Whether `lease` is among the leases a verb that enumerates is about (D1, D2b).

    Those the caller holds, and, for an agent whose token is bound to a
    session, its person's leases bound to that session; for a run, what it
    acquired itself.
    """
    if principal.run is not None:
        return principal.token == lease.acquired_under
    return lease.holder == principal.id or (
        principal.is_agent
        and principal.session is not None
        and principal.session == lease.session
        and lease.holder == principal.person
    )


def is_own(lease: Lease, viewer: Principal) -> bool:
    """Whether `lease` counts as `viewer`'s own in the queue: its own, or, for a person, its agents' (D1)."""
    return lease.holder == viewer.id or (viewer.is_person and lease.owner is not None and lease.owner == viewer.person)


# --- requests and answers --------------------------------------------------------------------------------------------


class Verb(StrEnum):
    """The lease verbs; their past tense is the status a reply carries."""

    CLAIM = "claimed"
    RENEW = "renewed"
    EXTEND = "extended"
    RESERVE = "reserved"
    RELEASE = "released"


@value(frozen=True, slots=True)
class Request:
    """One verb on one resource, by one principal.

    `if_epoch` names a tenure: the verb acts on that one or not at all. `force`
    lifts the readiness check of a claim and nothing else; `reason` is an
    admin's, for ending somebody else's tenure. `take` ends whatever tenure
    stands and claims in the same step (`baton take`). `provisional` grants a
    short horizon until the first renewal; `parked_too` lets a release that
    names an epoch end a reservation as well; `enumerated` says that the
    caller named no resource, and this one was found among its own. A release
    that names a `session` drops no claim that is bound to another one.
    """

    principal: Principal
    verb: Verb
    resource: Resource
    session: str | None = None
    dispatch: str | None = None
    if_epoch: int | None = None
    reclaim: bool = True
    extend_us: int = 0
    force: bool = False
    take: bool = False
    reason: str | None = None
    provisional: bool = False
    parked_too: bool = False
    enumerated: bool = False

    @property
    def of_task(self) -> bool:
        """Whether it is about a record's task field, and not a node."""
        return is_of_record(self.resource)

    @property
    def may_acquire(self) -> bool:
        """Whether a tenure may begin with this, or a nonce be spent: only then does the law look at a `Standing`.

        The heartbeat of a run, which names its tenure, never acquires (D2).
        """
        if self.verb is Verb.RELEASE:
            return False
        if self.if_epoch is not None:
            return self.dispatch is not None
        return self.verb is Verb.CLAIM or self.reclaim


@value(frozen=True, slots=True)
class Standing:
    """What else the law needs to know of a request that may acquire, read under the lock; the policy of any.

    `unclaimable` says why the node can't be claimed (resolved, retired), or is
    None; `boundary` names the pipeline that has it. `nonce_used` says whether the request's nonce ever acquired this
    resource. `live_claims` counts the principal's leases in force elsewhere,
    reservations included.
    `left_trace` says whether the lapsed tenure left a report, decline or
    resolver behind (D9); `counts_lapses` is off for targets closed by status.
    """

    policy: Policy
    unclaimable: str | None = None
    boundary: str | None = None
    nonce_used: bool = False
    live_claims: int = 0
    left_trace: bool = False
    counts_lapses: bool = True


class Edge(StrEnum):
    """What happened to the claim's assigned edge, which is a view of the row (D4)."""

    ADDED = "added"
    SKIPPED = "skipped"
    REMOVED = "removed"


class Happened(StrEnum):
    """The event a granted request is recorded as; renewals write none (D15a)."""

    CLAIMED = "lease.claimed"
    EXTENDED = "lease.extended"
    RESERVED = "lease.reserved"
    RELEASED = "lease.released"
    TAKEN_OVER = "lease.taken_over"
    REVOKED = "lease.revoked"


@value(frozen=True, slots=True)
class Granted:
    """The request stands. `lease` is the row to write; it may equal the locked one."""

    lease: LockedLease
    verb: Verb
    edge: Edge = Edge.SKIPPED
    acquired: bool = False
    reclaimed: bool = False
    capped: bool = False
    displaced: HolderId | None = None
    happened: Happened | None = None


@value(frozen=True, slots=True)
class Refused:
    """The request changes nothing. `lease` is the row as it stands, re-anchored if the clock was set back."""

    lease: LockedLease
    error: type[Conflict | Forbidden]
    message: str
    names_holder: bool = False

    def raised(self, now: Instant) -> Conflict | Forbidden:
        """Return the error to raise, naming the holder where there is one to name."""
        if issubclass(self.error, Forbidden):
            return self.error(self.message)
        return self.error(self.message, holder=view(self.lease, now) if self.names_holder else None)


Answer = Granted | Refused
