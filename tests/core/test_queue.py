from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from batonpass.core import ranking, readiness
from batonpass.core.clock import micros
from batonpass.core.eligibility import Hidden, Scope, mutes
from batonpass.core.identity import Kind as Who
from batonpass.core.identity import Principal
from batonpass.core.ids import AgentId, HolderId, Instant, NodeId, PersonId, Resource, TokenHash
from batonpass.core.leases import Kind, Lease
from batonpass.core.queue import Accept, Candidate, Item, Suggest, day, judge, keep, may_take, order
from batonpass.core.readiness import Consent, Ready, Routing

NOW = Instant(micros(datetime(2026, 6, 15, 12, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)))
TODAY = date(2026, 6, 15)
HOUR = micros(timedelta(hours=1))
ADA = PersonId(HolderId("person-ada"))
PERSON = Principal(HolderId("person-ada"), Who.PERSON, "Ada", TokenHash("p"), person=ADA)
SEVEN = Principal(HolderId("agent-seven"), Who.AGENT, "seven", TokenHash("s"), person=ADA)
NINE = Principal(HolderId("agent-nine"), Who.AGENT, "nine", TokenHash("n"), person=ADA)
READY = Consent("Ada", by_person=True)


def days_ago(days: int) -> Instant:
    return Instant(NOW - days * 24 * HOUR)


def candidate(**changes: Any) -> Candidate:  # noqa: ANN401 — fields of several types
    kind = changes.pop("type", "task")
    facts = readiness.Facts(
        kind,
        consent=changes.pop("consent", None),
        requires=changes.pop("requires", ()),
        routings=changes.pop("routings", ()),
    )
    plain = Candidate(
        id=NodeId("task-a"),
        type=kind,
        title="A",
        status=None,
        project="demo",
        priority=None,
        priority_by=None,
        priority_via=None,
        born=NOW,
        wake=None,
        needed_by=None,
        profile=None,
        lease=None,
        ready=facts,
        blocked_by=(),
        blocking=0,
        findings=(),
    )
    return replace(plain, **changes)


def lease(holder: Principal, *, kind: Kind = Kind.CLAIM, ends: int = HOUR, granted: int = -HOUR) -> Lease:
    return Lease(
        resource=Resource("task-a"),
        kind=kind,
        holder=holder.id,
        holder_name=holder.name,
        owner=holder.person,
        session=None,
        dispatch=None,
        epoch=1,
        version=1,
        claimed_at=Instant(NOW + granted),
        granted_at=Instant(NOW + granted),
        expires_at=Instant(NOW + ends),
        lapses=0,
        run_token=None,
        acquired_under=None,
        taken_from=None,
        provisional=False,
    )


def shown(one: Candidate, viewer: Principal = PERSON, scope: Scope | None = None) -> Item:
    seen = judge(one, viewer, NOW, scope or Scope())
    assert isinstance(seen, Item), seen
    return seen


@pytest.mark.parametrize(
    "one, viewer, hidden",
    [
        (candidate(wake=TODAY + timedelta(days=1)), PERSON, Hidden.DORMANT),
        (candidate(lease=lease(SEVEN)), NINE, Hidden.LEASED),
        (candidate(lease=lease(PERSON)), SEVEN, Hidden.LEASED),
        (candidate(lease=lease(SEVEN, kind=Kind.RESERVATION)), NINE, Hidden.RESERVED),
        (candidate(blocked_by=(NodeId("task-b"),)), PERSON, Hidden.BLOCKED),
    ],
)
def test_what_a_page_hides(one: Candidate, viewer: Principal, hidden: Hidden) -> None:
    assert judge(one, viewer, NOW, Scope()) is hidden


@pytest.mark.parametrize(
    "one, viewer",
    [
        (candidate(wake=TODAY), PERSON),
        (candidate(lease=lease(SEVEN)), SEVEN),
        (candidate(lease=lease(SEVEN)), PERSON),
        (candidate(lease=lease(SEVEN, ends=0)), NINE),
        (candidate(lease=lease(SEVEN, kind=Kind.RESERVATION, ends=-1)), NINE),
        (candidate(), NINE),
    ],
)
def test_what_a_page_shows(one: Candidate, viewer: Principal) -> None:
    assert shown(one, viewer).candidate == one


