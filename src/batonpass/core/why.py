"""Why an item is or isn't taken: every reason, in words a person acts on, each with its way out (D41)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from batonpass.core import readiness
from batonpass.core.clock import iso, moment
from batonpass.core.eligibility import Scope
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId
from batonpass.core.leases import Kind, is_own
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.policy import Policy
from batonpass.core.queue import HELD_ABOVE, Accept, Candidate, Item, judge, live_lease, may_take
from batonpass.core.readiness import Ready


class Code(StrEnum):
    """What a reason is about: programs tell reasons apart by it."""

    NO_ITEM = "no_item"
    NO_WORK = "no_work"
    DONE = "done"
    GATING = "gating"
    ARCHIVED = "archived"
    DORMANT = "dormant"
    MUTED = "muted"
    LEASED = "leased"
    RESERVED = "reserved"
    LAPSED = "lapsed"
    BLOCKED = "blocked"
    CYCLE = "cycle"
    HUMAN = "human"
    UNTRIAGED = "untriaged"
    CONSENT = "consent"
    ROUTED = "routed"
    PAUSED = "paused"
    TOO_MANY = "too_many_claims"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing to know about an item's place: what it is, and what would change it; None where nothing need."""

    code: Code
    says: str
    way_out: str | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What explains an item besides its own facts."""

    policy: Policy
    resolved_by: NodeId | None = None
    superseded_by: NodeId | None = None
    in_cycle: bool = False
    live_claims: int = 0
    """How many leases in force the asker has."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether an agent takes the item unattended, and what speaks for and against it.

    `item` is how the asker sees it in the queue, None when it is not in it.
    `takes` says for each way of taking whether the asker may take it now.
    """

    item: Item | None
    takes: dict[Accept, bool]
    reasons: tuple[Reason, ...]


def explain(
    candidate: Candidate, asker: Principal, now: Instant, *, scope: Scope, circumstances: Circumstances
) -> Explanation:
    """Return why the candidate is or isn't taken, as `asker` sees it at `now`."""
    reasons = tuple(_reasons(candidate, asker, now, scope=scope, around=circumstances))
    kind = NODE_TYPES[candidate.type]
    shown = judge(candidate, asker, now, scope) if kind.queueable else None
    open_to_claims = circumstances.policy.paused is None and circumstances.live_claims < circumstances.policy.max_claims
    takes = {
        accept: kind.queueable and open_to_claims and may_take(candidate, asker, accept, now) is None
        for accept in Accept
    }
    return Explanation(shown if isinstance(shown, Item) else None, takes, reasons)


def _reasons(
    candidate: Candidate, asker: Principal, now: Instant, *, scope: Scope, around: Circumstances
) -> Iterator[Reason]:
    kind, node = NODE_TYPES[candidate.type], candidate.id
    if not kind.queueable:
        yield Reason(Code.NO_ITEM, f"{_one(kind.name)} is never an item of the queue")
        return
    if not kind.claimable:
        yield Reason(Code.NO_WORK, f"{_one(kind.name)} is not work, so nobody claims it")
    yield from _whether_live(candidate, around)
    if candidate.gone:
        return
    if candidate.archived:
        yield Reason(
            Code.ARCHIVED,
            f"the repository or project {candidate.project} is archived",
            f"baton set repo-{candidate.project} --status none, or the same of proj-{candidate.project}",
        )
    yield from _whether_awake(candidate, moment(now).date(), scope)
    yield from _who_holds(candidate, asker, now)
    for blocker in candidate.blocked_by:
        yield Reason(
            Code.BLOCKED, f"blocked by {blocker}", f"finish {blocker}, or baton unlink {blocker} blocks {node}"
        )
    if around.in_cycle:
        yield Reason(Code.CYCLE, "it waits for itself, round about", "baton unlink one of the edges of that ring")
    yield from _whom_for(candidate, asker, scope)
    yield from _whether_claims_pass(candidate, asker, around)


def _whether_live(candidate: Candidate, around: Circumstances) -> Iterator[Reason]:
    node = candidate.id
    if candidate.execution is not None:
        yield Reason(Code.GATING, f"{candidate.execution} has it until it is settled", "wait until that has ended")
        if not candidate.gone:
            return
    if around.resolved_by is not None:
        yield Reason(
            Code.DONE,
            f"resolved by {around.resolved_by}",
            f"if it is not: baton unlink {around.resolved_by} {_done_by_edge(candidate)}",
        )
    if around.superseded_by is not None:
        yield Reason(Code.DONE, f"superseded by {around.superseded_by}", f"see baton why {around.superseded_by}")
    if candidate.retired and around.superseded_by is None:
        said = f"its status is {candidate.status or 'none'}"
        yield Reason(Code.DONE, said, f"to reopen it: baton set {node} --status open")


