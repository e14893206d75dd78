"""Why an item is or isn't taken (D41): every reason that the law can give, with its way out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.core.test_queue import HOUR, NOW, PERSON, READY, SEVEN, TODAY, candidate, lease

from batonpass.core.eligibility import Scope, mutes
from batonpass.core.ids import NodeId
from batonpass.core.leases import Kind
from batonpass.core.policy import Policy
from batonpass.core.queue import HELD_ABOVE, Accept, Candidate
from batonpass.core.readiness import Routing
from batonpass.core.why import Circumstances, Code, Reason, explain

B = NodeId("task-b")
QUESTION = NodeId("question-q")
OPEN = Circumstances(Policy())


def reasons(
    one: Candidate,
    around: Circumstances = OPEN,
    *,
    scope: Scope | None = None,
    asker: Any = SEVEN,  # noqa: ANN401
) -> list[tuple[Code, str | None]]:
    said = explain(one, asker, NOW, scope=scope or Scope(), circumstances=around).reasons
    return [(reason.code, reason.way_out) for reason in said]


def asking(one: Candidate, **facts: object) -> Candidate:
    return replace(one, ready=replace(one.ready, **facts))  # type: ignore[arg-type]  # fields of several types


@pytest.mark.parametrize(
    "one, around, code, way_out",
    [
        (candidate(type="artifact"), OPEN, Code.NO_ITEM, None),
        (candidate(type="schema", status="proposed"), OPEN, Code.NO_WORK, None),
        (
            candidate(type="schema", status="proposed"),
            OPEN,
            Code.HUMAN,
            "somebody else than its author says: baton set task-a --status active",
        ),
        (candidate(execution="pipelines/r1"), OPEN, Code.GATING, "wait until that has ended"),
        (
            candidate(resolved=True),
            replace(OPEN, resolved_by=NodeId("dec-x")),
            Code.DONE,
            "if it is not: baton unlink dec-x resolves task-a",
        ),
        (
            candidate(type="question", resolved=True),
            replace(OPEN, resolved_by=NodeId("dec-x")),
            Code.DONE,
            "if it is not: baton unlink dec-x answers task-a, or the same with resolves",
        ),
        (candidate(retired=True), replace(OPEN, superseded_by=B), Code.DONE, "see baton why task-b"),
        (candidate(retired=True, status="abandoned"), OPEN, Code.DONE, "to reopen it: baton set task-a --status open"),
        (
            candidate(archived=True),
            OPEN,
            Code.ARCHIVED,
            "baton set repo-demo --status none, or the same of proj-demo",
        ),
        (candidate(wake=TODAY + timedelta(days=1)), OPEN, Code.DORMANT, "wait, or baton edit task-a --set wake="),
        (candidate(lease=lease(SEVEN)), OPEN, Code.LEASED, "baton release task-a"),
        (candidate(lease=lease(PERSON)), OPEN, Code.LEASED, "wait, or baton take task-a --reason WHY"),
        (candidate(lease=lease(SEVEN, kind=Kind.RESERVATION)), OPEN, Code.RESERVED, "baton release task-a"),
        (candidate(lease=lease(PERSON, ends=-HOUR, granted=-2 * HOUR)), OPEN, Code.LAPSED, None),
        (candidate(blocked_by=(B,)), OPEN, Code.BLOCKED, "finish task-b, or baton unlink task-b blocks task-a"),
        (
            candidate(blocked_by=(B,)),
            replace(OPEN, in_cycle=True),
            Code.CYCLE,
            "baton unlink one of the edges of that ring",
        ),
        (candidate(), OPEN, Code.UNTRIAGED, "a person says so: baton ready task-a"),
        (candidate(consent=READY), OPEN, Code.CONSENT, None),
        (
            candidate(consent=replace(READY, by_person=False)),
            OPEN,
            Code.CONSENT,
            "a person says so: baton ready task-a; or an admin sets the policy agents_may_ready",
        ),
        (
            candidate(routings=(Routing(NodeId("agent-nine"), to_agent=True, by_person=True),)),
            OPEN,
            Code.ROUTED,
            "baton unlink task-a assigned agent-nine",
        ),
        (
            candidate(routings=(Routing(NodeId("person-ada"), to_agent=False, by_person=True),)),
            OPEN,
            Code.HUMAN,
            "baton unlink task-a assigned person-ada",
        ),
        (candidate(requires=("human",)), OPEN, Code.HUMAN, "baton edit task-a --set requires="),
        (asking(candidate(), open_questions=(QUESTION,)), OPEN, Code.HUMAN, "baton answer question-q TEXT"),
        (candidate(type="question"), OPEN, Code.HUMAN, "baton answer task-a TEXT"),
        (
            candidate(type="capture-pending"),
            OPEN,
            Code.HUMAN,
            "decide what becomes of it, with baton show task-a",
        ),
        (
            asking(candidate(), lapses=5),
            OPEN,
            Code.HUMAN,
            "see why runs die on it; then a person says: baton ready task-a",
        ),
        (
            candidate(),
            Circumstances(Policy(paused="incident 7")),
            Code.PAUSED,
            "an admin resumes: baton resume --project demo",
        ),
        (
            candidate(),
            replace(OPEN, live_claims=Policy().max_claims),
            Code.TOO_MANY,
            "baton release what is not worked on",
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Code) else "",
)
def test_each_reason_comes_with_its_way_out(
    one: Candidate, around: Circumstances, code: Code, way_out: str | None
) -> None:
    assert (code, way_out) in reasons(one, around)


def test_what_is_muted_is_said_to_whoever_muted_it() -> None:
    scope = Scope(mutes=mutes(["demo"], TODAY))

    assert (Code.MUTED, "take it out of queue_mute on your own node") in reasons(candidate(), scope=scope, asker=PERSON)


def test_work_that_stands_there_without_resolving_anything_is_for_the_person_who_did_it() -> None:
    one = candidate(outcomes=(NodeId("art-x"),), consent=READY)
    scope = Scope(front={one.id: HELD_ABOVE + 1})

    held = explain(one, PERSON, NOW, scope=scope, circumstances=OPEN).reasons

    assert [(reason.code, reason.way_out) for reason in held] == [
        (Code.HUMAN, "decide what becomes of it, with baton show task-a")
    ]


def test_what_was_given_up_while_a_pipeline_had_it_says_both() -> None:
    one = candidate(execution="pipelines/r1", retired=True, status="abandoned")

    assert [code for code, _ in reasons(one)] == [Code.GATING, Code.DONE]


def test_what_is_over_is_not_explained_any_further() -> None:
    one = candidate(resolved=True, wake=TODAY + timedelta(days=9), blocked_by=(B,))

    assert [code for code, _ in reasons(one, replace(OPEN, resolved_by=NodeId("dec-x")))] == [Code.DONE]


@pytest.mark.parametrize(
    "one, around, takes",
    [
        (candidate(consent=READY), OPEN, {Accept.READY: True, Accept.OPEN: True}),
        (candidate(), OPEN, {Accept.READY: False, Accept.OPEN: True}),
        (candidate(consent=READY), Circumstances(Policy(paused="x")), {Accept.READY: False, Accept.OPEN: False}),
        (candidate(type="artifact"), OPEN, {Accept.READY: False, Accept.OPEN: False}),
    ],
)
def test_whether_it_would_be_given_agrees_with_the_law(
    one: Candidate, around: Circumstances, takes: dict[Accept, bool]
) -> None:
    assert explain(one, SEVEN, NOW, scope=Scope(), circumstances=around).takes == takes


def test_a_reason_without_a_way_out_needs_none() -> None:
    (reason,) = explain(candidate(consent=READY), SEVEN, NOW, scope=Scope(), circumstances=OPEN).reasons

    assert reason == Reason(Code.CONSENT, "for agents: marked ready by Ada")


def test_each_open_question_has_the_command_that_answers_it_and_no_other() -> None:
    questions = (QUESTION, NodeId("question-q-2"))

    said = reasons(asking(candidate(), open_questions=questions))

    assert [out for code, out in said if code is Code.HUMAN] == [
        "baton answer question-q TEXT",
        "baton answer question-q-2 TEXT",
    ]


def test_a_type_is_named_with_its_article() -> None:
    said = explain(candidate(type="artifact"), SEVEN, NOW, scope=Scope(), circumstances=OPEN).reasons

    assert [reason.says for reason in said] == ["an artifact is never an item of the queue"]
