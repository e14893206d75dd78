"""The queue's law: which items a viewer sees, which an agent may take, and in what order (companion 3, D1, D13 to D16).

Eligibility is law and is judged here, on facts read in one transaction; the
database only narrows and orders. A page shows what is ready and counts what it
hides. `queue/next` takes by the same judgement, under the item's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Final, assert_never

from batonpass.core import ranking, readiness
from batonpass.core.clock import moment
from batonpass.core.eligibility import Hidden, Scope
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId
from batonpass.core.leases import Kind, Lease, is_own
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.ranking import Placed, Signals
from batonpass.core.readiness import Readiness, Ready

STALE_FROM: Final = 0.5
"""From which share of edges that lead nowhere on an item is to be closed (companion 3.5)."""
OFFSET_MAX: Final = 10_000
"""How far a page may begin from the top: every item before it is judged for its exact place."""
HELD_ABOVE: Final = 2
"""How many of the viewer's own writes in a week an item has to have before it can be held (companion 3.6)."""


class Suggest(StrEnum):
    """What to do with an item: the protocol's whole vocabulary."""

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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queueable node and everything its place in the queue depends on, read in one transaction."""

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
    """Whether it is dead by its status, or superseded."""
    paused: bool = False
    """Whether its project's policy lets nobody claim anything at present (D41)."""
    archived: bool = False
    """Whether its repository or project is."""
    execution: str | None = None
    """The pipeline that has it until it is settled (D24a)."""
    commits: tuple[str, ...] = ()
    heat: int = 0
    edges: int = 0
    stale_edges: int = 0
    cold_neighbors: int = 0
    outcomes: tuple[NodeId, ...] = ()
    """What was written about it and resolves nothing, see `readiness.Facts.held`; read only where it can matter."""

    @property
    def assigned_agents(self) -> tuple[NodeId, ...]:
        """Return the agents the item is routed to by hand."""
        return tuple(routing.to for routing in self.ready.routings if routing.to_agent)

    @property
    def proposal(self) -> bool:
        """Whether it is a proposed schema, which is to be approved rather than worked on."""
        return self.type == "schema"

    @property
    def gone(self) -> bool:
        """Whether it is no item any more: done or given up. While a pipeline has it, only giving up counts (D24a)."""
        if self.execution is not None:
            return self.status is not None and self.status in NODE_TYPES[self.type].non_resolving
        return self.retired or self.resolved

    @property
    def staleness(self) -> float:
        """Return which share of its edges leads to nothing, or to what has been superseded."""
        return self.stale_edges / self.edges if self.edges else 0.0

    def signals(self, today: date, *, front: int = 0) -> Signals:
        """Return the values behind its score on a day."""
        return Signals(
            blocking=self.blocking,
            blocked_by=len(self.blocked_by),
            age_days=max(0, (today - moment(self.born).date()).days),
            needed_by_days=(self.needed_by - today).days if self.needed_by is not None else None,
            front=front,
            heat=self.heat,
            staleness=round(self.staleness, 2),
            cold_neighbors=self.cold_neighbors,
        )


@dataclass(frozen=True, slots=True)
class Item:
    """A candidate as a viewer sees it. `readiness` is None for a proposal, which is outside it."""

    candidate: Candidate
    readiness: Readiness | None
    suggest: Suggest
    signals: Signals
    units: int
    """The score as it is ordered by, in units of the ranking."""
    why: str
    lease: Lease | None
    """The viewer's own live lease or reservation, or anybody's in an assignee read."""

    @property
    def score(self) -> float:
        """Return the score as it is shown."""
        return ranking.points(self.units)

    @property
    def ready(self) -> Ready | None:
        """Return whom it is for."""
        return self.readiness.value if self.readiness is not None else None


@dataclass(frozen=True, slots=True)
class Kept:
    """What the queue's index keeps of a candidate; `lane` is None for one that is no item any more."""

    id: NodeId
    type: str
    project: str | None
    ready: Ready | None
    blockers: int
    base: int
    born: Instant
    lane: int | None
    place: int
    turns: int
    stale: bool
    busy: bool


