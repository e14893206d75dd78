"""The queue's law: which items a viewer sees, which an agent may take, and in what order (companion 3, D1, D13 to D16).

Eligibility is law and is judged here, on facts read in one transaction; the
database only narrows and orders. A page shows what is ready and counts what it
hides. `queue/next` takes by the same judgement, under the item's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final, assert_never

from batonpass.core import readiness
from batonpass.core.clock import moment
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId
from batonpass.core.leases import Kind, Lease, is_own
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.readiness import Readiness, Ready

PRIORITY_BUMP: Final = {"p1": 6.0, "p2": 3.0, "p3": 1.0}
PER_BLOCKED: Final = 3.0
AGE_DAYS_PER_POINT: Final = 30
AGE_POINTS_MAX: Final = 3.0
URGENT_WITHIN_DAYS: Final = 30
URGENCY_ON_THE_DAY: Final = 3.0
URGENCY_MAX: Final = 5.0


class Suggest(StrEnum):
    """What to do with an item: the protocol's whole vocabulary.

    Triage, close and approve are what the ranking says of held items, stale
    ones and proposed schemas; nothing here says them until it is whole.
    """

    DO = "do"
    DISPATCH = "dispatch"
    BLOCKED = "blocked"
    TRIAGE = "triage"
    CLOSE = "close"
    APPROVE = "approve"


class Accept(StrEnum):
    """What an autonomous worker takes: `ready` needs a person's consent, `open` all but human items."""

    READY = "ready"
    OPEN = "open"


class Hidden(StrEnum):
    """Why a page leaves an item out; each is also a counter of the envelope."""

    DORMANT = "dormant"
    LEASED = "leased"
    RESERVED = "reserved"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live queueable node and everything its place in the queue depends on, read in one transaction."""

    id: NodeId
    type: str
    title: str
    status: str | None
    project: str | None
    priority: str | None
    priority_by: str | None
    priority_via: str | None
    born: Instant
    wake: date | None
    needed_by: date | None
    profile: str | None
    lease: Lease | None
    ready: readiness.Facts
    blocked_by: tuple[NodeId, ...]
    blocking: int
    findings: tuple[NodeId, ...]
    resolved: bool = False
    retired: bool = False
    paused: bool = False
    """Whether its project's policy lets nobody claim anything at present (D41)."""

    @property
    def assigned_agents(self) -> tuple[NodeId, ...]:
        """Return the agents the item is routed to by hand."""
        return tuple(routing.to for routing in self.ready.routings if routing.to_agent)


@dataclass(frozen=True, slots=True)
class Signals:
    """The raw values behind a score.

    `front`, `heat` and `staleness` are 0 until the ranking is whole: nothing
    counts activity or dangling edges yet.
    """

    blocking: int
    blocked_by: int
    age_days: int
    needed_by_days: int | None
    front: int = 0
    heat: int = 0
    staleness: float = 0.0


@dataclass(frozen=True, slots=True)
class Item:
    """A candidate as a viewer sees it."""

    candidate: Candidate
    readiness: Readiness
    suggest: Suggest
    signals: Signals
    score: float
    why: str
    lease: Lease | None
    """The viewer's own live lease or reservation, or anybody's in an assignee read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How a page is read. `everything` also lists blocked items and what others hold (an assignee read)."""

    include_blocked: bool = False
    everything: bool = False


def judge(candidate: Candidate, viewer: Principal, now: Instant, scope: Scope) -> Item | Hidden:
    """Return the candidate as `viewer` sees it at `now`, or why it is left out."""
    today = moment(now).date()
    held = candidate.lease is not None and candidate.lease.anchored(now).in_force(now)
    lease = candidate.lease if held else None
    if candidate.wake is not None and candidate.wake > today:
        return Hidden.DORMANT
    if lease is not None and not is_own(lease, viewer) and not scope.everything:
        return Hidden.RESERVED if lease.kind is Kind.RESERVATION else Hidden.LEASED
    if candidate.blocked_by and not (scope.include_blocked or scope.everything):
        return Hidden.BLOCKED
    derived = readiness.derive(candidate.ready)
    signals = Signals(
        blocking=candidate.blocking,
        blocked_by=len(candidate.blocked_by),
        age_days=max(0, (today - moment(candidate.born).date()).days),
        needed_by_days=(candidate.needed_by - today).days if candidate.needed_by is not None else None,
    )
    return Item(
        candidate,
        derived,
        suggest=_suggest(candidate, derived),
        signals=signals,
        score=score(candidate.priority, signals),
        why=_why(candidate, derived, signals, lease=lease, viewer=viewer),
        lease=lease,
    )


def order(item: Item, viewer: Principal) -> tuple[bool, int, Instant, NodeId]:
    """Return the place of an item on a page of `viewer`: its own reservations first (D14), then priority, then age.

    An assignee read also shows what others have reserved; that stays where it ranks.
    """
    lease = item.lease
    first = lease is not None and lease.kind is Kind.RESERVATION and is_own(lease, viewer)
    return (not first, rank(item.candidate.priority), item.candidate.born, item.candidate.id)


