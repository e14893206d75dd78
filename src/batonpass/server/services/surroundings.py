"""What the law asks of the graph around the nodes of one change, read once for all of them.

Two things decide on a step and stand elsewhere: what its new `blocks` edges
lead to, and what resolves a node that is to be complete. Each is read at the
first step that asks, for every node of the change at once, under the locks
that were taken before. `follow` keeps what was read as true as the steps that
are carried out leave it; where that would mean to judge anew, it is forgotten
and read again.

Whoever reads has sent its drafts before, so that it sees its own changes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from batonpass.core.edges import Edge
from batonpass.core.ids import NodeId
from batonpass.core.node_types import NODE_TYPES, type_of
from batonpass.core.resolution import Inbound
from batonpass.store import edges
from batonpass.store.base import Tx
from batonpass.store.edges import inbound_asked, inbound_by_target

GATES: Final = frozenset(kind.gate.edge for kind in NODE_TYPES.values() if kind.gate is not None)
"""The edges by which a node may be completed."""
JUDGED_BY: Final = GATES | {"supersedes"}
"""Edges that decide whether a completion stands."""


@dataclass(slots=True)
class Surroundings:
    """The blockers and the resolvers around some nodes."""

    _blocks: dict[NodeId, list[NodeId]] = field(default_factory=dict)
    _asked: set[NodeId] = field(default_factory=set)
    """From where all that is downstream was read."""
    _inbound: Mapping[NodeId, Collection[Inbound]] | None = None
    _sources: frozenset[NodeId] = frozenset()

    def knows_downstream(self, ids: Iterable[NodeId]) -> bool:
        """Whether all `blocks` edges that are reached from `ids` have been read."""
        return self._asked.issuperset(ids)

    async def read_downstream(self, tx: Tx, ids: Collection[NodeId]) -> None:
        """Read them, from other nodes too that are asked about later; from now on nobody else adds one."""
        self._asked.update(ids)
        self._blocks = await edges.downstream(tx, self._asked)

    @property
    def blocks(self) -> MutableMapping[NodeId, list[NodeId]]:
        """Which nodes each node blocks, as far as it was read. What is set in it stays with who sets it."""
        return ChainMap({}, self._blocks)

    @property
    def knows_resolvers(self) -> bool:
        """Whether `resolvers_of` can tell."""
        return self._inbound is not None

    async def read_resolvers(self, tx: Tx, ids: Iterable[NodeId]) -> None:
        """Read what may complete those of `ids` that have to be resolved for it."""
        gated = [node for node in ids if (kind := type_of(node)) is not None and kind.gate is not None]
        (rows,) = await tx.fetch(inbound_asked(gated, GATES))
        self._inbound = inbound_by_target(rows)
        self._sources = frozenset(edge.src for onto in self._inbound.values() for edge in onto)

    def resolvers_of(self, node: NodeId, edge: str) -> list[Inbound]:
        """Return the edges of one type onto a node that `read_resolvers` was asked for."""
        assert self._inbound is not None, node
        return [one for one in self._inbound.get(node, ()) if one.edge == edge]

    def follow(self, node: NodeId, added: Iterable[Edge], removed: Iterable[Edge]) -> None:
        """Take note that a node was written, and which of its edges came and went."""
        added, removed = tuple(added), tuple(removed)
        blocked = [edge.to for edge in added if edge.type == "blocks"]
        freed = {edge.to for edge in removed if edge.type == "blocks"}
        if blocked or freed:
            kept = [to for to in self._blocks.get(node, ()) if to not in freed and to not in blocked]
            self._blocks[node] = kept + blocked
        if node in self._sources or any(edge.type in JUDGED_BY for edge in (*added, *removed)):
            self._inbound = None