def judge(candidate: Candidate, viewer: Principal, now: Instant, scope: Scope) -> Item | Hidden:
    """Return the candidate as `viewer` sees it at `now`, or why it is left out."""
    today = moment(now).date()
    lease = live_lease(candidate, now)
    if (why_not := _hidden(candidate, viewer, today, scope, lease=lease)) is not None:
        return why_not
    front = scope.front.get(candidate.id, 0)
    held = front > HELD_ABOVE and holds(candidate)
    signals = candidate.signals(today, front=0 if held else front)
    derived = None if candidate.proposal else readiness.derive(replace(candidate.ready, held=held))
    return Item(
        candidate,
        derived,
        suggest=_suggest(candidate, derived, held=held),
        signals=signals,
        units=ranking.score(candidate.priority, signals, proposal=candidate.proposal),
        why="; ".join(_why(candidate, derived, signals, lease=lease, viewer=viewer)),
        lease=lease,
    )


def live_lease(candidate: Candidate, now: Instant) -> Lease | None:
    """Return the candidate's lease or reservation if it is in force."""
    held = candidate.lease is not None and candidate.lease.anchored(now).in_force(now)
    return candidate.lease if held else None


def holds(candidate: Candidate) -> bool:
    """Whether an outcome that resolves nothing stands on an open task with nothing in its way (companion 3.6)."""
    unfinished = candidate.type == "task" and not (candidate.retired or candidate.resolved)
    return unfinished and not candidate.blocked_by and bool(candidate.outcomes)


def keep(candidate: Candidate, now: Instant) -> Kept:
    """Return what the index is to keep of a candidate at `now`: its place for viewers who did nothing to it."""
    today = moment(now).date()
    ready = None if candidate.proposal else readiness.derive(candidate.ready).value
    signals = candidate.signals(today)
    where = ranking.placed(
        ranking.score(candidate.priority, signals, proposal=candidate.proposal),
        today=ranking.day_number(today),
        born=ranking.day_number(moment(candidate.born).date()),
        due=_day(candidate.needed_by) if not candidate.proposal else None,
        wakes=_day(candidate.wake),
    )
    cools = ranking.cools(candidate.id, ranking.day_number(today)) if candidate.heat else ranking.NEVER
    return Kept(
        id=candidate.id,
        type=candidate.type,
        project=candidate.project,
        ready=ready,
        blockers=len(candidate.blocked_by),
        base=ranking.base(candidate.priority, signals),
        born=candidate.born,
        lane=_lane(candidate, ready, where, today),
        place=where.place,
        turns=min(where.turns, cools),
        stale=candidate.staleness >= STALE_FROM,
        busy=candidate.lease is not None and candidate.lease.kind is not Kind.NONE,
    )


def order(item: Item, viewer: Principal) -> tuple[bool, int, Instant, NodeId]:
    """Return the place of an item on a page of `viewer`: its own reservations first (D14), then by score, age and id.

    An assignee read also shows what others have reserved; that stays where it ranks.
    """
    lease = item.lease
    first = lease is not None and lease.kind is Kind.RESERVATION and is_own(lease, viewer)
    return (not first, -item.units, item.candidate.born, item.candidate.id)


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
    if candidate.gone:
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
    assert shown.readiness is not None, candidate
    match shown.readiness.value:
        case Ready.HUMAN:
            return f"needs a human: {'; '.join(shown.readiness.reasons)}"
        case Ready.UNTRIAGED:
            return "not marked ready for agents" if accept is Accept.READY else None
        case Ready.AGENT:
            return None
        case _:
            assert_never(shown.readiness.value)


def suggested(ready: Ready | None, *, blocked: bool, stale: bool) -> Suggest:
    """Return what to do with an item that nothing holds: of the reasons, the first that applies."""
    if ready is None:
        return Suggest.APPROVE
    if stale:
        return Suggest.CLOSE
    if blocked:
        return Suggest.BLOCKED
    return Suggest.DISPATCH if ready is Ready.AGENT else Suggest.DO


