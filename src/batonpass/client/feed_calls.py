"""The calls that read the feed of events; `client.calls` says what a call is, `client.feed` follows the feed."""

from __future__ import annotations

from collections.abc import Sequence

from batonpass.client.calls import READ_S_MAX, Call, query_of
from batonpass.core.ids import NodeId
from batonpass.wire import events, paths


def get_events(
    *,
    after: str | None = None,
    wait: int = 0,
    limit: int | None = None,
    project: str | None = None,
    kinds: Sequence[str] = (),
    node: NodeId | None = None,
) -> Call[events.EventsReply]:
    """Read what happened after a position, from the beginning without one; wait up to `wait` seconds for something."""
    query = query_of(after=after, wait=wait or None, limit=limit, project=project, kind=kinds, node=node)
    return Call("GET", paths.EVENTS, events.EventsReply, query, answer_s_max=READ_S_MAX + wait)


def get_changes(
    *, since: str | None = None, project: str | None = None, limit: int | None = None
) -> Call[events.ChangesReply]:
    """Read what happened to nodes since a position, or a moment with its offset."""
    return Call("GET", paths.CHANGES, events.ChangesReply, query_of(since=since, project=project, limit=limit))
