"""Capture on the wire (D16a)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.wire.schemas import AnyId, Premise, Slug


class CaptureRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/capture`. `during` is the node the text was found during, `blocks` what waits for it."""

    text: str
    title: str | None = None
    project: Slug | None = None
    during: Slug | None = None
    blocks: list[AnyId] = []
    date: str | None = None
    based_on: list[Premise] = []


class CaptureReply(msgspec.Struct):
    """The nodes that keep the text: the one to be sorted, and behind it those with the rest of a long text."""

    http_status: ClassVar[int] = 201

    status: Literal["created"]
    ids: list[str]
    warnings: list[str]
