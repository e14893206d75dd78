"""The item of a dispatch, as the graph shows it: everything that decides whether a run may be sent to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from batonpass.core.ids import AgentId, HolderId, NodeId, parse_node_id
from batonpass.core.node_types import NODE_TYPES, is_dead
from batonpass.core.outcome import Resolver
from batonpass.core.why import Code
from batonpass.wire.leases import LeaseBody
from batonpass.wire.nodes import NodeReply
from batonpass.wire.why import ReasonBody, WhyReply
from batonpass.worker.graph import Item

HUMAN: Final = "human"
"""The one class of `requires` that means something to a dispatch (companion 7.6)."""


class Nodes(Protocol):
    """Where nodes are read: a client."""

    def node(self, id_: NodeId) -> NodeReply:
        """Return one node, with what the graph says about it; `NotFound` when it is not there."""
        ...

    def why(self, id_: NodeId) -> WhyReply:
        """Return why a node is or isn't taken."""
        ...


@dataclass(frozen=True, slots=True)
class Assigned:
    """A hand-made routing of the item, and the profile it names; the edge that shows a claim is none (D4)."""

    to: NodeId
    profile: NodeId | None

    @property
    def to_agent(self) -> bool:
        """Whether an agent is to do it."""
        return self.to.startswith("agent-")


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that speaks for or against a run, in the server's words, with its way out."""

    code: str
    says: str
    way_out: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The item. `retired` says by what it is done or dead already; `reasons` are all that the server has to say.

    `lease` is the tenure or reservation that stands on it, in force or lapsed.
    """

    id: NodeId
    type: str
    title: str
    project: str | None
    status: str | None
    requires: tuple[str, ...]
    profile: NodeId | None
    assigned: tuple[Assigned, ...]
    retired: str | None
    resolver: Resolver | None
    execution: str | None
    lease: LeaseBody | None
    reasons: tuple[Reason, ...] = ()

    @property
    def claimable(self) -> bool:
        """Whether a node of this type is work at all."""
        kind = NODE_TYPES.get(self.type)
        return kind is not None and kind.claimable

    def because(self, *codes: Code) -> tuple[Reason, ...]:
        """Return what the server says under these codes."""
        return tuple(reason for reason in self.reasons if reason.code in codes)

    @property
    def item(self) -> Item:
        """The item as runs know it."""
        readiness = "human" if self.because(Code.HUMAN) else "agent" if self.because(Code.CONSENT) else None
        return Item(
            id=self.id,
            title=self.title,
            type=self.type,
            project=self.project,
            readiness=readiness,
            suggest="dispatch",
            assigned=tuple(AgentId(HolderId(one.to)) for one in self.assigned if one.to_agent),
        )


def read_target(nodes: Nodes, node: NodeId) -> Target:
    """Return the item as it reads now; `NotFound` when there is none."""
    return target_of(nodes.node(node), nodes.why(node))


def target_of(reply: NodeReply, why: WhyReply) -> Target:
    """Return the item that these two answers show."""
    matter = reply.frontmatter
    return Target(
        id=NodeId(reply.id),
        type=str(matter.get("type", "")),
        title=str(matter.get("title", "")),
        project=_text(matter.get("project")),
        status=_text(matter.get("status")),
        requires=_words(matter.get("requires")),
        profile=profile_id(matter.get("profile")),
        assigned=tuple(_assigned(matter.get("edges"))),
        retired=_retired(reply),
        resolver=None if reply.resolution is None else Resolver(NodeId(reply.resolution.by), reply.resolution.edge),
        execution=None if reply.execution_hold is None else reply.execution_hold.execution,
        lease=reply.lease,
        reasons=tuple(map(_reason, why.reasons)),
    )


def profile_id(value: object) -> NodeId | None:
    """Return the profile that a node or an edge names, or None; `Invalid` when it names something else."""
    return None if value is None or value == "" else parse_node_id(value, field="profile")


def edges_of(matter: object, *, type_: str) -> Sequence[dict[str, object]]:
    """Return the edges of a type among those of a node's front matter, but for the view of a claim."""
    edges = matter if isinstance(matter, list) else []
    return [
        edge for edge in edges if isinstance(edge, dict) and edge.get("type") == type_ and edge.get("via") != "claim"
    ]


def _assigned(edges: object) -> Sequence[Assigned]:
    routed = edges_of(edges, type_="assigned")
    return [Assigned(NodeId(str(edge["to"])), profile_id(edge.get("profile"))) for edge in routed]


def _retired(reply: NodeReply) -> str | None:
    """Return in a few words why there is nothing left to do, or None."""
    if (resolution := reply.resolution) is not None:
        return f"{'answered' if resolution.edge == 'answers' else 'resolved'} by {resolution.by}"
    if reply.superseded_by:
        return f"superseded by {reply.superseded_by[0].id}"
    kind, status = NODE_TYPES.get(str(reply.frontmatter.get("type", ""))), _text(reply.frontmatter.get("status"))
    return f"{status} by its status" if kind is not None and is_dead(kind, status) else None


def _reason(body: ReasonBody) -> Reason:
    return Reason(body.code, body.says, body.way_out)


def _words(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return tuple(map(str, listed))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
