"""Questions on the wire: asking one, and answering it (companion 6.3)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.wire.schemas import AnyId, Epoch, Premise, Slug


class QuestionRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/questions`. `mentions` and `blocks` are ids of nodes, `to` a person's."""

    text: str
    title: str | None = None
    mentions: list[AnyId] = []
    project: Slug | None = None
    to: Slug | None = None
    blocks: list[AnyId] = []
    based_on: list[Premise] = []


class QuestionReply(msgspec.Struct):
    """The question that was filed: to whom it was routed, null for nobody in particular, and by which rule."""

    http_status: ClassVar[int] = 201

    status: Literal["created"]
    id: str
    project: str | None
    routed_to: str | None
    via: Literal["to", "mention", "steward", "owner", "author", "unrouted"]
    asker: str
    revision: str
    warnings: list[str]


class AnswerRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/questions/{id}/answer`."""

    text: str
    title: str | None = None
    if_epoch: Epoch | None = None
    based_on: list[Premise] = []


class AnswerReply(msgspec.Struct):
    """The node that answers, and the question's own revision now that it is answered."""

    http_status: ClassVar[int] = 201

    status: Literal["created"]
    id: str
    revision: str
    question: str
    question_revision: str
    warnings: list[str]
