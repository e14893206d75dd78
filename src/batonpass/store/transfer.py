"""Nodes in bulk, page by page of one snapshot: what an export is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core.ids import Resource
from batonpass.core.leases import LeaseView, view
from batonpass.core.nodes import Node
from batonpass.store import leases
from batonpass.store.base import Reader, q
from batonpass.store.edges import edges_asked, edges_by_src
from batonpass.store.nodes import Filter, list_nodes

PAGE_NODES: Final = 100
"""How many nodes are in memory at a time: at most some megabytes, and some milliseconds of work."""


@dataclass(frozen=True, slots=True)
class Found:
    """A node of an export with all its edges, and the lease that shows as one of them (D4)."""

    node: Node
    lease: LeaseView | None


async def count(tx: Reader, *, project: str | None) -> int:
    """Return how many nodes `pages` will yield in the same snapshot."""
    (((number,),),) = await tx.fetch(q("transfer.count", project=project))
    return int(number)


async def pages(tx: Reader, *, project: str | None) -> AsyncIterator[list[Found]]:
    """Yield every node in order of id, a page at a time, each page asked for when the one before has been taken."""
    wanted, after, now = Filter(project=project), "", await tx.now()
    while found := await list_nodes(tx, wanted, after=after, most=PAGE_NODES):
        after = found[-1].id
        (rows,) = await tx.fetch(edges_asked(node.id for node in found))
        held = await leases.leases_of(tx, [Resource(node.id) for node in found])
        edges = edges_by_src(rows)
        yield [
            Found(
                replace(node, authored=replace(node.authored, edges=tuple(edges.get(node.id, ())))),
                view(lease, now) if (lease := held.get(Resource(node.id))) is not None else None,
            )
            for node in found
        ]