def test_a_lease_granted_by_a_clock_that_was_ahead_is_read_as_its_span_from_now() -> None:
    ahead = lease(SEVEN, granted=10 * HOUR, ends=11 * HOUR)

    assert judge(candidate(lease=ahead), NINE, NOW, Scope()) is Hidden.LEASED


def test_an_assignee_read_shows_what_others_hold_and_what_is_blocked() -> None:
    one = candidate(lease=lease(SEVEN), blocked_by=(NodeId("task-b"),))

    seen = shown(one, NINE, Scope(everything=True))

    assert (seen.suggest, seen.why) == (Suggest.BLOCKED, "blocked by task-b; 0 d old; in progress (by seven)")


def test_blocked_items_are_listed_when_asked_for() -> None:
    one = candidate(blocked_by=(NodeId("task-b"),))

    assert shown(one, PERSON, Scope(include_blocked=True)).suggest is Suggest.BLOCKED


@pytest.mark.parametrize(
    "one, suggest, why",
    [
        (candidate(consent=READY), Suggest.DISPATCH, "agent-ready: marked ready by Ada; 0 d old"),
        (candidate(), Suggest.DO, "0 d old"),
        (candidate(requires=("human",)), Suggest.DO, "needs human: requires human; 0 d old"),
        (candidate(priority="p2"), Suggest.DO, "p2 by source unrecorded; 0 d old"),
        (candidate(priority="p1", priority_by="Ada"), Suggest.DO, "p1 by Ada; 0 d old"),
        (candidate(blocking=2, born=days_ago(3)), Suggest.DO, "blocks 2; 3 d old"),
        (candidate(needed_by=TODAY), Suggest.DO, "due today; 0 d old"),
        (candidate(needed_by=TODAY + timedelta(days=2)), Suggest.DO, "due in 2 d; 0 d old"),
        (candidate(needed_by=TODAY - timedelta(days=2)), Suggest.DO, "2 d overdue; 0 d old"),
        (candidate(lease=lease(PERSON)), Suggest.DO, "0 d old; in progress (your claim)"),
        (
            candidate(lease=lease(PERSON, kind=Kind.RESERVATION)),
            Suggest.DO,
            "0 d old; reserved (your claim)",
        ),
    ],
)
def test_an_item_says_what_to_do_with_it_and_why(one: Candidate, suggest: Suggest, why: str) -> None:
    seen = shown(one)

    assert (seen.suggest, seen.why) == (suggest, why)


def test_the_order_is_own_reservations_then_score_then_age_then_id() -> None:
    wanted = [
        shown(candidate(id=NodeId("task-reserved"), lease=lease(PERSON, kind=Kind.RESERVATION))),
        shown(candidate(id=NodeId("task-held"), priority="p1", born=days_ago(9), lease=lease(PERSON))),
        shown(candidate(id=NodeId("task-p1"), priority="p1")),
        shown(candidate(id=NodeId("task-old-p3"), priority="p3", born=days_ago(99))),
        shown(candidate(id=NodeId("task-old"), born=days_ago(32))),
        shown(candidate(id=NodeId("task-p3"), priority="p3", born=days_ago(1))),
        shown(candidate(id=NodeId("task-a"))),
        shown(candidate(id=NodeId("task-b"))),
    ]

    shuffled = wanted[::-1]
    assert sorted(shuffled, key=lambda item: order(item, PERSON)) == wanted


def test_what_others_have_reserved_stays_where_it_ranks() -> None:
    everything = Scope(everything=True)
    theirs = shown(candidate(lease=lease(NINE, kind=Kind.RESERVATION)), SEVEN, everything)
    high = shown(candidate(id=NodeId("task-p1"), priority="p1"), SEVEN, everything)

    assert sorted([theirs, high], key=lambda item: order(item, SEVEN)) == [high, theirs]
    assert sorted([high, theirs], key=lambda item: order(item, NINE)) == [theirs, high]


