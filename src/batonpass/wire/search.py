"""The reply of GET /v1/search (D39)."""

from __future__ import annotations

import msgspec


class FoundBody(msgspec.Struct):
    """A node that was found.

    `matched` names the fields in which words of the query stand: id, title,
    summary, tags, commits, body. `snippet` is one line of what somebody wrote
    around the first of them: plain text, to be escaped by whoever shows it.
    """

    id: str
    type: str
    title: str
    summary: str
    status: str | None
    project: str | None
    date: str | None
    matched: list[str]
    snippet: str


class SearchReply(msgspec.Struct, omit_defaults=True):
    """One page of what was found, the best first.

    `count` is how many nodes were found, at most 1000; `truncated` says that
    the list goes on behind this page. `warnings` say what should be known of
    an answer that is less than it might be.
    """

    items: list[FoundBody]
    count: int
    truncated: bool
    warnings: list[str] = []
