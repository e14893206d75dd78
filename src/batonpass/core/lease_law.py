"""The law of leases: who holds a resource after a request, and why (leases specification, D1 to D9).

One law for everything that can be held; what its words mean, `core.leases`
says. A lapse ends nothing, so a tenure that only lapsed, and that nobody has
followed, can be *resumed* by whoever names its epoch.

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
from batonpass.core.ids import RESOURCE_PREFIX, Instant
from batonpass.core.leases import (
    Answer,
    Edge,
    Granted,
    Happened,
    Kind,
    Lease,
    LockedLease,
    Refused,
    Request,
    Standing,
    Verb,
    is_callers,
    is_own,
    may_renew,
    view,
)
from batonpass.core.policy import PROVISIONAL, Policy
from batonpass.core.records import identity_of, is_of_record


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
    other = "record" if is_of_record(lease.resource) else "item"
    return Refused(lease, AlreadyClaimed, f"{_holding(lease)}; take another {other}, or wait", names_holder=True)


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
    what, who = str(lease.resource), str(lease.holder)
    if is_of_record(lease.resource) and lease.holder is not None:
        what, who = what.removeprefix(RESOURCE_PREFIX), identity_of(lease.holder)
    return f"{what} is {verb} by {who} until {iso(lease.expires_at)} (epoch {lease.epoch})"


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
