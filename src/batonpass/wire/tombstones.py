"""Bodies of a deletion (D41)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.wire.leases import LeaseBody


class DeleteRequest(msgspec.Struct, kw_only=True):
    """Body of `DELETE /v1/nodes/{id}`; `force` deletes it also under somebody's live lease, which ends."""

    reason: str
    force: bool = False


class DeleteReply(msgspec.Struct, omit_defaults=True):
    """Reply of a deletion: the last revision, how many edges still lead to the node, and the tenure that ended."""

    http_status: ClassVar[int] = 200

    status: Literal["deleted"]
    id: str
    revision: str
    dangling: int
    warnings: list[str]
    ended: LeaseBody | None = None
