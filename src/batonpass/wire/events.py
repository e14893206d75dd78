"""The feed on the wire: what happened, in order, and where a reader stands in it (D15a).

A *position* is a text that clients keep and pass on, and never look into. It
carries the beginning of the database's incarnation, so after a restore it is
410 `resync`, as one is that is older than what is kept. `seq` is the number of
one event: it rises along the feed, and has gaps that mean nothing.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from batonpass.core.clock import iso
from batonpass.core.feed import StoredEvent

STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"
FROM_NOW: Final = "now"
"""In place of a position: the end of the feed."""
WAIT_S_MAX: Final = 60
LIMIT: Final = 100
LIMIT_MAX: Final = 500


Wait = Annotated[int, msgspec.Meta(ge=0, le=WAIT_S_MAX)]
"""How long an answer may wait for something to say, in whole seconds."""


class EventBody(msgspec.Struct, omit_defaults=True):
    """One thing that happened: `kind` is one of an open set, `data` depends on it.

    What happened to a record names `record`, as `<class>/<id>`, and `field` in place of a node.
    """

    seq: int
    at: str
    kind: str
    node: str | None
    project: str | None
    actor: str
    data: msgspec.Raw
    owner: str | None = None
    session: str | None = None
    revision: str | None = None
    epoch: int | None = None
    record: str | None = None
    field: str | None = None
    version: int | None = None


class EventsReply(msgspec.Struct):
    """Events in their order; pass `next` as `after`. With `more` there is more to read at once."""

    events: list[EventBody]
    next: str
    more: bool


class ChangesReply(msgspec.Struct):
    """What happened to nodes, in its order; pass `next` as `since`. With `more` there is more to read at once."""

    changes: list[EventBody]
    next: str
    more: bool


def event_body(event: StoredEvent) -> EventBody:
    """Return an event as it goes over the wire; its data is JSON already, and passed on as it is."""
    return EventBody(
        seq=event.seq,
        at=iso(event.at),
        kind=event.kind,
        node=event.node,
        project=event.project,
        actor=event.actor,
        owner=event.owner,
        session=event.session,
        revision=event.revision,
        epoch=event.epoch,
        record=event.record,
        field=event.field,
        version=event.version,
        data=msgspec.Raw(event.data.encode()),
    )
