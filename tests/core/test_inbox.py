"""Whose box a node is in, from the node alone."""

from __future__ import annotations

import pytest

from batonpass.core.edges import Edge
from batonpass.core.ids import HolderId, Instant, NodeId, PersonId
from batonpass.core.inbox import Box, Entry, entries
from batonpass.core.nodes import Attribution, Authored, Node

PAT = "person-pat"
TOM = PersonId(HolderId("person-tom"))
AT = Instant(7)


def node(node_type: str, *edges: tuple[str, str], status: str | None = None, author: PersonId | None = TOM) -> Node:
    prefix = {"question": "question", "finding": "find", "capture-pending": "cap", "task": "task"}[node_type]
    stored = tuple(Edge(kind, NodeId(to)) for kind, to in edges)
    authored = Authored(NodeId(f"{prefix}-a"), node_type, "T", "S", status=status, edges=stored)
    return Node(authored, "r", Attribution(author, "rest"), created_at=AT, updated_at=Instant(9))


@pytest.mark.parametrize(
    "given,expected",
    [
        (None, set()),
        (node("task"), set()),
        (node("question"), {(Box.QUESTIONS, ""), (Box.ASKED, TOM)}),
        (node("question", author=None), {(Box.QUESTIONS, "")}),
        (node("question", ("routed-to", PAT)), {(Box.QUESTIONS, PAT), (Box.ASKED, TOM)}),
        (node("question", ("routed-to", PAT), status="answered"), set()),
        (node("finding", ("routed-to", PAT), ("routed-to", TOM)), {(Box.FINDINGS, PAT), (Box.FINDINGS, TOM)}),
        (node("finding", ("routed-to", "agent-mill")), {(Box.FINDINGS, "")}),
        (node("finding", status="dismissed"), set()),
        (node("capture-pending"), {(Box.PENDING, "")}),
        (node("task", ("review-requested", PAT), ("review-requested", "agent-mill")), {(Box.REVIEWS, PAT)}),
        (node("task", ("review-requested", PAT), status="abandoned"), set()),
    ],
)
def test_an_entry_follows_from_the_node_alone(given: Node | None, expected: set[tuple[Box, str]]) -> None:
    assert entries(given) == {Entry(box, person, AT) for box, person in expected}
