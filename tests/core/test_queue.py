from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from batonpass.core import readiness
from batonpass.core.clock import micros
from batonpass.core.identity import Kind as Who
from batonpass.core.identity import Principal
from batonpass.core.ids import AgentId, HolderId, Instant, NodeId, PersonId, Resource, TokenHash
from batonpass.core.leases import Kind, Lease
from batonpass.core.queue import (
    Accept,
    Candidate,
    Hidden,
    Item,
    Scope,
    Signals,
    Suggest,
    count_by,
    day,
    judge,
    may_take,
    order,
    score,
    urgency,
)
from batonpass.core.readiness import Consent, Routing

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


def test_the_order_is_own_reservations_then_priority_then_age_then_id() -> None:
    wanted = [
        shown(candidate(id=NodeId("task-reserved"), lease=lease(PERSON, kind=Kind.RESERVATION))),
        shown(candidate(id=NodeId("task-held"), priority="p1", born=days_ago(9), lease=lease(PERSON))),
        shown(candidate(id=NodeId("task-p1"), priority="p1")),
        shown(candidate(id=NodeId("task-p3"), priority="p3", born=days_ago(99))),
        shown(candidate(id=NodeId("task-old"), born=days_ago(2))),
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


@pytest.mark.parametrize(
    "needed_by_days, points",
    [(None, 0), (31, 0), (30, 0), (15, 1.5), (0, 3), (-15, 4), (-30, 5), (-300, 5)],
)
def test_urgency_rises_from_a_month_ahead_to_a_month_after(needed_by_days: int | None, points: float) -> None:
    assert urgency(needed_by_days) == points


@pytest.mark.parametrize(
    "priority, signals, points",
    [
        (None, Signals(0, 0, 11, None), 0.37),
        ("p2", Signals(1, 0, 42, None), 7.4),
        ("p1", Signals(0, 1, 72, None), 5.4),
        ("p3", Signals(0, 0, 900, 0), 7.0),
    ],
)
def test_a_score_adds_up_what_is_known(priority: str | None, signals: Signals, points: float) -> None:
    assert score(priority, signals) == points


def test_values_are_counted_most_often_first() -> None:
    assert list(count_by(["b", "a", None, "b"]).items()) == [("b", 2), ("a", 1), ("none", 1)]


def test_a_stored_day_is_a_date() -> None:
    assert (day("2026-06-15"), day(None)) == (TODAY, None)
