"""Bodies of the look-up of a commit."""

from __future__ import annotations

import msgspec


class CarrierBody(msgspec.Struct):
    """A node that carries the commit, and as which ``repo@sha``: more than one when the hash is short."""

    id: str
    type: str
    title: str
    status: str | None
    project: str | None
    commits: list[str]


class CommitReply(msgspec.Struct):
    """Reply of `GET /v1/commits/{sha}`; `next` is the `after` of the next page, null at the end."""

    sha: str
    nodes: list[CarrierBody]
    count: int
    next: str | None
