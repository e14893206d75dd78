from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.edges import Edge
from batonpass.core.edges import in_order as edges_in_order
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.order import in_order

NAMES = [NodeId(f"task-{letter}") for letter in "abcdef"]


def node(name: str, *edges: tuple[str, str]) -> Authored:
    """Return a node with edges as (type, letter)."""
    found = [Edge(kind, NodeId(f"task-{to}")) for kind, to in edges]
    return Authored(NodeId(f"task-{name}"), "task", name, name, edges=edges_in_order(found))


def order(*nodes: Authored) -> str:
    """Return the letters of nodes in the order in which they are to be written."""
    return "".join(each.id[-1] for each in in_order(nodes))


def test_nodes_that_need_nothing_keep_their_order() -> None:
    assert order(node("c"), node("a", ("mentions", "b")), node("b")) == "cab"


def test_what_resolves_goes_before_what_it_resolves() -> None:
    assert order(node("a"), node("b", ("resolves", "a")), node("c", ("answers", "b"))) == "cba"


def test_blockers_go_before_what_they_block() -> None:
    assert order(node("a"), node("b", ("blocks", "a")), node("c", ("blocks", "b"))) == "cba"


def test_what_retires_a_resolver_goes_after_what_that_has_resolved() -> None:
    assert order(node("a", ("supersedes", "b")), node("b", ("resolves", "c")), node("c")) == "bca"


def test_in_a_circle_blockers_give_way_first() -> None:
    assert order(node("a", ("blocks", "b")), node("b", ("resolves", "a"))) == "ba"
    assert order(node("a", ("blocks", "b")), node("b", ("blocks", "a"))) == "ab"
    assert order(node("a", ("resolves", "b")), node("b", ("resolves", "a"))) == "ab"


def test_nodes_that_are_not_there_are_not_waited_for() -> None:
    assert order(node("a", ("resolves", "z")), node("b", ("blocks", "y"))) == "ab"


@given(
    edges=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["resolves", "blocks", "supersedes"]), st.integers(0, 5)),
        max_size=12,
    )
)
def test_each_node_is_written_once_and_behind_what_it_needs_unless_they_go_round(
    edges: list[tuple[int, str, int]],
) -> None:
    forward = [(src, kind, dst) for src, kind, dst in edges if src < dst and kind != "supersedes"]
    nodes = [
        Authored(
            name,
            "task",
            "t",
            "s",
            edges=edges_in_order([Edge(k, NAMES[d]) for s, k, d in sorted(set(forward)) if s == place]),
        )
        for place, name in enumerate(NAMES)
    ]

    ids = [each.id for each in in_order(nodes[::-1])]

    assert sorted(ids) == NAMES
    assert all(ids.index(NAMES[src]) < ids.index(NAMES[dst]) for src, _, dst in forward)
