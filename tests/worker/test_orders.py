"""What is run for an item: the worker's own, unless a profile asks for more, which is met or refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.core.errors import NotFound
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.wire.nodes import NodeReply
from batonpass.wire.why import WhyReply
from batonpass.worker.boxfile import BoxFile
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Item
from batonpass.worker.orders import Orders, with_harness

MILL = AgentId(HolderId("agent-mill"))
DEEP = NodeId("profile-deep")


class Nodes:
    """Nodes by id; every reading is counted."""

    def __init__(self) -> None:
        self.matter: dict[str, dict[str, object]] = {}
        self.asked: list[str] = []

    def node(self, id_: NodeId) -> NodeReply:
        self.asked.append(id_)
        if id_ not in self.matter:
            raise NotFound(f"{id_} is not there")
        return NodeReply(id=id_, raw="", frontmatter={"id": id_, **self.matter[id_]}, body="", revision="r1")

    def why(self, id_: NodeId) -> WhyReply:
        raise NotImplementedError(id_)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def orders(nodes: Nodes, tmp_path: Path) -> Orders:
    for name in ("codex", "gemini"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return Orders(nodes, BoxFile(), {"PATH": str(tmp_path)}, MILL, lambda: clock[0])


clock = [0.0]


def item(profile: str | None = None) -> Item:
    return Item(NodeId("task-1"), "Title", "task", "mail", "agent", "do", profile=profile)


def base(orders: Orders) -> Order:
    return with_harness(Order((), Path("/")), "codex", orders.box, orders.inherited)


def test_an_item_that_asks_for_nothing_gets_what_all_get(orders: Orders) -> None:
    assert orders(base(orders), item()) == base(orders)


def test_an_items_profile_chooses_harness_and_model(orders: Orders, nodes: Nodes, tmp_path: Path) -> None:
    nodes.matter[DEEP] = {"type": "profile", "harness": "gemini", "model": "deep-2"}

    order = orders(base(orders), item(DEEP))

    assert (order.harness, order.program, order.model) == ("gemini", tmp_path / "gemini", "deep-2")
    assert order.profile == DEEP


def test_the_command_lines_word_goes_before_the_profiles(orders: Orders, nodes: Nodes) -> None:
    nodes.matter[DEEP] = {"type": "profile", "harness": "gemini", "model": "deep-2"}
    orders.harness, orders.model = "codex", "mine"

    order = orders(base(orders), item(DEEP))

    assert (order.harness, order.model) == ("codex", "mine")


def test_a_profile_this_box_does_not_meet_is_refused_and_nothing_takes_its_place(orders: Orders, nodes: Nodes) -> None:
    nodes.matter[DEEP] = {"type": "profile", "harness": "claude-code"}

    with pytest.raises(LaunchRefused, match="profile-deep"):
        orders(base(orders), item(DEEP))
    with pytest.raises(LaunchRefused, match="profile-gone"):
        orders(base(orders), item("profile-gone"))


def test_the_profile_an_agent_uses_is_read_once_a_minute(orders: Orders, nodes: Nodes) -> None:
    nodes.matter[MILL] = {"type": "agent", "edges": [{"type": "uses-profile", "to": DEEP}]}
    nodes.matter[DEEP] = {"type": "profile", "harness": "gemini"}

    assert orders.standing_harness() == "gemini"
    assert {orders(base(orders), item()).harness for _ in range(20)} == {"gemini"}
    assert nodes.asked == [MILL, DEEP]
    clock[0] += 61
    orders(base(orders), item())

    assert nodes.asked == [MILL, DEEP, MILL, DEEP]
