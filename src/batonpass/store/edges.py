"""Edge rows: reading and writing. Which edges may be written, and what they mean, is core's to say."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from batonpass.core.edges import EDGE_TYPES, Edge, Resolving
from batonpass.core.ids import Instant, NodeId
from batonpass.core.resolution import Inbound
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q

Direction = Literal["in", "out"]

RESOLVING: Final = tuple(edge.name for edge in EDGE_TYPES.values() if edge.resolving is not Resolving.NOTHING)
SUPERSEDES: Final = "supersedes"


@dataclass(frozen=True, slots=True)
class Other:
    """The node at the other end of an edge, as far as a reader of this end needs it."""

    id: NodeId
    title: str
    status: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """An edge as it is written: by whose hand, and since when it is there if it is new."""

    src: NodeId
    edge: Edge
    by_person: bool
    at: Instant


@dataclass(frozen=True, slots=True)
class SeenEdge:
    """An edge as seen from one of its nodes; `title` and `status` are the other's, None where there is no such node."""

    direction: Direction
    src: NodeId
    edge: Edge
    title: str | None
    status: str | None
    deleted: bool = False

    @property
    def missing(self) -> Literal["deleted", "unwritten"] | None:
        """Why there is no node at the other end, or None when there is one."""
        if self.title is not None:
            return None
        return "deleted" if self.deleted else "unwritten"

    @property
    def other(self) -> NodeId:
        """The node at the other end."""
        return self.src if self.direction == "in" else self.edge.to


def edges_asked(ids: Iterable[NodeId]) -> Statement:
    """Ask for the stored edges out of nodes; see `edges_by_src`."""
    return q("edges.of", ids=as_json(sorted(set(ids))))


def edges_by_src(rows: Sequence[Row]) -> dict[NodeId, list[Edge]]:
    """Return the answer to `edges_asked`: each node's edges in canonical order."""
    edges: dict[NodeId, list[Edge]] = defaultdict(list)
    for src, edge_type, dst, attrs in rows:
        edges[src].append(Edge(edge_type, dst, json.loads(attrs)))
    return edges


def inbound_asked(ids: Iterable[NodeId], types: Iterable[str]) -> Statement:
    """Ask for the edges of `types` onto nodes; see `inbound_by_target`."""
    return q("edges.inbound", ids=as_json(sorted(set(ids))), types=as_json(sorted(types)))


def inbound_by_target(rows: Sequence[Row]) -> dict[NodeId, list[Inbound]]:
    """Return the answer to `inbound_asked` by the node the edges lead to."""
    edges: dict[NodeId, list[Inbound]] = defaultdict(list)
    for target, edge_type, src, src_type, title, summary, status, date, superseded in rows:
        edges[target].append(
            Inbound(edge_type, src, src_type, title, summary, status, date, superseded=bool(superseded))
        )
    return edges


async def count_inbound(tx: Reader, node: NodeId, *, most: int) -> int:
    """Return how many edges lead onto `node`, or `most` if there are more."""
    ((row,),) = await tx.fetch(q("edges.count_inbound", id=node, most=most))
    count: int = row[0]
    return count


def findings_asked(node: NodeId, *, most: int) -> Statement:
    """Ask for at most `most` live findings that relate to a node; see `others`."""
    return q("edges.open_findings", id=node, most=most)


def others(rows: Sequence[Row]) -> list[Other]:
    """Return rows of id, title and status."""
    return [Other(*row) for row in rows]


async def page(
    tx: Reader,
    node: NodeId,
    *,
    direction: Direction | None,
    types: Sequence[str] | None,
    after: tuple[str, str, str],
    most: int,
) -> list[SeenEdge]:
    """Return at most `most` edges of `node` after a place (direction, type, other end), in that order."""
    (rows,) = await tx.fetch(
        q(
            "edges.page",
            node=node,
            direction=direction,
            types=as_json(types) if types is not None else None,
            after_direction=after[0],
            after_type=after[1],
            after_other=after[2],
            most=most,
        )
    )
    return [
        SeenEdge(seen_from, src, Edge(kind, dst, json.loads(attrs)), title, status, bool(deleted))
        for seen_from, src, kind, dst, attrs, title, status, deleted in rows
    ]


async def downstream(tx: Tx, ids: Iterable[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Return every `blocks` edge reached from `ids`, by its source, and let no other writer add one until COMMIT."""
    tx.put(q("edges.lock_blocks"))
    (rows,) = await tx.fetch(q("edges.downstream", ids=as_json(sorted(set(ids)))))
    blocks: dict[NodeId, list[NodeId]] = defaultdict(list)
    for src, dst in rows:
        blocks[src].append(dst)
    return blocks


def put_edges(tx: Tx, src: NodeId, edges: Iterable[Edge], *, by_person: bool, at: Instant) -> None:
    """Write new edges out of `src`, and new attributes of those that are there."""
    put(tx, [Written(src, edge, by_person=by_person, at=at) for edge in edges])


def put(tx: Tx, written: Sequence[Written]) -> None:
    """Write different edges, new ones or with new attributes; the nodes they lead from are locked."""
    rows = [
        {**_key(one.src, one.edge), "attrs": _attrs(one.edge.attrs), "by_person": one.by_person, "at": one.at}
        for one in written
    ]
    if rows:
        tx.put(q("edges.put", rows=as_json(rows)))


def remove(tx: Tx, removed: Iterable[tuple[NodeId, Edge]]) -> None:
    """Remove edges, each out of its node; one that is not there is nothing to remove."""
    rows = [_key(src, edge) for src, edge in removed]
    if rows:
        tx.put(q("edges.remove", rows=as_json(rows)))


def _key(src: NodeId, edge: Edge) -> dict[str, object]:
    return {"src": src, "type": edge.type, "dst": edge.to}


def _attrs(attrs: Mapping[str, str]) -> str:
    return as_json(dict(sorted(attrs.items())))
