"""Resolution: whether a node is done, which an edge says and its own status only follows (companion 2.3, D17)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from batonpass.core.edges import EDGE_TYPES, Resolving
from batonpass.core.ids import NodeId
from batonpass.core.node_types import is_dead, require_type, resolves_others


@dataclass(frozen=True, slots=True)
class Inbound:
    """An edge onto the node in question, with what must be known of the node it comes from."""

    edge: str
    src: NodeId
    src_type: str
    title: str
    summary: str
    status: str | None = None
    date: str | None = None
    superseded: bool = False
    """Whether a `supersedes` edge leads onto the source."""

    @property
    def stands(self) -> bool:
        """Whether the source may retire anything: it is not superseded, and its status resolves."""
        return not self.superseded and resolves_others(self.status)


@dataclass(frozen=True, slots=True)
class Target:
    """The node that may be resolved."""

    type: str
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """Who resolved the node. `lagging` says that the node's own status does not show it yet."""

    by: NodeId
    edge: str
    date: str | None
    summary: str
    title: str
    lagging: bool


def resolve(target: Target, inbound: Iterable[Inbound]) -> Resolution | None:
    """Return the first live resolver of `target`, the earliest by date and then id, or None when there is none."""
    resolvers = [edge for edge in inbound if counts(target, edge)]
    if not resolvers:
        return None
    first = min(resolvers, key=lambda edge: (edge.date or "9999", edge.src, edge.edge))
    return Resolution(
        by=first.src,
        edge=first.edge,
        date=first.date,
        summary=first.summary,
        title=first.title,
        lagging=not is_dead(require_type(target.type), target.status),
    )


def counts(target: Target, edge: Inbound) -> bool:
    """Whether `edge` resolves `target`: of a type that does, and from a node that stands."""
    known = EDGE_TYPES.get(edge.edge)
    if known is None or not edge.stands:
        return False
    match known.resolving:
        case Resolving.ANY:
            return True
        case Resolving.QUESTIONS:
            return target.type == "question"
        case Resolving.NOTHING:
            return False
        case _:
            assert_never(known.resolving)


def completes(target: Target, inbound: Iterable[Inbound]) -> bool:
    """Whether the target's completion gate is satisfied: its edge, from a standing node of a type that may complete."""
    gate = require_type(target.type).gate
    return gate is None or any(
        edge.edge == gate.edge and edge.src_type in gate.resolver_types and counts(target, edge) for edge in inbound
    )


def blocks_now(blocker_type: str, status: str | None, *, superseded: bool, resolved: bool) -> bool:
    """Whether a blocker is live: not dead, not superseded, not itself resolved."""
    return not (superseded or resolved or is_dead(require_type(blocker_type), status))
