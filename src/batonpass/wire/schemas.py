"""What a field's schema says beyond its type: patterns and limits, for the OpenAPI document.

These describe and check nothing. msgspec would check a pattern or a length of its own, and refuse in its own words
before `core` can name field, limit and way out (D16b); a test compares what is described here with what is refused.
A field whose type is refused in our words too is `Any` to msgspec, and described as what it has to be.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from batonpass.core.identity import EMAIL_CHARS_MAX, NAME_CHARS_MAX, PUBKEY_CHARS_MAX
from batonpass.core.ids import LABEL_CHARS_MAX, NODE_ID_BYTES_MAX
from batonpass.core.keys import KEY_NAME_CHARS_MAX, KEY_NAME_PATTERN

Schema = dict[str, Any]

INT_MAX: Final = 2**63 - 1
"""The largest number that any column holds."""
ID: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": NODE_ID_BYTES_MAX}
LABEL: Final[Schema] = {
    "type": "string",
    "pattern": "^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$",
    "maxLength": LABEL_CHARS_MAX,
}
PREFIX: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{8,64}$"}
KEY_NAME: Final[Schema] = {"type": "string", "pattern": f"^{KEY_NAME_PATTERN}$", "maxLength": KEY_NAME_CHARS_MAX}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX}
EMAIL: Final[Schema] = {"type": "string", "maxLength": EMAIL_CHARS_MAX}
PUBLIC_KEY: Final[Schema] = {"type": "string", "maxLength": PUBKEY_CHARS_MAX}

PREMISE: Final[Schema] = {
    "type": "object",
    "properties": {"kind": {"const": "fence"}, "field": {"type": "string"}, "epoch": {"type": "integer", "minimum": 1}},
    "required": ["kind", "field", "epoch"],
    "additionalProperties": False,
}
ENTRY: Final[Schema] = {
    "description": "A node as markdown or as JSON, or an object with either as its `node`, and conditions of its own.",
    "type": ["string", "object"],
}


def _of(schema: Schema, **more: object) -> Meta:
    return Meta(extra_json_schema={**schema, **more})


def optional(schema: Schema) -> Schema:
    """Return `schema` for a field that may be null."""
    return {**schema, "type": [schema["type"], "null"]}


AnyId = Annotated[Any, _of(ID)]
AnyIdOrNone = Annotated[Any, _of(optional(ID))]
AnyText = Annotated[Any, _of({"type": "string"})]
AnyTextOrNone = Annotated[Any, _of(optional({"type": "string"}))]
Slug = Annotated[str, _of(ID)]
Label = Annotated[str, _of(LABEL)]
"""A session, a dispatch nonce: what only has to be the same again."""
Epoch = Annotated[int, _of({"minimum": 1, "maximum": INT_MAX})]
Name = Annotated[str, _of(NAME)]
KeyNameText = Annotated[Any, _of(KEY_NAME)]
Email = Annotated[str, _of(EMAIL)]
PublicKey = Annotated[str, _of(PUBLIC_KEY)]
Span = Annotated[int | float, _of({"exclusiveMinimum": 0})]
"""Milliseconds."""
Premise = Annotated[Any, _of(PREMISE)]
"""A field of a record and the epoch at which its holder acquired it (D33)."""
Entry = Annotated[Any, _of(ENTRY)]