def day(text: str | None) -> date | None:
    """Return a stored YYYY-MM-DD as a date."""
    return date.fromisoformat(text) if text is not None else None


def _hidden(
    candidate: Candidate, viewer: Principal, today: date, scope: Scope, *, lease: Lease | None
) -> Hidden | None:
    """Return the first filter that an item does not pass, in the order of companion 3.4.

    What is done comes first, so that only what would be listed otherwise counts as archived.
    """
    if candidate.gone:
        return Hidden.GONE
    if candidate.archived:
        return Hidden.ARCHIVED
    if candidate.execution is not None and not scope.everything:
        return Hidden.GATING
    if candidate.wake is not None and candidate.wake > today:
        return Hidden.DORMANT
    if scope.mutes.cover(candidate.id, candidate.project):
        return Hidden.MUTED
    if lease is not None and not is_own(lease, viewer) and not scope.everything:
        return Hidden.RESERVED if lease.kind is Kind.RESERVATION else Hidden.LEASED
    if candidate.blocked_by and not (scope.include_blocked or scope.everything):
        return Hidden.BLOCKED
    return None


def _lane(candidate: Candidate, ready: Ready | None, where: Placed, today: date) -> int | None:
    if candidate.gone:
        return None
    if candidate.archived:
        return ranking.ARCHIVED
    if candidate.execution is not None:
        return ranking.GATING
    if candidate.wake is not None and candidate.wake > today:
        return ranking.DORMANT
    return ranking.lane(ready, where.pace, blocked=bool(candidate.blocked_by))


def _suggest(candidate: Candidate, derived: Readiness | None, *, held: bool) -> Suggest:
    ready = derived.value if derived is not None else None
    found = suggested(ready, blocked=bool(candidate.blocked_by), stale=candidate.staleness >= STALE_FROM)
    return Suggest.TRIAGE if held and found in {Suggest.DO, Suggest.DISPATCH} else found


def _why(
    candidate: Candidate, derived: Readiness | None, signals: Signals, *, lease: Lease | None, viewer: Principal
) -> Iterator[str]:
    yield from _whom_for(derived)
    if candidate.priority is not None:
        yield f"{candidate.priority} by {candidate.priority_by or 'source unrecorded'}"
    if candidate.blocked_by:
        yield f"blocked by {', '.join(candidate.blocked_by)}"
    if signals.blocking:
        yield f"blocks {signals.blocking}"
    if signals.needed_by_days is not None:
        yield _due(signals.needed_by_days)
    if signals.front:
        yield f"front: {signals.front} of your writes in 7 d"
    if signals.heat:
        yield f"heat: {signals.heat} in 30 d"
    yield f"{signals.age_days} d old"
    if signals.staleness >= STALE_FROM:
        yield f"{candidate.stale_edges} of {candidate.edges} edges lead nowhere"
    if lease is not None:
        state = "reserved" if lease.kind is Kind.RESERVATION else "in progress"
        whose = "your claim" if is_own(lease, viewer) else f"by {lease.holder_name or lease.holder}"
        yield f"{state} ({whose})"


def _whom_for(derived: Readiness | None) -> Iterator[str]:
    if derived is None:
        yield "proposed: to be approved by somebody else"
        return
    match derived.value:
        case Ready.HUMAN:
            yield f"needs human: {', '.join(derived.reasons)}"
        case Ready.AGENT:
            yield f"agent-ready: {', '.join(derived.reasons)}"
        case Ready.UNTRIAGED:
            yield from derived.ignored
        case _:
            assert_never(derived.value)


def _due(days: int) -> str:
    if days == 0:
        return "due today"
    return f"due in {days} d" if days > 0 else f"{-days} d overdue"


def _day(day: date | None) -> int | None:
    return ranking.day_number(day) if day is not None else None
