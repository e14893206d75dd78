"""Each rule of the lease protocol, switched off alone: what a search that is worth anything must then find.

    with switched_off(ABLATIONS["a nonce acquires once"]): ...search, and it must end in `Broken`

A rule is switched off by putting another function in the place of the one
that keeps it, here in the test's process; production code has no switch. What
stands here in a rule's place is what earlier drafts of the protocol had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final
from unittest import mock

from batonpass.core import fences as fence_law
from batonpass.core import lease_law as law
from batonpass.core import tokens as token_law
from batonpass.core.clock import Clock
from batonpass.core.errors import AlreadyClaimed
from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, Instant, TokenHash
from batonpass.core.leases import (
    Answer,
    Granted,
    Kind,
    Lease,
    LockedLease,
    Refused,
    Request,
    Standing,
    Verb,
    may_renew,
)
from batonpass.core.tokens import RunMint, RunMinted
from batonpass.server.services import leases as lease_services
from batonpass.server.services import tokens as token_services
from batonpass.store import fences
from batonpass.store import leases as lease_store
from batonpass.store import restore as restoration
from batonpass.store.migrate import Migration, Session
from batonpass.testing.game import Fate


@dataclass(frozen=True, slots=True)
class Patch:
    """Something to put in the place of an attribute for a while."""

    owner: object
    name: str
    instead: object


@dataclass(frozen=True, slots=True)
class Ablation:
    """A rule switched off: how, which invariant breaks then, and the moves that are enough to break it.

    `weights` are those moves and how often each is drawn, `fates` what becomes
    of a message. `revoke_first` off switches the runner's own rule off, which no
    server can keep for it.
    """

    rule: str
    breaks: str
    patches: tuple[Patch, ...]
    weights: Mapping[str, int]
    agents: str = "AA"
    revoke_first: bool = True
    fates: tuple[Fate, ...] = (Fate.ANSWERED, Fate.ANSWERED, Fate.TWICE)


@contextmanager
def switched_off(ablation: Ablation) -> Iterator[None]:
    """Switch the rule off until the end of the block."""
    with ExitStack() as stack:
        for patch in ablation.patches:
            stack.enter_context(mock.patch.object(patch.owner, patch.name, patch.instead))
        yield


# --- D2: reservations and tenures ------------------------------------------------------------------------------------

_reserved = law._reserved  # noqa: SLF001  # each rule lives in one private function of the law
_decide_claim = law._decide_claim  # noqa: SLF001
_on_tenure = law._on_tenure  # noqa: SLF001
_acquired = law._acquired  # noqa: SLF001
_renewed = law._renewed  # noqa: SLF001
_lost = law._lost  # noqa: SLF001


def _reserved_with_its_nonce(lease: LockedLease, horizon: Instant, now: Instant, *, reclaimed: bool) -> Granted:
    granted = _reserved(lease, horizon, now, reclaimed=reclaimed)
    return replace(granted, lease=replace(granted.lease, dispatch=lease.dispatch))


def _claim_that_minds_the_nonce_of_a_reservation(
    lease: LockedLease, request: Request, standing: Standing, now: Instant
) -> Answer:
    another = request.dispatch is not None and lease.dispatch not in {None, request.dispatch}
    if lease.kind is Kind.RESERVATION and lease.in_force(now) and another:
        return Refused(lease, AlreadyClaimed, "reserved by another launch", names_holder=True)
    return _decide_claim(lease, request, standing, now)


def _tenure_that_a_reservation_does_not_end(
    lease: LockedLease, request: Request, standing: Standing, now: Instant
) -> Answer:
    if lease.kind is Kind.RESERVATION and request.verb is Verb.RENEW and lease.epoch == request.if_epoch:
        return _renewed(replace(lease, kind=Kind.CLAIM), request, standing.policy, now)
    return _on_tenure(lease, request, standing, now)


def _tenure_that_is_taken_anew(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    if lease.kind is Kind.NONE and lease.epoch == request.if_epoch and request.verb is not Verb.CLAIM:
        return _acquired(lease, request, standing, now)
    return _on_tenure(lease, request, standing, now)


def _tenure_that_a_lapse_ends(lease: LockedLease, request: Request, standing: Standing, now: Instant) -> Answer:
    if not lease.in_force(now):
        return _lost(lease, now)
    return _on_tenure(lease, request, standing, now)


def _claim_that_keeps_a_reservations_epoch(
    lease: LockedLease, request: Request, standing: Standing, now: Instant
) -> Answer:
    parked = lease.kind is Kind.RESERVATION and lease.in_force(now)
    if parked and may_renew(lease, request.principal) and not standing.nonce_used:
        taken_up = replace(lease, kind=Kind.CLAIM, dispatch=request.dispatch)
        return _renewed(taken_up, request, standing.policy, now)
    return _decide_claim(lease, request, standing, now)


# --- D2a, D2b: tokens and working sets -------------------------------------------------------------------------------


def _fence_of_the_epoch_alone(lease: Lease | None, fence: Fence, principal: Principal) -> str | None:
    if principal.run is None:
        return fence_law.fence_broken(lease, fence, principal)
    return None if lease is not None and lease.epoch == fence.epoch else "another epoch"


def _fence_of_any_token(lease: Lease | None, fence: Fence, principal: Principal) -> str | None:
    if lease is not None and principal.run == fence:
        return fence_law.fence_broken(lease, fence, replace(principal, token=lease.run_token or principal.token))
    return fence_law.fence_broken(lease, fence, principal)


_decide_run_mint = token_law.decide_run_mint


def _another_run_token(lease: LockedLease, wanted: RunMint, principal: Principal, now: Instant) -> RunMinted | Refused:
    minted = _decide_run_mint(replace(lease, run_token=None), wanted, principal, now)
    return replace(minted, ends=lease.run_token) if isinstance(minted, RunMinted) else minted


def _nothing_named(*_: object) -> frozenset[TokenHash]:
    return frozenset()


def _renewable_by_its_agent(lease: Lease, principal: Principal) -> bool:
    return lease.holder is not None and (
        lease.holder == principal.id or (principal.is_person and lease.owner == principal.person)
    )


def _callers_is_its_agents(lease: Lease, principal: Principal) -> bool:
    return lease.holder == principal.id


def _anybodys_to_end(lease: LockedLease, request: Request, now: Instant) -> None:
    del lease, request, now


async def _everything_of_the_agent(self: lease_services.Leases, principal: Principal) -> tuple[Instant, list[Lease]]:
    return await _callers_own(self, replace(principal, run=None))


_callers_own = lease_services.Leases._callers_own  # noqa: SLF001

SIBLINGS: Final = (
    Patch(law, "may_renew", _renewable_by_its_agent),
    Patch(fence_law, "may_renew", _renewable_by_its_agent),
    Patch(law, "is_callers", _callers_is_its_agents),
    Patch(lease_services, "is_callers", _callers_is_its_agents),
    Patch(law, "_not_the_runs_to_end", _anybodys_to_end),
    Patch(lease_services.Leases, "_callers_own", _everything_of_the_agent),
)

# --- D6, D20a --------------------------------------------------------------------------------------------------------


def _never_spent(lease: LockedLease, request: Request, standing: Standing) -> None:
    del lease, request, standing


def _noted_nowhere(*_: object) -> None:
    """Note no nonce: the table itself would refuse to note one twice."""


def _left_in_the_lease(*_: object) -> None:
    """Leave the revoked token's name in the lease row."""


