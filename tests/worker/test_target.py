from __future__ import annotations

from typing import Any

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId
from batonpass.core.outcome import Resolver
from batonpass.core.why import Code
from batonpass.wire.nodes import ExecutionHoldBody, NodeRef, NodeReply, ResolutionBody
from batonpass.wire.why import ReasonBody, TakesBody, WhyReply
from batonpass.worker.dispatch.target import Assigned, Reason, target_of

OPEN = WhyReply("task-1", TakesBody(ready=False, open=True), [])


def node(id_: str = "task-1", *, type_: str = "task", **matter: object) -> NodeReply:
    whole: dict[str, Any] = {"id": id_, "type": type_, "title": f"Title of {id_}", **matter}
    return NodeReply(id=id_, raw="raw", frontmatter=whole, body="", revision="r1")


def test_what_decides_about_a_run_is_read_off_the_node() -> None:
    reply = node(
        project="mail",
        status="open",
        requires=["human", "network"],
        profile="profile-deep",
        edges=[
            {"type": "assigned", "to": "agent-mill", "profile": "profile-fast"},
            {"type": "assigned", "to": "person-pat"},
            {"type": "assigned", "to": "agent-other", "via": "claim", "epoch": 3},
            {"type": "blocks", "to": "task-2"},
        ],
    )

    target = target_of(reply, OPEN)

    assert (target.id, target.type, target.title, target.project) == ("task-1", "task", "Title of task-1", "mail")
    assert (target.requires, target.profile) == (("human", "network"), "profile-deep")
    assert target.assigned == (
        Assigned(NodeId("agent-mill"), NodeId("profile-fast")),
        Assigned(NodeId("person-pat"), None),
    )
    assert (target.claimable, target.retired) == (True, None)
    assert target.item.assigned == ("agent-mill",)


def test_one_requirement_may_stand_without_a_list() -> None:
    assert target_of(node(requires="human"), OPEN).requires == ("human",)


def test_what_retires_a_node_is_named() -> None:
    resolved, superseded, held = node(), node(), node()
    resolved.resolution = ResolutionBody("art-1", "resolves", None, "", "", lagging=True, note="")
    superseded.superseded_by = [NodeRef("task-2", "", None)]
    held.execution_hold = ExecutionHoldBody("exec-1", "")

    assert target_of(resolved, OPEN).retired == "resolved by art-1"
    assert target_of(resolved, OPEN).resolver == Resolver(NodeId("art-1"), "resolves")
    assert target_of(superseded, OPEN).retired == "superseded by task-2"
    assert target_of(node(status="done"), OPEN).retired == "done by its status"
    assert target_of(held, OPEN).execution == "exec-1"


def test_a_question_is_answered_and_not_resolved() -> None:
    reply = node("question-1", type_="question")
    reply.resolution = ResolutionBody("dec-1", "answers", None, "", "", lagging=False, note="")

    assert target_of(reply, OPEN).retired == "answered by dec-1"


@pytest.mark.parametrize("type_, claimable", [("decision", True), ("artifact", False), ("of-tomorrow", False)])
def test_some_types_are_no_work(type_: str, claimable: bool) -> None:  # noqa: FBT001 — a column of the table
    assert target_of(node("x-1", type_=type_), OPEN).claimable is claimable


def test_the_servers_reasons_are_kept_by_their_codes() -> None:
    why = WhyReply(
        "task-1",
        TakesBody(ready=False, open=False),
        [ReasonBody("human", "for a person: held", "decide"), ReasonBody("of_tomorrow", "something new")],
    )

    target = target_of(node(), why)

    assert target.because(Code.HUMAN) == (Reason("human", "for a person: held", "decide"),)
    assert target.item.readiness == "human"
    assert target_of(node(), OPEN).item.readiness is None


def test_a_profile_that_is_no_id_is_refused_and_not_passed_over() -> None:
    with pytest.raises(Invalid, match="profile"):
        target_of(node(profile="Not An Id"), OPEN)
