"""A text of a history taken apart, as comparisons and blame need it."""

from __future__ import annotations

from batonpass.core.edges import Edge
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.wire.history import parted, parts_of
from batonpass.wire.markdown import write


def text(**fields: object) -> str:
    plain = {"id": NodeId("task-a"), "type": "task", "title": "A", "summary": "S", **fields}
    return write(Authored(**plain))  # type: ignore[arg-type]  # fields of several types


def test_keys_lists_and_each_edge_by_itself_are_told_apart_from_the_lines_of_the_body() -> None:
    edges = (Edge("blocks", NodeId("task-b")), Edge("relates-to", NodeId("task-c"), {"was": "resolves"}))

    parts = parted(text(requires=("human", "shell"), edges=edges, body="one\n\n---\ntwo"))

    assert parts.keys["title"] == "A"
    assert parts.keys["requires"] == "human, shell"
    assert parts.keys["blocks task-b"] == ""
    assert parts.keys["relates-to task-c"] == "was: resolves"
    assert "edges" not in parts.keys
    assert parts.lines == ("one", "", "---", "two")


def test_a_node_without_a_body_has_no_lines() -> None:
    assert parted(text()).lines == ()
    assert parts_of(text())[1] == ""
