"""The calls about what became of nodes, and about many at once; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batonpass.client.calls import Call, body_of, change, query_of
from batonpass.core.ids import NodeId
from batonpass.wire import batch, commits, history, nodes, paths, schema, tombstones


def read_nodes(ids: Sequence[NodeId] | None = None, *, cursor: str | None = None) -> Call[batch.BatchReply]:
    """Read up to 100 nodes, or with the `next_cursor` of a page the next one."""
    request = batch.BatchRequest(ids=None if ids is None else list(ids), cursor=cursor)
    return Call("POST", paths.NODES_BATCH, batch.BatchReply, body=body_of(request))


def history_of(
    id_: NodeId, *, limit: int | None = None, before: int | None = None, content: bool = False
) -> Call[history.HistoryReply]:
    """List what became of a node, newest first; with `content` each revision's text too."""
    query = query_of(limit=limit, before=before, content=content)
    return Call("GET", paths.fill(paths.NODE_HISTORY, id=id_), history.HistoryReply, query)


def revision(id_: NodeId, sha: str) -> Call[history.RevisionReply]:
    """Read a node as it was at a revision, named whole or by at least 8 of its digits."""
    return Call("GET", paths.fill(paths.NODE_REVISION, id=id_, sha=sha), history.RevisionReply)


def redact(id_: NodeId, *, revision: str, reason: str) -> Call[history.RedactReply]:
    """Take the text of an earlier revision out of a node's history, for good; admins only."""
    request = history.RedactRequest(revision=revision, reason=reason)
    return change("POST", paths.fill(paths.NODE_REDACT, id=id_), request, history.RedactReply)


def delete(id_: NodeId, *, reason: str, force: bool = False) -> Call[tombstones.DeleteReply]:
    """Delete a node, with `force` also under somebody's live lease; admins only. Its id is never used again."""
    request = tombstones.DeleteRequest(reason=reason, force=force)
    return change("DELETE", paths.fill(paths.NODE, id=id_), request, tombstones.DeleteReply)


def nodes_with_commit(
    sha: str, *, repo: str | None = None, limit: int | None = None, after: str | None = None
) -> Call[commits.CommitReply]:
    """List the nodes that carry a commit, named by at least 7 of its digits."""
    query = query_of(repo=repo, limit=limit, after=after)
    return Call("GET", paths.fill(paths.COMMIT, sha=sha), commits.CommitReply, query)


def add_live_edge(
    id_: NodeId, type_: str, to: NodeId, *, attrs: Mapping[str, object] | None = None, if_epoch: int | None = None
) -> Call[nodes.ChangeReply]:
    """Add an edge as `node_calls.add_edge` does, if the node it leads to is live at that moment."""
    request = nodes.EdgeRequest(type=type_, to=to, attrs=dict(attrs or {}), if_epoch=if_epoch)
    return change("POST", paths.fill(paths.NODE_EDGES_LIVE, id=id_), request, nodes.ChangeReply)


def get_schema() -> Call[schema.SchemaReply]:
    """Read what may be written: types, statuses, edges, keys, limits, vocabularies."""
    return Call("GET", paths.SCHEMA, schema.SchemaReply)
