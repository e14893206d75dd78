"""Corrections on the wire (companion 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from batonpass.core.clock import iso
from batonpass.core.nodes import Node
from batonpass.wire.schemas import Premise


class CorrectionRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/corrections`. `target` is a node's id, ``project:<slug>``, or ``global``."""

    target: str
    text: str
    title: str | None = None
    based_on: list[Premise] = []


class CorrectionReply(msgspec.Struct):
    """The correction that was filed."""

    http_status: ClassVar[int] = 201

    status: Literal["created"]
    id: str
    revision: str
    warnings: list[str]


class CorrectionBody(msgspec.Struct):
    """One correction that stands."""

    id: str
    target: str
    title: str
    text: str
    project: str | None
    author: str | None
    created_at: str
    revision: str


class CorrectionsReply(msgspec.Struct):
    """Reply of `GET /v1/corrections`; `next` is the `after` of the next page, null at the end."""

    corrections: list[CorrectionBody]
    count: int
    next: str | None


def corrections_reply(nodes: Sequence[Node], following: str | None) -> CorrectionsReply:
    """Return a page of corrections as it goes over the wire."""
    return CorrectionsReply([_correction_body(node) for node in nodes], len(nodes), following)


def _correction_body(node: Node) -> CorrectionBody:
    authored = node.authored
    return CorrectionBody(
        id=node.id,
        target=str(authored.extra["target"]),
        title=authored.title,
        text=authored.body or authored.summary,
        project=authored.project,
        author=node.attribution.agent or node.attribution.author,
        created_at=iso(node.created_at),
        revision=node.revision,
    )