def _the_same_incarnation(
    session: Session, later: Iterable[Migration], *, before: str, clock: Clock
) -> restoration.RestoreReport:
    del later, clock
    return restoration.RestoreReport(session.dialect, schema=1, upgraded=(), incarnation=before, before=before)


LAUNCH: Final = {"launch": 4, "mint": 4}

ABLATIONS: Final = {
    ablation.rule: ablation
    for ablation in (
        Ablation(
            "D2 reserve clears the nonce",
            "no-lockout",
            (
                Patch(law, "_reserved", _reserved_with_its_nonce),
                Patch(law, "_decide_claim", _claim_that_minds_the_nonce_of_a_reservation),
            ),
            {**LAUNCH, "settle": 6},
            fates=(Fate.ANSWERED,),
        ),
        Ablation(
            "D2 a heartbeat leaves a reservation",
            "no-ghost",
            (Patch(law, "_on_tenure", _tenure_that_a_reservation_does_not_end),),
            {**LAUNCH, "beat": 2, "settle": 6, "deliver": 3},
            agents="A",
        ),
        Ablation(
            "D2 what names a tenure never acquires",
            "no-ghost",
            (
                Patch(law, "_on_tenure", _tenure_that_is_taken_anew),
                Patch(Request, "may_acquire", property(lambda _: True)),
            ),
            {**LAUNCH, "beat": 1, "settle": 6, "deliver": 3},
            agents="A",
            fates=(Fate.ANSWERED, Fate.ANSWERED, Fate.TWICE, Fate.LATER),
        ),
        Ablation(
            "D2 a resume keeps the epoch",
            "resume",
            (Patch(law, "_on_tenure", _tenure_that_a_lapse_ends),),
            {**LAUNCH, "beat": 3, "lapse": 2},
            agents="A",
        ),
        Ablation(
            "D2 taking up a reservation is an acquisition",
            "fence",
            (Patch(law, "_decide_claim", _claim_that_keeps_a_reservations_epoch),),
            {**LAUNCH, "note": 4, "person": 4, "deliver": 4},
            fates=(Fate.ANSWERED, Fate.ANSWERED, Fate.LATER),
        ),
        Ablation(
            "D2a a run's token ends with release and reserve",
            "fence",
            (Patch(fences, "fence_broken", _fence_of_the_epoch_alone),),
            {**LAUNCH, "write": 4, "person": 3},
            agents="A",
        ),
        Ablation(
            "D2a one token for a tenure",
            "token-of-tenure",
            (
                Patch(token_services, "decide_run_mint", _another_run_token),
                Patch(token_services, "_named_in_lease", _nothing_named),
                Patch(fences, "fence_broken", _fence_of_any_token),
            ),
            {**LAUNCH, "reattach": 2, "write": 2},
            agents="A",
        ),
        Ablation(
            "D2b a drain reaches what its run acquired",
            "own-release",
            SIBLINGS,
            {**LAUNCH, "drain": 3, "take_another": 1},
        ),
        Ablation(
            "D2b a heartbeat of all reaches what its run acquired",
            "fed",
            SIBLINGS,
            {**LAUNCH, "feed": 3, "pass_time": 2},
        ),
        Ablation(
            "D6 a nonce acquires once",
            "no-ghost",
            (Patch(law, "_nonce_spent", _never_spent), Patch(lease_store, "note_nonces", _noted_nowhere)),
            {**LAUNCH, "settle": 8, "deliver": 3},
            agents="A",
        ),
        Ablation(
            "D6 a nonce acquires once, when a rival has been",
            "nonce-once",
            (Patch(law, "_nonce_spent", _never_spent), Patch(lease_store, "note_nonces", _noted_nowhere)),
            {**LAUNCH, "person": 3, "deliver": 3},
            agents="A",
        ),
        Ablation(
            "D20a revoke before reading",
            "verdict-stable",
            (),
            {**LAUNCH, "write": 4, "settle": 4},
            agents="A",
            revoke_first=False,
        ),
        Ablation(
            "D20a revocation ends the token in its lease",
            "verdict-stable",
            (Patch(token_services, "_unname_in_lease", _left_in_the_lease),),
            {**LAUNCH, "write": 4, "settle": 4},
            agents="A",
        ),
        Ablation(
            "D46 a new incarnation ends every tenure",
            "epoch-up",
            (Patch(restoration, "_begin_anew", _the_same_incarnation),),
            {"launch": 2, "back_up": 4, "restore": 4},
            agents="AB",
            fates=(Fate.ANSWERED,),
        ),
    )
}