@pytest.mark.parametrize(
    "one, taker, accept, why",
    [
        (candidate(consent=READY), SEVEN, Accept.READY, None),
        (candidate(), SEVEN, Accept.OPEN, None),
        (candidate(), SEVEN, Accept.READY, "not marked ready for agents"),
        (candidate(requires=("human",), consent=READY), SEVEN, Accept.OPEN, "needs a human: requires human"),
        (candidate(type="question"), SEVEN, Accept.OPEN, "a question is a person's to answer"),
        (candidate(type="workflow"), SEVEN, Accept.OPEN, "a workflow is not work"),
        (candidate(type="workflow-run"), SEVEN, Accept.OPEN, "a workflow-run is not work"),
        (candidate(type="schema", status="proposed"), SEVEN, Accept.OPEN, "a schema is not work"),
        (candidate(resolved=True, consent=READY), SEVEN, Accept.READY, "already resolved or retired"),
        (candidate(retired=True, consent=READY), SEVEN, Accept.READY, "already resolved or retired"),
        (candidate(consent=READY, lease=lease(NINE)), SEVEN, Accept.READY, "leased"),
        (candidate(consent=READY, lease=lease(SEVEN)), SEVEN, Accept.READY, "already held by this taker's side"),
        (candidate(consent=READY, lease=lease(SEVEN)), PERSON, Accept.READY, "already held by this taker's side"),
        (candidate(consent=READY, lease=lease(SEVEN, kind=Kind.RESERVATION)), SEVEN, Accept.READY, None),
        (candidate(consent=READY, lease=lease(NINE, kind=Kind.RESERVATION)), SEVEN, Accept.READY, "reserved"),
        (candidate(consent=READY, wake=TODAY + timedelta(days=1)), SEVEN, Accept.READY, "dormant"),
        (candidate(consent=READY, blocked_by=(NodeId("task-b"),)), SEVEN, Accept.READY, "blocked"),
    ],
)
def test_what_an_agent_may_take_unattended(one: Candidate, taker: Principal, accept: Accept, why: str | None) -> None:
    assert may_take(one, taker, accept, NOW) == why


def test_an_item_routed_to_an_agent_is_that_agents() -> None:
    routed = candidate(routings=(Routing(NodeId(AgentId(HolderId("agent-nine"))), to_agent=True, by_person=True),))

    assert may_take(routed, NINE, Accept.READY, NOW) is None
    assert may_take(routed, SEVEN, Accept.READY, NOW) == "assigned to agent-nine"
    assert may_take(routed, SEVEN, Accept.OPEN, NOW) == "assigned to agent-nine"


def test_a_stored_day_is_a_date() -> None:
    assert (day("2026-06-15"), day(None)) == (TODAY, None)


@pytest.mark.parametrize(
    "one, hidden",
    [
        (candidate(archived=True), Hidden.ARCHIVED),
        (candidate(archived=True, resolved=True), Hidden.GONE),
        (candidate(retired=True, wake=TODAY + timedelta(days=1)), Hidden.GONE),
        (candidate(execution="pipelines/r1"), Hidden.GATING),
        (candidate(execution="pipelines/r1", resolved=True), Hidden.GATING),
        (candidate(execution="pipelines/r1", status="done", retired=True), Hidden.GATING),
        (candidate(execution="pipelines/r1", status="abandoned", retired=True), Hidden.GONE),
    ],
)
def test_what_is_no_item_is_told_from_what_only_waits(one: Candidate, hidden: Hidden) -> None:
    assert judge(one, PERSON, NOW, Scope()) is hidden


def test_an_item_in_a_pipeline_is_nobodys_but_shows_in_an_assignee_read() -> None:
    one = candidate(execution="pipelines/r1", consent=READY)

    assert may_take(one, SEVEN, Accept.READY, NOW) == "gating"
    assert shown(one, PERSON, Scope(everything=True)).candidate == one


def test_what_is_muted_is_hidden_by_its_name_or_its_projects() -> None:
    for name in ("demo", "task-a"):
        assert judge(candidate(), PERSON, NOW, Scope(mutes=mutes([name], TODAY))) is Hidden.MUTED
    assert shown(candidate(), PERSON, Scope(mutes=mutes(["other"], TODAY))).candidate == candidate()


