from __future__ import annotations

from dataclasses import replace

import pytest

from batonpass.core.capabilities import Capabilities, Profile
from batonpass.core.errors import Invalid, NotFound
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.testing.targets import TARGET
from batonpass.wire.nodes import NodeRef, NodeReply
from batonpass.worker import profiles
from batonpass.worker.dispatch.target import Assigned
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.profiles import Named

MILL = AgentId(HolderId("agent-mill"))
DEEP, FAST, OWN = NodeId("profile-deep"), NodeId("profile-fast"), NodeId("profile-own")


class Nodes:
    """Nodes by id, and which of them were read."""

    def __init__(self, *replies: NodeReply) -> None:
        self.replies = {reply.id: reply for reply in replies}
        self.asked: list[str] = []

    def node(self, id_: NodeId) -> NodeReply:
        self.asked.append(id_)
        if id_ not in self.replies:
            raise NotFound(f"{id_} is not there")
        return self.replies[id_]


def node(id_: str, type_: str, **matter: object) -> NodeReply:
    return NodeReply(id=id_, raw="", frontmatter={"id": id_, "type": type_, **matter}, body="", revision="r1")


USES = node(
    "agent-mill", "agent", edges=[{"type": "owned-by", "to": "person-pat"}, {"type": "uses-profile", "to": OWN}]
)


def test_the_nearest_word_counts() -> None:
    routed = (Assigned(NodeId("agent-rose"), FAST), Assigned(NodeId(MILL), DEEP))
    nodes = Nodes(USES)

    item = replace(TARGET, profile=DEEP, assigned=(Assigned(NodeId(MILL), FAST),))
    assert profiles.applying(OWN, item, MILL, nodes) == Named(OWN, "--profile")
    assert profiles.applying(None, item, MILL, nodes) == Named(DEEP, "the profile of task-1")
    assert profiles.applying(None, replace(TARGET, assigned=routed), MILL, nodes) == Named(
        DEEP, "the routing of task-1 to agent-mill"
    )
    assert profiles.applying(None, replace(TARGET, assigned=routed[:1]), MILL, nodes) == Named(
        FAST, "the routing of task-1 to agent-rose"
    )
    assert nodes.asked == []
    assert profiles.applying(None, TARGET, MILL, nodes) == Named(OWN, "the profile that agent-mill uses")
    assert profiles.applying(None, None, MILL, nodes) == Named(OWN, "the profile that agent-mill uses")


def test_without_any_word_there_is_no_profile() -> None:
    assert profiles.applying(None, TARGET, None, Nodes()) is None
    assert profiles.applying(None, TARGET, MILL, Nodes()) is None
    assert profiles.applying(None, TARGET, MILL, Nodes(node("agent-mill", "agent"))) is None


def test_a_profile_is_read_off_its_node() -> None:
    nodes = Nodes(node(DEEP, "profile", harness="codex", model="large", skills=["sql"]))

    assert profiles.read(Named(DEEP, "--profile"), nodes) == Profile(
        id=DEEP, harness="codex", model="large", skills=("sql",)
    )


def test_a_profile_that_is_not_there_or_none_or_retired_is_refused_and_never_done_without() -> None:
    superseded = node(DEEP, "profile")
    superseded.superseded_by = [NodeRef("profile-new", "", None)]

    for nodes, said in (
        (Nodes(), r"profile-deep \(--profile\) is not there"),
        (Nodes(node(DEEP, "task")), "a node of type task, and no profile"),
        (Nodes(node(DEEP, "profile", status="retired")), "is retired"),
        (Nodes(superseded), "is retired"),
    ):
        with pytest.raises(LaunchRefused, match=said):
            profiles.read(Named(DEEP, "--profile"), nodes)


def test_a_profile_that_would_choose_what_is_run_is_refused() -> None:
    with pytest.raises(Invalid, match="never what it runs: argv"):
        profiles.read(Named(DEEP, "--profile"), Nodes(node(DEEP, "profile", argv=["rm"])))


def test_a_machine_that_lacks_something_is_refused_with_every_reason() -> None:
    needs = Profile(id=DEEP, harness="codex", mcp=("browser",))

    profiles.require_met(Capabilities(harnesses=("codex",), reachable_mcp=("browser",)), needs)
    with pytest.raises(LaunchRefused) as refused:
        profiles.require_met(Capabilities(harnesses=("gemini",)), needs)
    for said in ("codex is not there, only gemini", "browser is not there", "baton capabilities show"):
        assert said in refused.value.message
