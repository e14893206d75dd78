"""The law of leases: who holds a resource after a request, and why (leases specification, D1 to D9).

One law for everything that can be held. A lease is *in force* iff the
database's clock reads before `expires_at`. A *tenure* is the time from an
acquisition to its end: release, reservation, revocation, or the next
acquisition. `epoch` counts acquisitions and is the fence; a lapse ends
nothing, so a tenure that only lapsed, and that nobody has followed, can be
*resumed* by whoever names its epoch.

    free ──claim──▶ claimed ──release──▶ free
      ▲               │  ▲ │
      │            lapse │ └──reserve──▶ reserved ──grace over──▶ free to all
      │               ▼  │ resume                   └─claim by its owner─▶ claimed (new epoch)
      └── taken over ─ lapsed

The task field of a record (D32 to D34) is a lease like any other, without
policy: how long it is for, its class or the request says. Three things of it
differ, because nobody ever mistakes a record for its own. A claim of what one
has moves nothing; a renewal resumes what has lapsed, named or not; and
whoever releases somebody else's lapsed task has taken it over and given it
back, in one step.

`decide` takes one request and the row as it was *locked*, and returns
`Granted` or `Refused`, never raises and never reads a clock. Only rows from
the lock statement are `LockedLease`, so deciding on a stale read does not
type-check.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final, assert_never

from batonpass.core.clock import iso, micros
from batonpass.core.errors import (
    AlreadyClaimed,
    Conflict,
    ExecutionBoundary,
    Forbidden,
    LeaseLost,
    NotReady,
    Paused,
    TooManyClaims,
)
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.policy import PROVISIONAL, Policy
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


def decide(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    """Say what `request` does to `lease` at `now`. Pure; the caller holds the row's lock."""
    lease = _anchored(lease, now)
    match request.verb:
        case Verb.CLAIM:
            return _decide_claim(lease, request, standing, now)
        case Verb.RENEW | Verb.EXTEND | Verb.RESERVE:
            return _decide_hold(lease, request, standing, now)
        case Verb.RELEASE:
            return _decide_release(lease, request, now)
        case _:
            assert_never(request.verb)