@pytest.mark.parametrize(
    "entry, names",
    [
        ("demo", {"demo"}),
        ("task-a@2026-06-16", {"task-a"}),
        ("task-a@2026-06-15", set()),
        ("task-a@2026-06-14", set()),
        ("task-a@soon", {"task-a"}),
    ],
)
def test_a_mute_with_a_date_ends_when_that_day_begins(entry: str, names: set[str]) -> None:
    assert mutes([entry], TODAY).names == names


def worked_on(times: int) -> Scope:
    return Scope(front={NodeId("task-a"): times})


def test_a_task_with_an_outcome_that_resolves_nothing_is_held_from_whoever_keeps_touching_it() -> None:
    outcome = (NodeId("art-a"),)
    one = candidate(consent=READY, outcomes=outcome)

    held = shown(one, PERSON, worked_on(3))

    assert (held.suggest, held.ready, held.signals.front, held.units) == (Suggest.TRIAGE, Ready.HUMAN, 0, 0)
    assert "held" in held.why
    for free in (
        shown(one, PERSON, worked_on(2)),
        shown(candidate(consent=READY), PERSON, worked_on(3)),
        shown(candidate(type="issue", consent=READY, outcomes=outcome), PERSON, worked_on(3)),
    ):
        assert (free.suggest, free.ready) == (Suggest.DISPATCH, Ready.AGENT)
        assert free.signals.front > 0
    blocked = shown(
        candidate(outcomes=outcome, blocked_by=(NodeId("task-b"),)), PERSON, replace(worked_on(3), include_blocked=True)
    )
    assert blocked.suggest is Suggest.BLOCKED


@pytest.mark.parametrize(
    "changes, suggest",
    [
        ({"edges": 2, "stale_edges": 1, "consent": READY}, Suggest.CLOSE),
        ({"edges": 3, "stale_edges": 1, "consent": READY}, Suggest.DISPATCH),
        ({"edges": 2, "stale_edges": 1, "blocked_by": (NodeId("task-b"),)}, Suggest.CLOSE),
        ({"blocked_by": (NodeId("task-b"),), "consent": READY}, Suggest.BLOCKED),
        ({"consent": READY}, Suggest.DISPATCH),
        ({}, Suggest.DO),
        ({"type": "schema", "status": "proposed"}, Suggest.APPROVE),
    ],
)
def test_the_first_reason_decides_what_is_suggested(changes: dict[str, Any], suggest: Suggest) -> None:
    assert shown(candidate(**changes), PERSON, Scope(include_blocked=True)).suggest is suggest


def test_a_proposed_schema_is_ranked_by_itself_and_its_age_and_is_for_nobody_in_particular() -> None:
    proposal = shown(
        candidate(type="schema", status="proposed", priority="p1", blocking=4, born=days_ago(45), needed_by=TODAY)
    )

    assert (proposal.score, proposal.readiness, proposal.ready) == (6.5, None, None)
    assert proposal.why.startswith("proposed")


def test_what_the_index_keeps_is_the_score_of_whoever_did_nothing_to_it() -> None:
    one = candidate(consent=READY, priority="p2", blocking=1, heat=1, born=days_ago(42))

    kept = keep(one, NOW)

    assert ranking.units_on(ranking.day_number(TODAY), pace=1, place=kept.place) == shown(one).units
    assert (kept.lane, kept.ready, kept.busy) == (ranking.lane(Ready.AGENT, 1, blocked=False), Ready.AGENT, False)
    assert 7 <= kept.turns - ranking.day_number(TODAY) < 14, "its heat is counted anew"
    assert keep(replace(one, heat=0), NOW).turns == ranking.day_number(TODAY) + 48


@pytest.mark.parametrize(
    "one, lane",
    [
        (candidate(retired=True), None),
        (candidate(archived=True), ranking.ARCHIVED),
        (candidate(execution="pipelines/r1"), ranking.GATING),
        (candidate(wake=TODAY + timedelta(days=2)), ranking.DORMANT),
        (candidate(blocked_by=(NodeId("task-b"),)), ranking.lane(Ready.UNTRIAGED, 1, blocked=True)),
        (candidate(type="schema", status="proposed"), ranking.lane(None, 1, blocked=False)),
    ],
)
def test_what_only_is_counted_has_a_lane_of_its_own(one: Candidate, lane: int | None) -> None:
    assert keep(one, NOW).lane == lane
