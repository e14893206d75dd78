"""In which order nodes are written, so that each finds what it needs (companion 1.7).

Entries of a batch are checked one after the other, each by what the ones
before left. So what resolves a node goes before the node, since its status may
depend on that; and what supersedes a resolver goes after the node which that
resolver completes, since it retires the resolver. Blockers go before what they
block, which keeps the search for cycles short. Where these wishes go round in
a circle, blockers give way first, and then the order in which the nodes came.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from batonpass.core.edges import EDGE_TYPES, Resolving
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored

RESOLVING = frozenset(edge.name for edge in EDGE_TYPES.values() if edge.resolving is not Resolving.NOTHING)


def in_order(nodes: Sequence[Authored]) -> list[Authored]:
    """Return `nodes`, whose ids are all different, in the order in which they can be written."""
    places = {node.id: place for place, node in enumerate(nodes)}
    firm = _among(places, _must(nodes))
    wished = firm | _among(places, _should(nodes))
    return [nodes[place] for place in _Waiting(len(nodes), firm, wished).taken()]


def _must(nodes: Iterable[Authored]) -> Iterator[tuple[NodeId, NodeId]]:
    """Yield pairs of which the first has to stand before the second: its status may be refused otherwise."""
    resolved = defaultdict(list)
    retired = []
    for node in nodes:
        for edge in node.edges:
            if edge.type in RESOLVING:
                resolved[node.id].append(edge.to)
                yield node.id, edge.to
            elif edge.type == "supersedes":
                retired.append((node.id, edge.to))
    for newer, older in retired:
        yield from ((target, newer) for target in resolved.get(older, ()))


def _should(nodes: Iterable[Authored]) -> Iterator[tuple[NodeId, NodeId]]:
    for node in nodes:
        yield from ((node.id, edge.to) for edge in node.edges if EDGE_TYPES[edge.type].blocking)


def _among(places: dict[NodeId, int], pairs: Iterable[tuple[NodeId, NodeId]]) -> frozenset[tuple[int, int]]:
    return frozenset(
        (places[first], places[then]) for first, then in pairs if first in places and then in places and first != then
    )


class _Waiting:
    """Nodes by their place, taken one by one: the earliest of those that wait for nothing, else for nothing firm."""

    def __init__(self, count: int, firm: frozenset[tuple[int, int]], wished: frozenset[tuple[int, int]]) -> None:
        self._after: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        self._wishes, self._needs = [0] * count, [0] * count
        for pair in wished:
            first, then = pair
            self._after[first].append((then, pair in firm))
            self._wishes[then] += 1
            self._needs[then] += pair in firm
        self._free = [place for place in range(count) if not self._wishes[place]]
        self._able = [place for place in range(count) if not self._needs[place]]
        self._rest = list(range(count))

    def taken(self) -> Iterator[int]:
        """Yield every place once."""
        done = set[int]()
        for heap in iter(self._first_heap, None):
            place = heapq.heappop(heap)
            if place in done:
                continue
            done.add(place)
            yield place
            self._release(place)

    def _first_heap(self) -> list[int] | None:
        return next((heap for heap in (self._free, self._able, self._rest) if heap), None)

    def _release(self, place: int) -> None:
        for then, firm in self._after[place]:
            self._wishes[then] -= 1
            self._needs[then] -= firm
            if not self._wishes[then]:
                heapq.heappush(self._free, then)
            if firm and not self._needs[then]:
                heapq.heappush(self._able, then)
