"""Nodes as they are read: each with its lease, and with what the graph says about it (companion 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core.ids import Instant, NodeId, Resource
from batonpass.core.leases import Lease, LeaseView, view
from batonpass.core.node_types import is_dead
from batonpass.core.nodes import Node
from batonpass.core.resolution import Resolution, Target, resolve
from batonpass.store import edges, leases, nodes, queue
from batonpass.store.base import Reader
from batonpass.store.edges import Other
from batonpass.wire import nodes as wire

FINDINGS_MAX: Final = 50
"""How many open findings a node is read with."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as it is read: with its lease, and what the graph says about it."""

    node: Node
    lease: LeaseView | None
    resolution: Resolution | None
    open_findings: tuple[Other, ...]
    superseded_by: tuple[Other, ...]
    held_by: tuple[NodeId, ...] = ()
    """The outcomes that stand on an open task and resolve nothing (companion 1.8)."""

    @property
    def unfinished(self) -> bool:
        """Whether it is a task that nothing has retired."""
        authored = self.node.authored
        retired = self.resolution is not None or bool(self.superseded_by) or is_dead(self.node.kind, authored.status)
        return authored.type == "task" and not retired


async def views_of(tx: Reader, ids: Sequence[NodeId]) -> dict[NodeId, NodeView]:
    """Return the views of nodes by id, all read in three round trips; one that is not there is absent."""
    now = await tx.now()
    rows, edge_rows, inbound_rows, *finding_rows = await tx.fetch(
        nodes.nodes_asked(ids),
        edges.edges_asked(ids),
        edges.inbound_asked(ids, [*edges.RESOLVING, edges.SUPERSEDES]),
        *(edges.findings_asked(node, most=FINDINGS_MAX) for node in ids),
    )
    held = await leases.leases_of(tx, [Resource(node) for node in ids])
    inbound = edges.inbound_by_target(inbound_rows)
    findings = {node: edges.others(found) for node, found in zip(ids, finding_rows, strict=True)}
    views = {
        node: NodeView(
            found,
            lease=lease_view(held, node, now),
            resolution=resolve(Target(found.authored.type, found.authored.status), inbound[node]),
            open_findings=tuple(findings[node]),
            superseded_by=tuple(Other(e.src, e.title, e.status) for e in inbound[node] if e.edge == edges.SUPERSEDES),
        )
        for node, found in nodes.nodes_of_rows(rows, edge_rows).items()
    }
    if tasks := [node for node, seen in views.items() if seen.unfinished]:
        standing = await queue.standing_outcomes(tx, tasks)
        views |= {NodeId(node): replace(views[NodeId(node)], held_by=tuple(by)) for node, by in standing.items()}
    return views


def lease_view(held: Mapping[Resource, Lease], node: NodeId, now: Instant) -> LeaseView | None:
    """Return who holds `node`, in force or lapsed, as readers see it."""
    lease = held.get(Resource(node))
    return None if lease is None else view(lease, now)


def body_of(seen: NodeView) -> wire.NodeReply:
    """Return `seen` as it goes over the wire."""
    return wire.node_reply(
        seen.node,
        lease=seen.lease,
        resolution=seen.resolution,
        open_findings=[_ref(other) for other in seen.open_findings],
        superseded_by=[_ref(other) for other in seen.superseded_by],
        held_by=seen.held_by,
    )


def _ref(other: Other) -> wire.NodeRef:
    return wire.NodeRef(other.id, other.title, other.status)
