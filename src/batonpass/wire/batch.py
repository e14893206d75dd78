"""Bodies of the batch read: many nodes in pages of a bounded size (companion 1.7)."""

from __future__ import annotations

import binascii
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from batonpass.core.errors import Invalid
from batonpass.core.ids import NODE_ID_BYTES_MAX, NodeId, json_type, parse_node_id
from batonpass.wire.nodes import NodeReply
from batonpass.wire.schemas import ID

IDS_MAX: Final = 100
"""How many ids one call takes."""
PAGE_BYTES_MAX: Final = 48 * 1024
"""How much JSON the nodes of a page are at most, unless the first of them is more by itself."""
_CURSOR_BYTES_MAX: Final = IDS_MAX * (NODE_ID_BYTES_MAX + 1)

Ids = Annotated[Any, Meta(extra_json_schema={"type": ["array", "null"], "items": ID, "maxItems": IDS_MAX})]


class BatchRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/nodes/batch`: the ids of a first page, or the `next_cursor` of the page before."""

    ids: Ids = None
    cursor: str | None = None


class BatchReply(msgspec.Struct):
    """Reply of the batch read, in the order asked for; each id once, in one page, among the returned or the missing."""

    nodes: list[NodeReply]
    returned_ids: list[str]
    missing_ids: list[str]
    truncated: bool
    next_cursor: str | None


def asked(request: BatchRequest) -> list[NodeId]:
    """Return the ids that a page is asked of, in order and without repeats; `Invalid` for anything else."""
    if (request.ids is None) is (request.cursor is None):
        raise Invalid("ids: give either ids, or the next_cursor of a page as cursor", field="ids")
    ids = _ids(request.ids) if request.cursor is None else _rest(request.cursor)
    return list(dict.fromkeys(ids))


def cursor_of(rest: Sequence[NodeId]) -> str:
    """Return what stands for the ids that are left: whoever gives it back gets the next page."""
    return urlsafe_b64encode(zlib.compress("\n".join(rest).encode())).decode()


def _ids(value: object) -> list[NodeId]:
    if not isinstance(value, list):
        raise Invalid(f"ids: must be an array, not {json_type(value)}", field="ids")
    if not 0 < len(value) <= IDS_MAX:
        raise Invalid(f"ids: {len(value)} ids; one call takes 1 to {IDS_MAX} ids", field="ids")
    return [parse_node_id(text, field=f"ids[{i}]") for i, text in enumerate(value)]


def _rest(cursor: str) -> list[NodeId]:
    """Return the ids in a cursor. It is the client's to give back, so nothing about it is believed."""
    try:
        packed = urlsafe_b64decode(cursor.encode("ascii"))
        inflate = zlib.decompressobj()
        text = inflate.decompress(packed, _CURSOR_BYTES_MAX).decode("ascii")
        if not inflate.eof:
            raise ValueError("longer than any of ours")  # noqa: TRY301 — the one answer below is for all
        return _ids(text.split("\n"))
    except (ValueError, binascii.Error, zlib.error, Invalid) as error:
        raise Invalid("cursor: is not the next_cursor of a page; ask anew, with ids", field="cursor") from error
