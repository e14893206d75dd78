"""The walk of a briefing, against a slow and obvious one on small random graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.ids import NodeId
from batonpass.core.walk import (
    HOPS_MAX,
    LINEAGE_FLOOR,
    PROBES_MAX,
    PULL_MIN,
    WEIGHTS,
    Probe,
    Step,
    Walk,
    last_of_chain,
)

NODES: Final = tuple(NodeId(f"{prefix}-{n}") for prefix, n in product(("task", "dec", "person", "corr"), range(3)))
ROOT: Final = NODES[0]
Edge = tuple[NodeId, str, NodeId]
graphs = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(sorted(WEIGHTS)), st.sampled_from(NODES)).filter(
        lambda edge: edge[0] != edge[2]
    ),
    max_size=24,
)


def steps(edges: Sequence[Edge], probes: Sequence[Probe]) -> list[Step]:
    """Return what a reader finds for the probes: the edges of a graph, from both their ends."""
    both = [*edges, *((dst, kind, src) for src, kind, dst in edges)]
    return [Step(src, kind, dst) for probe in probes for src, kind, dst in both if Probe(src, kind) == probe]


def walked(edges: Sequence[Edge], seeds: Mapping[NodeId, float], *, closed: Sequence[NodeId] = ()) -> Walk:
    walk = Walk(seeds, closed=closed)
    while probes := walk.ahead():
        walk.take(steps(edges, probes))
    return walk


def paths(edges: Sequence[Edge], closed: Sequence[NodeId]) -> Iterator[list[tuple[str, NodeId]]]:
    """Yield every path out of the root of at most so many hops, through nothing that a walk stops at."""
    both = [*edges, *((dst, kind, src) for src, kind, dst in edges)]
    going: list[list[tuple[str, NodeId]]] = [[]]
    for _ in range(HOPS_MAX):
        longer = []
        for path in going:
            at = path[-1][1] if path else ROOT
            if at.startswith("person"):
                continue
            longer += [
                [*path, (kind, dst)]
                for src, kind, dst in both
                if src == at and not dst.startswith("corr") and dst not in closed
            ]
        yield from longer
        going = longer


@settings(max_examples=60)
@given(graphs, st.lists(st.sampled_from(NODES[1:]), max_size=2))
def test_the_pull_of_a_node_is_the_best_product_of_weights_on_any_path_to_it(
    edges: list[Edge], closed: list[NodeId]
) -> None:
    best: dict[NodeId, float] = {}
    for path in paths(edges, closed):
        pull = 1.0
        for kind, _ in path:
            pull *= WEIGHTS[kind]
        if round(pull, 6) < PULL_MIN:
            pull = LINEAGE_FLOOR if len(path) == 1 else 0.0
        node = path[-1][1]
        if pull and node != ROOT:
            best[node] = max(best.get(node, 0.0), round(pull, 6))

    found = walked(edges, {ROOT: 1.0}, closed=closed).reached()

    assert {each.node: each.pull for each in found} == best
    assert [each.pull for each in found] == sorted((each.pull for each in found), reverse=True)


@settings(max_examples=20)
@given(graphs.flatmap(lambda edges: st.tuples(st.just(edges), st.permutations(edges))))
def test_the_order_of_the_edges_moves_no_pull(graph: tuple[list[Edge], list[Edge]]) -> None:
    one, other = (walked(edges, {ROOT: 1.0}).reached() for edges in graph)

    assert {each.node: each.pull for each in one} == {each.node: each.pull for each in other}


def test_the_heaviest_edges_are_looked_at_first_and_never_more_than_the_limit() -> None:
    spread = {NodeId(f"task-{n:03}"): 1.0 - n / 1_000 for n in range(500)}
    walk = Walk(spread)

    asked = walk.ahead()

    assert len(asked) == PROBES_MAX[0]
    pulls = [spread[probe.node] * WEIGHTS[probe.edge] for probe in asked]
    assert pulls == sorted(pulls, reverse=True)
    assert walk.ahead() == asked


def test_what_was_not_shown_whole_is_remembered() -> None:
    walk = Walk({ROOT: 1.0})
    probe = walk.ahead()[0]

    walk.take([], crowded=[probe])

    assert (walk.crowded, walk.ahead()) == ([probe], [])


def test_a_query_walks_from_several_places_and_lifts_no_neighbour() -> None:
    one, other, light = NodeId("task-1"), NodeId("dec-1"), NodeId("task-9")
    edges = [(one, "derived-from", NodeId("dec-2")), (other, "focuses-on", light)]
    walk = Walk({one: 0.9, other: 0.85}, floor=False)
    while probes := walk.ahead():
        walk.take(steps(edges, probes))

    assert [(each.node, each.pull) for each in walk.reached()] == [("dec-2", 0.81)]


def test_a_chain_of_successors_is_followed_to_its_end_and_a_circle_nowhere() -> None:
    a, b, c, d = (NodeId(f"dec-{name}") for name in "abcd")

    assert last_of_chain(a, {a: b, b: c}) == c
    assert last_of_chain(c, {a: b, b: c}) == c
    assert [last_of_chain(node, {a: b, b: a, c: d, d: c}) for node in (a, b, c)] == [a, b, c]
    assert last_of_chain(a, {a: b, b: c, c: b}) == a
