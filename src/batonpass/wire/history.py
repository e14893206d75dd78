"""Bodies of histories: a page of entries, a revision as it was, a redaction (D41); and such a text taken apart."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.core.blame import Parts
from batonpass.wire.frontmatter import Entry, load


class DeletedBody(msgspec.Struct):
    """What there is to know of a deleted node."""

    at: str
    by: str
    reason: str


class EntryBody(msgspec.Struct, omit_defaults=True):
    """One entry: who did what, when, and at which revision the node was then.

    The verbs `delete` and `redact` are acts and have a `reason`; all others
    brought the revision. `raw` is its canonical markdown, where it was asked
    for. `redaction` is the `n` of the entry that took that text away.
    """

    n: int
    revision: str
    verb: str
    at: str
    author: str | None
    agent: str | None
    session: str | None
    via: str | None
    reason: str | None = None
    redaction: int | None = None
    raw: str | None = None


class HistoryReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/nodes/{id}/history`, newest first; `next` is the `before` of the next page, null at the end."""

    id: str
    entries: list[EntryBody]
    count: int
    next: int | None
    deleted: DeletedBody | None = None


class RedactedBody(msgspec.Struct):
    """Who took a text out of a history, when and why."""

    at: str
    by: str | None
    reason: str | None


class RevisionReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/nodes/{id}/history/{sha}`: the node as it was; `raw` is a marker where it was `redacted`."""

    id: str
    revision: str
    raw: str
    n: int
    verb: str
    at: str
    author: str | None
    agent: str | None
    session: str | None
    via: str | None
    redacted: RedactedBody | None = None


class RedactRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/nodes/{id}/redact`; `revision` may be the beginning of one, of at least 8 digits."""

    revision: str
    reason: str


class RedactReply(msgspec.Struct):
    """Reply of a redaction: the whole revision, and from how many entries its text was taken; 0 if it was before."""

    http_status: ClassVar[int] = 200

    status: Literal["updated", "skipped"]
    id: str
    revision: str
    entries: int
    warnings: list[str]


def parts_of(raw: str) -> tuple[dict[str, Entry], str]:
    """Return the keys and the body of a text as histories keep it, which is canonical and needs no checking."""
    front, _, body = raw.removeprefix("---\n").partition("\n---\n")
    fields, _ = load(front + "\n")
    return fields, body.removeprefix("\n").removesuffix("\n")


def parted(raw: str) -> Parts:
    """Return the same for comparison with others: each edge is a key of its own."""
    fields, body = parts_of(raw)
    keys = {key: _shown(value) for key, value in fields.items() if key != "edges"}
    edges = fields.get("edges", [])
    for edge in [one for one in edges if isinstance(one, dict)]:
        attrs = {key: value for key, value in edge.items() if key not in {"type", "to"}}
        keys[f"{edge['type']} {edge['to']}"] = _shown(attrs)
    return Parts(keys, tuple(body.split("\n")) if body else ())


def _shown(value: Entry) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{key}: {text}" for key, text in value.items())
    return ", ".join(item for item in value if isinstance(item, str))