def _done_by_edge(candidate: Candidate) -> str:
    """Return the edge that makes it done; which of the two a question has is not among the facts."""
    if candidate.type == "question":
        return f"answers {candidate.id}, or the same with resolves"
    return f"resolves {candidate.id}"


def _whether_awake(candidate: Candidate, today: date, scope: Scope) -> Iterator[Reason]:
    if candidate.wake is not None and candidate.wake > today:
        yield Reason(Code.DORMANT, f"asleep until {candidate.wake}", f"wait, or baton edit {candidate.id} --set wake=")
    if scope.mutes.cover(candidate.id, candidate.project):
        yield Reason(
            Code.MUTED, "you have muted it or its project; others see it", "take it out of queue_mute on your own node"
        )


def _who_holds(candidate: Candidate, asker: Principal, now: Instant) -> Iterator[Reason]:
    lease, row, node = live_lease(candidate, now), candidate.lease, candidate.id
    if lease is not None and lease.expires_at is not None:
        until, who = iso(lease.expires_at), lease.holder_name or lease.holder
        whose = f"{who} (yours)" if is_own(lease, asker) else who
        if lease.kind is Kind.RESERVATION:
            says, code = f"reserved by {whose} until {until}", Code.RESERVED
        else:
            says, code = f"held by {whose} until {until}, unless it is renewed", Code.LEASED
        out = f"baton release {node}" if is_own(lease, asker) else f"wait, or baton take {node} --reason WHY"
        yield Reason(code, says, out)
    elif row is not None and row.kind is not Kind.NONE and row.expires_at is not None:
        yield Reason(Code.LAPSED, f"{row.holder_name or row.holder} let it lapse at {iso(row.expires_at)}: it is free")


def _whom_for(candidate: Candidate, asker: Principal, scope: Scope) -> Iterator[Reason]:
    if candidate.proposal:
        out = f"somebody else than its author says: baton set {candidate.id} --status active"
        yield Reason(Code.HUMAN, "a proposed schema waits for approval", out)
        return
    facts, node = candidate.ready, candidate.id
    held = scope.front.get(node, 0) > HELD_ABOVE and bool(candidate.outcomes) and not candidate.blocked_by
    derived = readiness.derive(replace(facts, held=held))
    if derived.value is Ready.HUMAN:
        for why in derived.reasons:
            yield Reason(Code.HUMAN, f"for a person: {why}", _way_out_for_people(candidate, why))
    elif derived.value is Ready.AGENT:
        for why in derived.reasons:
            yield Reason(Code.CONSENT, f"for agents: {why}")
    else:
        yield Reason(Code.UNTRIAGED, "nobody has said that agents may take it", f"a person says so: baton ready {node}")
    for ignored in derived.ignored:
        yield Reason(
            Code.CONSENT, ignored, f"a person says so: baton ready {node}; or an admin sets the policy agents_may_ready"
        )
    routed = candidate.assigned_agents
    if routed and NodeId(asker.id) not in routed:
        names = ", ".join(routed)
        out = f"baton unlink {node} assigned {routed[0]}"
        yield Reason(Code.ROUTED, f"routed to {names}, so no other takes it unasked", out)


def _one(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _way_out_for_people(candidate: Candidate, why: str) -> str:
    node = candidate.id
    if why.startswith("assigned to "):
        return f"baton unlink {node} assigned {why.removeprefix('assigned to ')}"
    asked = next((one for one in candidate.ready.open_questions if why.startswith(f"open question {one} ")), None)
    if asked is not None:
        return f"baton answer {asked} TEXT"
    if why.startswith("lapsed "):
        return f"see why runs die on it; then a person says: baton ready {node}"
    if why.startswith("run "):
        return f"see what its runs did: baton runs --fleet --node {node}; then a person says: baton ready {node}"
    if why == "requires human":
        return f"baton edit {node} --set requires="
    if candidate.type == "question":
        return f"baton answer {node} TEXT"
    return f"decide what becomes of it, with baton show {node}"


def _whether_claims_pass(candidate: Candidate, asker: Principal, around: Circumstances) -> Iterator[Reason]:
    policy = around.policy
    if policy.paused is not None:
        yield Reason(
            Code.PAUSED,
            f"claims are paused: {policy.paused}",
            f"an admin resumes: baton resume --project {candidate.project or '*'}",
        )
    if around.live_claims >= policy.max_claims:
        yield Reason(
            Code.TOO_MANY,
            f"{asker.id} holds {around.live_claims} items, and the limit is {policy.max_claims}",
            "baton release what is not worked on",
        )
