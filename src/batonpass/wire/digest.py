"""Briefings on the wire: `POST /v1/digest` and `GET /v1/briefing/{project}` (companion 5.1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from batonpass.wire.schemas import AnyIdOrNone


class DigestRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/digest`: what stands around `root`, which wins, or what is known about `query`.

    Without `project` the briefing is blind to projects. `min_sim` (0 to 1) is
    how alike what is found by its words must be.
    """

    query: str | None = None
    root: AnyIdOrNone = None
    project: AnyIdOrNone = None
    min_sim: float | None = None
    mode: Literal["digest", "full"] = "digest"


class DigestReply(msgspec.Struct):
    """Reply of `POST /v1/digest`; finding nothing is an answer too.

    `node_ids` are all that was selected, in the order of the text, also what did not fit into it. `top_sim` is how
    much the most alike of them is like what was asked about.
    """

    found: bool
    text: str
    node_ids: list[str]
    top_sim: float


class BriefingReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/briefing/{project}`. `version` names exactly this body."""

    found: bool
    version: str | None
    body: str
    graph_status: Literal["ready", "empty", "unknown"]
    project_brief: str | None = None
