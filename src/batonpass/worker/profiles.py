"""Which profile a run is under, and what that asks of this machine (companion 7.5).

    --profile  >  the item's `profile`  >  its `assigned` edge  >  the agent's `uses-profile` edge

A profile is a node of the graph, so its author is not the one who runs it: it
says which agent program, model, tool servers and skills a run needs, and never
what is executed. It is met as a whole or the run is refused; no other harness,
and no other machine's, takes the place of the one that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from batonpass.core.capabilities import Capabilities, Profile, parse_profile, satisfies
from batonpass.core.errors import NotFound
from batonpass.core.ids import AgentId, NodeId
from batonpass.core.node_types import NODE_TYPES, is_dead
from batonpass.wire.nodes import NodeReply
from batonpass.worker.dispatch.target import Target, edges_of, profile_id
from batonpass.worker.errors import LaunchRefused


class Readable(Protocol):
    """Where nodes are read: a client."""

    def node(self, id_: NodeId) -> NodeReply:
        """Return one node; `NotFound` when it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Named:
    """A profile's id and who named it."""

    id: NodeId
    source: str


def applying(flag: NodeId | None, target: Target | None, agent: AgentId | None, nodes: Readable) -> Named | None:
    """Return the profile that a run is under, or None; the agent itself is asked last."""
    if flag is not None:
        return Named(flag, "--profile")
    if target is not None and (named := _by_item(target, agent)) is not None:
        return named
    return None if agent is None else _by_agent(agent, nodes)


def read(named: Named, nodes: Readable) -> Profile:
    """Return what a profile needs.

    `LaunchRefused` when it is not there, no profile, or retired: what was
    named counts, and to do without it would be a substitution. `Invalid` when
    it can't be read, or would choose what is run.
    """
    try:
        reply = nodes.node(named.id)
    except NotFound as error:
        raise LaunchRefused(f"{named.id} ({named.source}) is not there; name a profile with --profile") from error
    kind, status = str(reply.frontmatter.get("type", "")), reply.frontmatter.get("status")
    if kind != "profile":
        raise LaunchRefused(f"{named.id} ({named.source}) is a node of type {kind}, and no profile")
    retired = is_dead(NODE_TYPES["profile"], None if status is None else str(status))
    if retired or reply.superseded_by:
        raise LaunchRefused(f"the profile {named.id} ({named.source}) is retired; name another with --profile")
    return parse_profile(named.id, reply.frontmatter)


def require_met(machine: Capabilities, profile: Profile) -> None:
    """Raise `LaunchRefused` with every reason unless this machine has all that the profile needs."""
    verdict = satisfies(machine, profile)
    if not verdict.ok:
        raise LaunchRefused(
            f"this machine can't do for {profile.id}: {'; '.join(verdict.reasons)}. What it can do:"
            " baton capabilities show; nothing takes a profile's place, and --force does not lift this"
        )


def _by_item(target: Target, agent: AgentId | None) -> Named | None:
    if target.profile is not None:
        return Named(target.profile, f"the profile of {target.id}")
    # Where several are routed to, each may be with a profile of its own: that of our agent is ours.
    routed = sorted(target.assigned, key=lambda one: str(one.to) != agent)
    return next(
        (Named(one.profile, f"the routing of {target.id} to {one.to}") for one in routed if one.profile is not None),
        None,
    )


def _by_agent(agent: AgentId, nodes: Readable) -> Named | None:
    try:
        matter = nodes.node(NodeId(agent)).frontmatter
    except NotFound:
        return None
    for edge in edges_of(matter.get("edges"), type_="uses-profile"):
        if (named := profile_id(edge.get("to"))) is not None:
            return Named(named, f"the profile that {agent} uses")
    return None
