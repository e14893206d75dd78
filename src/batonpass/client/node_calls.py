"""The calls about nodes and their edges, one field at a time or whole; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from batonpass.client.calls import Call, body_of, change, query_of
from batonpass.core.ids import NodeId
from batonpass.wire import nodes, paths
from batonpass.wire import why as reasons


def node(id_: NodeId) -> Call[nodes.NodeReply]:
    """Read one node, with what the graph says about it."""
    return Call("GET", paths.fill(paths.NODE, id=id_), nodes.NodeReply)


def why(id_: NodeId) -> Call[reasons.WhyReply]:
    """Ask why a node is or isn't taken."""
    return Call("GET", paths.fill(paths.NODE_WHY, id=id_), reasons.WhyReply)


def list_nodes(
    *,
    types: Sequence[str] = (),
    status: str | None = None,
    project: str | None = None,
    assignee: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[nodes.NodesReply]:
    """List nodes that match everything that is given, in order of their ids (D41)."""
    query = query_of(type=types, status=status, project=project, assignee=assignee, text=text, limit=limit, after=after)
    return Call("GET", paths.NODES, nodes.NodesReply, query)


def put_nodes(
    entries: Sequence[str | Mapping[str, object]],
    *,
    if_exists: nodes.IfExists = "error",
    cycles: nodes.Cycles = "refuse",
    keep_attribution: bool = False,
) -> Call[nodes.PutReply]:
    """Write nodes in order, each on its own: markdown, JSON, or an entry with conditions. Read every result."""
    request = nodes.PutRequest(
        nodes=list(entries), if_exists=if_exists, cycles=cycles, keep_attribution=keep_attribution
    )
    return change("POST", paths.NODES, request, nodes.PutReply)


def export(*, project: str | None = None, authored: bool = False, gzip: bool = False) -> Call[bytes]:
    """Ask for the graph, or one project's nodes, as a tar; to be read as it comes, with `Client.stream`."""
    return Call("GET", paths.EXPORT, bytes, query_of(project=project, authored=authored, gzip=gzip))


def edges(
    id_: NodeId,
    *,
    direction: Literal["in", "out"] | None = None,
    types: Sequence[str] = (),
    limit: int | None = None,
    after: str | None = None,
) -> Call[nodes.EdgesReply]:
    """List the edges of a node, both ways unless `direction` says which."""
    query = query_of(direction=direction, type=types, limit=limit, after=after)
    return Call("GET", paths.fill(paths.NODE_EDGES, id=id_), nodes.EdgesReply, query)


def add_edge(
    id_: NodeId,
    type_: str,
    to: NodeId,
    *,
    attrs: Mapping[str, object] | None = None,
    if_epoch: int | None = None,
) -> Call[nodes.ChangeReply]:
    """Add an edge; one that is there is skipped, with other attributes it gets these."""
    request = nodes.EdgeRequest(type=type_, to=to, attrs=dict(attrs or {}), if_epoch=if_epoch)
    return change("POST", paths.fill(paths.NODE_EDGES, id=id_), request, nodes.ChangeReply)


def remove_edge(id_: NodeId, type_: str, to: NodeId, *, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Remove an edge; one that is not there is skipped, so a second sending changes nothing."""
    body = body_of(nodes.EdgeRemoval(type=type_, to=to, if_epoch=if_epoch))
    return Call("DELETE", paths.fill(paths.NODE_EDGES, id=id_), nodes.ChangeReply, body=body)


def set_status(
    id_: NodeId,
    status: str | None,
    *,
    if_epoch: int | None = None,
    session: str | None = None,
    dispatch: str | None = None,
) -> Call[nodes.ChangeReply]:
    """Set a node's status, None for none; an in-progress one claims the node (D10a)."""
    request = nodes.StatusRequest(status=status, if_epoch=if_epoch, session=session, dispatch=dispatch)
    return change("POST", paths.fill(paths.NODE_STATUS, id=id_), request, nodes.ChangeReply)


def set_priority(id_: NodeId, priority: str | None, *, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Set a node's priority: p1, p2, p3, or None."""
    request = nodes.PriorityRequest(priority=priority, if_epoch=if_epoch)
    return change("POST", paths.fill(paths.NODE_PRIORITY, id=id_), request, nodes.ChangeReply)


def set_readiness(
    id_: NodeId, readiness: Literal["agent"] | None, *, if_epoch: int | None = None
) -> Call[nodes.ChangeReply]:
    """Say that agents may take a node, or take that back."""
    request = nodes.ReadinessRequest(readiness=readiness, if_epoch=if_epoch)
    return change("POST", paths.fill(paths.NODE_READINESS, id=id_), request, nodes.ChangeReply)


def add_commit(id_: NodeId, *, repo: str, sha: str, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Note a commit on a node; one that is noted is skipped."""
    request = nodes.CommitRequest(repo=repo, sha=sha, if_epoch=if_epoch)
    return change("POST", paths.fill(paths.NODE_COMMITS, id=id_), request, nodes.ChangeReply)
