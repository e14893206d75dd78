"""The calls about the server itself: its state, its policies, and its search; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Sequence

from batonpass.client.calls import Call, change, query_of
from batonpass.wire import paths, policy
from batonpass.wire.search import SearchReply
from batonpass.wire.status import StatusReply


def server_status() -> Call[StatusReply]:
    """Ask what is running."""
    return Call("GET", paths.STATUS, StatusReply)


def search_nodes(
    q: str,
    *,
    project: str | None = None,
    types: Sequence[str] = (),
    limit: int | None = None,
    offset: int = 0,
) -> Call[SearchReply]:
    """Find nodes that hold every word of `q`."""
    query = query_of(q=q, project=project, type=types, limit=limit, offset=offset or None)
    return Call("GET", paths.SEARCH, SearchReply, query)


def get_policy(project: str) -> Call[policy.PolicyReply]:
    """Read the policy in force for `project`; ``*`` is every project's."""
    return Call("GET", paths.fill(paths.POLICY, project=project), policy.PolicyReply)


def put_policy(project: str, changes: policy.PolicyRequest) -> Call[policy.PolicyReply]:
    """Change a project's policy where `changes` says something; admins only. It touches the next grant (D8)."""
    return change("PUT", paths.fill(paths.POLICY, project=project), changes, policy.PolicyReply)