def _decide_claim(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    if request.if_epoch is not None:
        return _on_tenure(lease, request, standing, now)
    live = lease.in_force(now)
    allowed = _may_take(lease, request) if request.take else may_renew(lease, request.principal)
    if live and not allowed:
        return _held(lease)
    if live and request.of_task:
        return Granted(lease, Verb.CLAIM)
    if lease.kind is Kind.CLAIM and _same_launch(lease, request):
        return _renewed(lease, request, standing.policy, now)
    if (refusal := _nonce_spent(lease, request, standing)) is not None:
        return refusal
    if live and lease.kind is Kind.CLAIM and not request.take:
        return _reattached(lease, request, standing.policy, now)
    return _acquired(lease, request, standing, now)


def _may_take(lease: LockedLease, request: Request) -> bool:
    """Whether the caller may end the tenure that stands: its holder, who owns that, or an admin who says why (D41)."""
    principal = request.principal
    owns = principal.is_person and is_own(lease, principal)
    return owns or _may_revoke(request) or (principal.run is None and lease.holder == principal.id)


def _same_launch(lease: LockedLease, request: Request) -> bool:
    """Whether this claim is a repetition by the launch that holds the tenure: its nonce, or its run token (D6)."""
    principal = request.principal
    if principal.run is not None:
        return principal.token in (lease.run_token, lease.acquired_under)
    return request.dispatch is not None and request.dispatch == lease.dispatch and may_renew(lease, principal)


def _nonce_spent(lease: LockedLease, request: Request, standing: Standing) -> Refused | None:
    """Refuse a nonce that has acquired this resource before and is not its present tenure's: once, ever (D6, H23)."""
    if request.dispatch is None or not standing.nonce_used:
        return None
    return Refused(
        lease,
        Conflict,
        f"the dispatch nonce {request.dispatch} has already acquired {lease.resource} once; use a fresh one",
    )


def _reattached(lease: LockedLease, request: Request, policy: Policy, now: Instant) -> Answer:
    """A claim on a live tenure the caller may renew: a renewal, unless another launch's nonce says otherwise (D6)."""
    if request.dispatch is None:
        return _renewed(lease, request, policy, now)
    if lease.dispatch is None:
        return _renewed(replace(lease, dispatch=request.dispatch), request, policy, now)
    return Refused(
        lease,
        AlreadyClaimed,
        f"{_holding(lease)} by another launch (dispatch nonce {lease.dispatch}); start nothing",
        names_holder=True,
    )


def _decide_hold(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    """renew, extend and reserve: on the tenure named, on one's live lease, or on a free node (auto-reclaim)."""
    if request.verb is Verb.RESERVE and (refusal := _not_the_runs_to_end(lease, request, now)) is not None:
        return refusal
    if request.if_epoch is not None:
        return _on_tenure(lease, request, standing, now)
    if lease.in_force(now):
        if not may_renew(lease, request.principal):
            return _held(lease) if request.of_task else _lost(lease, now)
        if lease.kind is Kind.CLAIM or request.verb is Verb.RESERVE:
            return _renewed(lease, request, standing.policy, now)
        # Taking up a reservation acquires: a heartbeat that may not reclaim leaves it parked, however late (H10).
        return _acquired(lease, request, standing, now) if request.reclaim else _lost(lease, now)
    if lease.kind is Kind.CLAIM and _resumes(lease, request) and request.reclaim:
        return _renewed(lease, request, standing.policy, now)
    if not request.reclaim:
        return _lost(lease, now)
    return _acquired(lease, request, standing, now)


def _resumes(lease: LockedLease, request: Request) -> bool:
    """Whether a renewal that names no tenure carries on the one that has lapsed: a run's own, or of a task (D34)."""
    return may_renew(lease, request.principal) if request.of_task else _same_launch(lease, request)


def _on_tenure(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    """Act on the tenure named by `if_epoch`, or not at all; never acquire (D2)."""
    if lease.epoch != request.if_epoch or not lease.tenure_stands:
        return _lost(lease, now)
    if not _may_act(lease, request):
        return _lost(lease, now)
    if not lease.in_force(now) and not request.reclaim:
        return _lost(lease, now)
    if request.of_task and request.verb is Verb.CLAIM and lease.in_force(now):
        return Granted(lease, Verb.CLAIM)
    if request.dispatch is None or _same_launch(lease, request):
        return _renewed(lease, request, standing.policy, now)
    return _nonce_spent(lease, request, standing) or _reattached(lease, request, standing.policy, now)


def _decide_release(lease: LockedLease, request: Request, now: Instant) -> Answer:
    if request.if_epoch is not None and lease.epoch != request.if_epoch:
        return _lost(lease, now)
    ended = not lease.tenure_stands and not request.parked_too
    if lease.kind is Kind.NONE or (request.if_epoch is not None and ended):
        return Granted(lease, Verb.RELEASE)
    if (refusal := _not_the_runs_to_end(lease, request, now)) is not None:
        return refusal
    if _may_act(lease, request) or _may_revoke(request):
        # A caller that says which session's claim it drops, drops no other's.
        if request.session is not None and lease.session not in (None, request.session):
            why = f"{lease.resource} is held under the session {lease.session}, not {request.session}"
            return Refused(lease, LeaseLost, why, names_holder=lease.in_force(now))
        lapsed_on_another = lease.holder != request.principal.id and not lease.in_force(now)
        return _cleared(lease) if request.of_task and lapsed_on_another else _released(lease, request)
    if lease.in_force(now):
        return _held(lease)
    if request.if_epoch is not None:
        return _lost(lease, now)
    return _cleared(lease) if request.of_task else Granted(lease, Verb.RELEASE)


def _may_revoke(request: Request) -> bool:
    return request.principal.is_admin and request.principal.is_person and bool(request.reason)


def _may_act(lease: LockedLease, request: Request) -> bool:
    return may_renew(lease, request.principal) or (request.enumerated and is_callers(lease, request.principal))


def _not_the_runs_to_end(lease: LockedLease, request: Request, now: Instant) -> Refused | None:
    """Refuse a run token that would end a tenure its own run did not acquire (D2b, H7); a rival's is named as such."""
    principal = request.principal
    if principal.run is None or principal.token == lease.acquired_under:
        return None
    if lease.in_force(now) and lease.holder != principal.id:
        return None
    if lease.resource == principal.run.resource:
        why = f"{lease.resource} is this run's own item; its runner settles it when the run ends"
    else:
        why = f"this run did not acquire {lease.resource}, so it may not {_BARE[request.verb]} it"
    return Refused(lease, Forbidden, why)


# --- the rows that follow --------------------------------------------------------------------------------------------


def _renewed(lease: LockedLease, request: Request, policy: Policy, now: Instant) -> Answer:
    """Carry the tenure on: same epoch, expiry never nearer (D3), a lapsed one resumed with a new `claimed_at`."""
    resumed = not lease.in_force(now)
    horizon, capped = _horizon(request, policy, now, anew=resumed)
    if request.verb is Verb.RESERVE:
        return _reserved(lease, horizon, now, reclaimed=resumed)
    assert lease.expires_at is not None, lease
    after = replace(
        lease,
        session=request.session if request.session is not None else lease.session,
        version=lease.version + 1,
        claimed_at=now if resumed else lease.claimed_at,
        granted_at=now,
        expires_at=max(lease.expires_at, horizon),
        taken_from=None if resumed else lease.taken_from,
        provisional=lease.provisional and request.provisional,
    )
    return Granted(
        after,
        request.verb,
        reclaimed=resumed,
        capped=capped,
        happened=Happened.EXTENDED if request.verb is Verb.EXTEND else None,
    )


def _acquired(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    """Begin a new tenure: a higher epoch, and whatever the last holder still writes is refused from here on."""
    if (refusal := _refuse_acquisition(lease, request, standing, now)) is not None:
        return refusal
    principal = request.principal
    live = lease.in_force(now)
    displaced = lease.holder if lease.holder not in (None, principal.id) else None
    horizon, capped = _horizon(request, standing.policy, now, anew=True)
    after = replace(
        lease,
        kind=Kind.CLAIM,
        holder=principal.id,
        holder_name=principal.name,
        owner=principal.person,
        session=request.session,
        dispatch=request.dispatch,
        epoch=lease.epoch + 1,
        version=lease.version + 1,
        claimed_at=now,
        granted_at=now,
        expires_at=horizon,
        lapses=lease.lapses + _counted_lapse(lease, standing, now),
        run_token=None,
        acquired_under=principal.token if principal.run is not None else None,
        taken_from=displaced,
        provisional=request.provisional,
    )
    assert after.epoch > lease.epoch >= 0, (lease, after)
    granted = Granted(
        after,
        request.verb,
        edge=Edge.ADDED,
        acquired=True,
        reclaimed=request.verb is not Verb.CLAIM and not live,
        capped=capped,
        displaced=displaced,
        happened=Happened.TAKEN_OVER if displaced else Happened.CLAIMED,
    )
    if request.verb is not Verb.RESERVE:
        return granted
    parked = _reserved(after, horizon, now, reclaimed=True)
    return replace(parked, edge=Edge.ADDED, acquired=True, displaced=displaced)


def _refuse_acquisition(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Refused | None:
    policy = standing.policy
    if policy.paused is not None:
        return Refused(lease, Paused, f"claims are paused: {policy.paused}; what is held may still be renewed")
    if standing.boundary is not None:
        return Refused(lease, ExecutionBoundary, f"{standing.boundary} has this item until it is settled; take another")
    if standing.unclaimable is not None and not request.force:
        return Refused(lease, NotReady, standing.unclaimable)
    mine_already = lease.in_force(now) and lease.holder == request.principal.id
    if standing.live_claims >= policy.max_claims and not mine_already:
        return Refused(
            lease,
            TooManyClaims,
            f"{request.principal.id} already holds {standing.live_claims} items, claimed or reserved; the limit is"
            f" {policy.max_claims}; release one first",
        )
    return None


def _counted_lapse(lease: LockedLease, standing: Standing, now: Instant) -> int:
    """Return 1 if this acquisition follows a lapse that counts against the node (D9), else 0."""
    lapsed = lease.kind is Kind.CLAIM and not lease.in_force(now)
    persons_own = lease.holder is not None and lease.holder == lease.owner
    excused = persons_own or lease.provisional or standing.left_trace or not standing.counts_lapses
    return int(lapsed and not excused)


def _reserved(lease: LockedLease, horizon: Instant, now: Instant, *, reclaimed: bool) -> Granted:
    """Park the node for its holder: same epoch, session and nonce cleared, the tenure over (D2)."""
    assert lease.expires_at is not None, lease
    in_force = lease.in_force(now)
    after = replace(
        lease,
        kind=Kind.RESERVATION,
        session=None,
        dispatch=None,
        version=lease.version + 1,
        claimed_at=lease.claimed_at if in_force else now,
        granted_at=now,
        expires_at=max(lease.expires_at, horizon) if in_force else horizon,
        run_token=None,
        acquired_under=None,
        provisional=False,
    )
    return Granted(after, Verb.RESERVE, reclaimed=reclaimed, happened=Happened.RESERVED)


def _released(lease: LockedLease, request: Request) -> Granted:
    """Free the node; only the epoch and version stay, so that nothing ever repeats."""
    by_holder = lease.holder == request.principal.id
    return Granted(
        _freed(lease),
        Verb.RELEASE,
        edge=Edge.REMOVED,
        displaced=None if by_holder else lease.holder,
        happened=Happened.RELEASED if by_holder else Happened.REVOKED,
    )


def _cleared(lease: LockedLease) -> Granted:
    """Free a task whose holder let it lapse, for somebody else: a takeover, so its epoch is over too (D33)."""
    return Granted(ended(lease), Verb.RELEASE, edge=Edge.REMOVED, displaced=lease.holder, happened=Happened.TAKEN_OVER)


def ended(lease: LockedLease) -> LockedLease:
    """Return the row of a task whose tenure is over for good: its record is deleted, or a stranger released it.

    No fence that named what was holds any more, not even of a field that nobody held (D32).
    """
    return replace(_freed(lease), epoch=lease.epoch + 1)


def _freed(lease: LockedLease) -> LockedLease:
    return replace(
        lease,
        kind=Kind.NONE,
        holder=None,
        holder_name=None,
        owner=None,
        session=None,
        dispatch=None,
        version=lease.version + 1,
        claimed_at=None,
        granted_at=None,
        expires_at=None,
        run_token=None,
        acquired_under=None,
        taken_from=None,
        provisional=False,
    )


def _horizon(request: Request, policy: Policy, now: Instant, *, anew: bool) -> tuple[Instant, bool]:
    """Return the expiry this request asks for, and whether the maximum cut it.

    An extension that first has to take the lease `anew` takes it as a claim
    does and then stretches it: a short one never shortens what a claim gets.
    """
    match request.verb:
        case Verb.EXTEND:
            span = max(min(request.extend_us, policy.ttl_max), policy.ttl if anew else 0)
            return Instant(now + span), request.extend_us > policy.ttl_max
        case Verb.RESERVE:
            return Instant(now + policy.grace), False
        case _:
            span = min(policy.ttl, _PROVISIONAL_US) if request.provisional else policy.ttl
            return Instant(now + span), False


# --- refusals --------------------------------------------------------------------------------------------------------


def _held(lease: LockedLease) -> Refused:
    return Refused(lease, AlreadyClaimed, f"{_holding(lease)}; take another item, or wait", names_holder=True)


def _lost(lease: LockedLease, now: Instant) -> Refused:
    return Refused(lease, LeaseLost, _lost_words(lease, now), names_holder=lease.in_force(now))


def lost_to_another(lease: Lease, now: Instant) -> LeaseLost:
    """Return the answer to a holder whose lapsed tenure was followed by another's, as `lease` shows."""
    return LeaseLost(_lost_words(lease, now), holder=view(lease, now) if lease.in_force(now) else None)


def _lost_words(lease: Lease, now: Instant) -> str:
    if lease.in_force(now):
        return f"{_holding(lease)}; stop, your tenure is over"
    return f"the lease on {lease.resource} is no longer yours; claim it again if it is free"


def _holding(lease: Lease) -> str:
    assert lease.expires_at is not None, lease
    verb = "reserved" if lease.kind is Kind.RESERVATION else "held"
    return f"{lease.resource} is {verb} by {lease.holder} until {iso(lease.expires_at)} (epoch {lease.epoch})"


def _anchored(lease: LockedLease, now: Instant) -> LockedLease:
    anchored = lease.anchored(now)
    assert isinstance(anchored, LockedLease)
    return anchored


_PROVISIONAL_US: Final = micros(PROVISIONAL)
_BARE: Final = {
    Verb.CLAIM: "claim",
    Verb.RENEW: "renew",
    Verb.EXTEND: "extend",
    Verb.RESERVE: "reserve",
    Verb.RELEASE: "release",
}
