"""The walk of a briefing: from a node along weighted edges, in both directions, for three hops at most (companion 5.2).

A node's pull is the best product of edge weights along any path to it. The
walk reads nothing itself: it says which edges it wants to see next, and is
given them. So it is pure, and whoever reads for it can read one hop at a time
and only so much of each: a node with thousands of neighbours shows the
heaviest kinds of edges first, and of each kind the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from batonpass.core.edges import EDGE_TYPES
from batonpass.core.ids import NodeId
from batonpass.core.node_types import type_of

HOPS_MAX: Final = 3
PULL_MIN: Final = 0.25
LINEAGE_FLOOR: Final = 0.24
"""The least pull of whatever stands directly beside the node the walk begins at, however light the edge."""
PROBES_MAX: Final = (80, 300, 300)
"""How many kinds of edges of how many nodes are looked at in each hop, the heaviest first."""
NEIGHBOURS_MAX: Final = (60, 10, 5)
"""How many neighbours each probe of a hop is given, in each direction, the newest first."""
_DIGITS: Final = 6
"""To which a product is rounded, so that the same edges in another order weigh the same."""

WEIGHTS: Final[Mapping[str, float]] = {
    edge.name: edge.weight for edge in sorted(EDGE_TYPES.values(), key=lambda e: e.name) if edge.weight is not None
}


@dataclass(frozen=True, slots=True)
class Probe:
    """A question of the walk: what does an edge of this type join `node` to, either way."""

    node: NodeId
    edge: str


@dataclass(frozen=True, slots=True)
class Step:
    """An edge as seen from the node that was asked about."""

    node: NodeId
    edge: str
    other: NodeId


@dataclass(frozen=True, slots=True)
class Reached:
    """A node of the walk. `edge` is the last one of its best path; `place` counts in the order of arrival."""

    node: NodeId
    pull: float
    hops: int
    edge: str
    place: int


class Walk:
    """One walk: ask `ahead`, answer with `take`, until nothing is asked any more.

    It begins at the nodes of `seeds` with their pulls. It never enters what is
    `closed`, nor types that are not walked (companion 1.5), and does not go on
    from who somebody is: that two items have an assignee in common says
    nothing about either. With `floor`, what stands directly beside a seed has
    at least `LINEAGE_FLOOR`.
    """

    def __init__(self, seeds: Mapping[NodeId, float], *, closed: Collection[NodeId] = (), floor: bool = True) -> None:
        self._seeds = dict(seeds)
        self._closed = frozenset(closed)
        self._floor = floor
        self._frontier: dict[NodeId, float] = dict(seeds)
        self._hop = 0
        self._asked: frozenset[Probe] = frozenset()
        self._reached: dict[NodeId, Reached] = {}
        self.crowded: list[Probe] = []
        """Probes that had more to show than they were given."""

    @property
    def neighbours_max(self) -> int:
        """How many neighbours, in each direction, each probe of the next hop is to be given at most."""
        return NEIGHBOURS_MAX[self._hop]

    def ahead(self) -> list[Probe]:
        """Return what the walk wants to see next, the heaviest first; nothing when it is over."""
        if self._hop == HOPS_MAX:
            return []
        probes = sorted(self._probes(), key=lambda found: (-found[0], found[1].node, found[1].edge))
        asked = [probe for _, probe in probes[: PROBES_MAX[self._hop]]]
        self._asked = frozenset(asked)
        return asked

    def take(self, steps: Iterable[Step], *, crowded: Iterable[Probe] = ()) -> None:
        """Go one hop along what was found for the probes; `crowded` are those that were not shown everything."""
        self.crowded += crowded
        frontier: dict[NodeId, float] = {}
        for step in steps:
            assert Probe(step.node, step.edge) in self._asked, step
            pull = self._pull(step)
            if pull is None or step.other in self._seeds or not self._may_enter(step.other):
                continue
            known = self._reached.get(step.other)
            if known is not None and known.pull >= pull:
                continue
            place = len(self._reached) if known is None else known.place
            self._reached[step.other] = Reached(step.other, pull, self._hop + 1, step.edge, place)
            if not _is_end(step.other):
                frontier[step.other] = pull
        self._frontier = frontier
        self._hop += 1

    def reached(self) -> list[Reached]:
        """Return every node of the walk but its seeds, the strongest pull first, then in order of arrival."""
        return sorted(self._reached.values(), key=lambda found: (-found.pull, found.hops, found.place))

    def _probes(self) -> Iterator[tuple[float, Probe]]:
        for node, pull in self._frontier.items():
            for edge, weight in WEIGHTS.items():
                if self._is_lineage() or round(pull * weight, _DIGITS) >= PULL_MIN:
                    yield pull * weight, Probe(node, edge)

    def _pull(self, step: Step) -> float | None:
        """Return the pull that a step brings, or None when it is too weak to go along."""
        pull = round(self._frontier[step.node] * WEIGHTS[step.edge], _DIGITS)
        if pull >= PULL_MIN:
            return pull
        return LINEAGE_FLOOR if self._is_lineage() else None

    def _is_lineage(self) -> bool:
        return self._floor and self._hop == 0

    def _may_enter(self, node: NodeId) -> bool:
        kind = type_of(node)
        return node not in self._closed and kind is not None and kind.traversable


def _is_end(node: NodeId) -> bool:
    kind = type_of(node)
    return kind is not None and kind.identity


def last_of_chain(node: NodeId, successors: Mapping[NodeId, NodeId]) -> NodeId:
    """Return what stands at the end of a chain of successors: `node` itself where there is none, or only a circle."""
    seen = {node}
    at = node
    while (after := successors.get(at)) is not None:
        if after in seen:
            return node
        seen.add(after)
        at = after
    return at
