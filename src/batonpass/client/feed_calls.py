"""The calls that read the feed of events; `client.calls` says what a call is, `client.feed` follows the feed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from batonpass.client.calls import READ_S_MAX, Call, query_of
from batonpass.core.ids import NodeId
from batonpass.core.records import ClassName, FieldName, RecordPath
from batonpass.wire import events, paths


class About(TypedDict, total=False):
    """Which events: all of them, but for what is said here. Of records only what the caller may read is among them."""

    project: str | None
    kinds: Sequence[str]
    node: NodeId | None
    record: RecordPath | None
    record_class: ClassName | None
    field: FieldName | None


def get_events(
    *,
    after: str | None = None,
    wait: int = 0,
    limit: int | None = None,
    **about: Unpack[About],
) -> Call[events.EventsReply]:
    """Read what happened after a position, from the beginning without one; wait up to `wait` seconds for something."""
    record = about.get("record")
    query = query_of(
        after=after,
        wait=wait or None,
        limit=limit,
        project=about.get("project"),
        kind=about.get("kinds", ()),
        node=about.get("node"),
        record=str(record) if record is not None else None,
        field=about.get("field"),
        **{"class": about.get("record_class")},
    )
    return Call("GET", paths.EVENTS, events.EventsReply, query, answer_s_max=READ_S_MAX + wait)


def get_changes(
    *, since: str | None = None, project: str | None = None, limit: int | None = None
) -> Call[events.ChangesReply]:
    """Read what happened to nodes since a position, or a moment with its offset."""
    return Call("GET", paths.CHANGES, events.ChangesReply, query_of(since=since, project=project, limit=limit))
