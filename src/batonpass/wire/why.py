"""Why an item is or isn't taken, as it goes over the wire (D41)."""

from __future__ import annotations

import msgspec

from batonpass.wire.queue import ItemBody


class ReasonBody(msgspec.Struct, omit_defaults=True):
    """One thing to know: `way_out` says what would change it, and is absent where nothing need."""

    code: str
    says: str
    way_out: str | None = None


class TakesBody(msgspec.Struct):
    """Whether the caller would get it from `queue/next` now, by what it accepts."""

    ready: bool
    open: bool


class WhyReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/nodes/{id}/why`. `item` is absent when the caller's queue does not list the node."""

    id: str
    taken: TakesBody
    reasons: list[ReasonBody]
    item: ItemBody | None = None
