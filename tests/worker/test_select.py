from __future__ import annotations

from dataclasses import replace

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.core.queue import Accept
from batonpass.worker import select
from batonpass.worker.graph import Item
from batonpass.worker.select import Kind, Skipped

AGENT = AgentId(HolderId("agent-mill"))
OTHER = AgentId(HolderId("agent-other"))
ITEM = Item(NodeId("task-1"), "Title", "task", "mail", "agent", "dispatch")


@pytest.mark.parametrize(
    "item, ready, open_",
    [
        (ITEM, True, True),
        (replace(ITEM, readiness=None, suggest="do"), False, True),
        (replace(ITEM, readiness="human"), False, False),
        (replace(ITEM, type="question"), False, False),
        (replace(ITEM, suggest="blocked"), False, False),
        (replace(ITEM, lease_state="in_progress"), False, False),
        (replace(ITEM, lease_state="reserved"), True, True),
        (replace(ITEM, assigned=(AGENT, OTHER)), True, True),
        (replace(ITEM, assigned=(OTHER,)), False, False),
        (replace(ITEM, findings=(NodeId("find-slow"),)), True, True),
        (replace(ITEM, findings=(NodeId("find-slow"), NodeId("find-declined-1-0b101010"))), False, False),
    ],
)
def test_consent_decides_and_a_persons_items_are_never_taken(item: Item, *, ready: bool, open_: bool) -> None:
    assert (select.refusal(item, accept=Accept.READY, agent=AGENT) is None) is ready
    assert (select.refusal(item, accept=Accept.OPEN, agent=AGENT) is None) is open_


def test_candidates_keep_the_queues_order_and_the_others_have_a_reason() -> None:
    items = [replace(ITEM, id=NodeId(f"task-{i}"), readiness="human" if i == 2 else "agent") for i in (3, 2, 1)]

    choice = select.choose(items, accept=Accept.READY, agent=AGENT)

    assert choice.candidates == ("task-3", "task-1")
    assert choice.skipped == (Skipped(NodeId("task-2"), "it needs a person", Kind.HUMAN),)


def test_no_more_candidates_are_named_than_one_call_takes() -> None:
    items = [replace(ITEM, id=NodeId(f"task-{i}")) for i in range(80)]

    assert len(select.choose(items, accept=Accept.READY, agent=AGENT).candidates) == 50


def test_an_unknown_policy_is_refused_with_the_ones_there_are() -> None:
    assert select.parse_accept("open") is Accept.OPEN
    with pytest.raises(Invalid, match="'Ready' is not a policy; it is one of ready, open"):
        select.parse_accept("Ready")
