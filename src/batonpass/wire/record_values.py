"""Values of records as they stand in a body: byte for byte what was sent (D16b, D38).

A body is decoded twice. As Python's values it is checked, which finds what is
no JSON, has a key twice or a number beyond all bounds; and once more it is cut
into the texts of its values, which are what is stored. So a number keeps the
digits it was written with, and a string its escapes.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import msgspec

from batonpass.core.errors import BadRequest


class _OfOne(msgspec.Struct):
    value: msgspec.Raw


class _OfSeveral(msgspec.Struct):
    writes: list[dict[str, msgspec.Raw]]


def value_text(body: bytes) -> str:
    """Return the JSON text of `value` in a body that has one."""
    return _text(_cut(body, _OfOne).value)


def write_texts(body: bytes) -> list[dict[str, str]]:
    """Return the JSON text of every field of each of the `writes` in a body, which are objects."""
    return [{name: _text(raw) for name, raw in write.items()} for write in _cut(body, _OfSeveral).writes]


def raw_value(text: str) -> msgspec.Raw:
    """Return a register's stored text as it goes into a reply."""
    return msgspec.Raw(text.encode())


def raw_items(texts: Sequence[str]) -> msgspec.Raw:
    """Return the stored texts of an append's items as the array that goes into a reply."""
    return msgspec.Raw(b"[" + ",".join(texts).encode() + b"]")


def _cut(body: bytes, kind: Any) -> Any:  # noqa: ANN401  # one of the two structs above
    try:
        return msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8), type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"body: not JSON we can read: {error}") from error


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).strip(b" \t\r\n").decode()