def rank(priority: str | None) -> int:
    """Return the ordinal of a priority; none comes last."""
    return {"p1": 1, "p2": 2, "p3": 3}.get(priority or "", 9)


def may_take(candidate: Candidate, taker: Principal, accept: Accept, now: Instant) -> str | None:
    """Return why `taker` may not take the candidate unattended, or None when it may (D15).

    Never a question, never a human item, never one routed to other agents.
    Whether claims are paused is not asked here: that is no property of the item's, and passes.
    """
    if not NODE_TYPES[candidate.type].claimable:
        return f"a {candidate.type} is not work"
    if candidate.resolved or candidate.retired:
        return "already resolved or retired"
    shown = judge(candidate, taker, now, Scope())
    if isinstance(shown, Hidden):
        return shown.value
    if shown.lease is not None and shown.lease.kind is Kind.CLAIM:
        return "already held by this taker's side"
    if candidate.type == "question":
        return "a question is a person's to answer"
    if candidate.assigned_agents and NodeId(taker.id) not in candidate.assigned_agents:
        return f"assigned to {', '.join(candidate.assigned_agents)}"
    match shown.readiness.value:
        case Ready.HUMAN:
            return f"needs a human: {'; '.join(shown.readiness.reasons)}"
        case Ready.UNTRIAGED:
            return "not marked ready for agents" if accept is Accept.READY else None
        case Ready.AGENT:
            return None
        case _:
            assert_never(shown.readiness.value)


def score(priority: str | None, signals: Signals) -> float:
    """Return the score of what is known of an item, to two decimals (companion 3.5)."""
    points = PRIORITY_BUMP.get(priority or "", 0.0)
    points += PER_BLOCKED * (signals.blocking - signals.blocked_by)
    points += min(signals.age_days / AGE_DAYS_PER_POINT, AGE_POINTS_MAX)
    return round(points + urgency(signals.needed_by_days), 2)


def urgency(needed_by_days: int | None) -> float:
    """Return how much a due date adds: nothing a month ahead, 3 on the day, 5 a month after."""
    if needed_by_days is None or needed_by_days >= URGENT_WITHIN_DAYS:
        return 0.0
    if needed_by_days >= 0:
        return URGENCY_ON_THE_DAY * (URGENT_WITHIN_DAYS - needed_by_days) / URGENT_WITHIN_DAYS
    overdue = min(-needed_by_days, URGENT_WITHIN_DAYS)
    return URGENCY_ON_THE_DAY + (URGENCY_MAX - URGENCY_ON_THE_DAY) * overdue / URGENT_WITHIN_DAYS


def _suggest(candidate: Candidate, derived: Readiness) -> Suggest:
    if candidate.blocked_by:
        return Suggest.BLOCKED
    return Suggest.DISPATCH if derived.value is Ready.AGENT else Suggest.DO


def _why(candidate: Candidate, derived: Readiness, signals: Signals, *, lease: Lease | None, viewer: Principal) -> str:
    clauses: list[str] = []
    match derived.value:
        case Ready.HUMAN:
            clauses.append(f"needs human: {', '.join(derived.reasons)}")
        case Ready.AGENT:
            clauses.append(f"agent-ready: {', '.join(derived.reasons)}")
        case Ready.UNTRIAGED:
            clauses += derived.ignored
        case _:
            assert_never(derived.value)
    if candidate.priority is not None:
        clauses.append(f"{candidate.priority} by {candidate.priority_by or 'source unrecorded'}")
    if candidate.blocked_by:
        clauses.append(f"blocked by {', '.join(candidate.blocked_by)}")
    if signals.blocking:
        clauses.append(f"blocks {signals.blocking}")
    if signals.needed_by_days is not None:
        clauses.append(_due(signals.needed_by_days))
    clauses.append(f"{signals.age_days} d old")
    if lease is not None:
        state = "reserved" if lease.kind is Kind.RESERVATION else "in progress"
        whose = "your claim" if is_own(lease, viewer) else f"by {lease.holder_name or lease.holder}"
        clauses.append(f"{state} ({whose})")
    return "; ".join(clauses)


def _due(days: int) -> str:
    if days == 0:
        return "due today"
    return f"due in {days} d" if days > 0 else f"{-days} d overdue"


def day(text: str | None) -> date | None:
    """Return a stored YYYY-MM-DD as a date."""
    return date.fromisoformat(text) if text is not None else None


def count_by(values: Sequence[str | None]) -> dict[str, int]:
    """Return how often each value occurs, most often first; None counts as `none`."""
    counts: dict[str, int] = {}
    for value in values:
        counts[value or "none"] = counts.get(value or "none", 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
