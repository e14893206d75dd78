"""Identifiers: one type per kind, parsed once at the edge.

A bare ``str`` past ``wire/`` is a mistake the type checker can see. Every
parser raises `Invalid` naming the field, the rule and the limit, so that the
message can be shown to whoever sent the value.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Final, NewType

from batonpass.core.errors import Invalid

NodeId = NewType("NodeId", str)
HolderId = NewType("HolderId", str)
"""Who holds a lease: an agent id, a person id, ``apikey:<name>`` or ``sa:<ns>/<name>``."""
PersonId = NewType("PersonId", HolderId)
AgentId = NewType("AgentId", HolderId)
RunId = NewType("RunId", str)
Resource = NewType("Resource", str)
"""What a lease is on: a node id, or ``record:<class>/<id>#<field>`` (D2a)."""
TokenHash = NewType("TokenHash", str)
"""Hex SHA-256 of a token's secret; the only form in which a token is kept."""
Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00Z on the database's clock (D43)."""

NODE_ID_BYTES_MAX: Final = 200
LABEL_CHARS_MAX: Final = 200
_NODE_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_NO_SLUG: Final = re.compile(r"[^a-z0-9]+", re.ASCII)
_LABEL: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_FENCE: Final = re.compile(r"\s*(?P<resource>[^;\s]+)\s*;\s*epoch\s*=\s*(?P<epoch>\d{1,18})\s*", re.ASCII)
RESOURCE_PREFIX: Final = "record:"
"""With what the resource of a record's task begins, and no node's id does."""
RECORD_NAME_CHARS_MAX: Final = 100
RECORD_ID_CHARS_MAX: Final = 200
CLASS_NAME: Final = rf"[a-z0-9][a-z0-9-]{{0,{RECORD_NAME_CHARS_MAX - 1}}}"
RECORD_ID: Final = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{RECORD_ID_CHARS_MAX - 1}}}"
FIELD_NAME: Final = rf"[a-z0-9][a-z0-9_-]{{0,{RECORD_NAME_CHARS_MAX - 1}}}"
"""The forms of what a record's field is named by (D38)."""
_RECORD: Final = re.compile(f"{RESOURCE_PREFIX}{CLASS_NAME}/{RECORD_ID}#{FIELD_NAME}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Fence:
    """A resource and the epoch its writer believes in (D2a); as text, the form of the If-Lease header."""

    resource: Resource
    epoch: int

    def __str__(self) -> str:
        return f"{self.resource}; epoch={self.epoch}"


def parse_node_id(text: object, *, field: str = "id") -> NodeId:
    """Return `text` as a node id: ``[a-z0-9][a-z0-9-]*``, at most 200 bytes (D16b)."""
    if not isinstance(text, str):
        raise Invalid(f"{field}: must be a string, not {json_type(text)}", field=field)
    if len(text) > NODE_ID_BYTES_MAX:
        raise Invalid(f"{field}: {len(text)} bytes; the limit is {NODE_ID_BYTES_MAX} bytes", field=field)
    if not _NODE_ID.fullmatch(text):
        raise Invalid(
            f"{field}: {shown(text)} is not an id; ids are lower-case letters, digits and hyphens,"
            " and begin with a letter or digit",
            field=field,
        )
    return NodeId(text)


def parse_label(text: object, *, field: str) -> str:
    """Return `text` as a session, dispatch nonce or key: 1 to 200 printable ASCII characters (D16b)."""
    if not isinstance(text, str):
        raise Invalid(f"{field}: must be a string, not {json_type(text)}", field=field)
    if not text or len(text) > LABEL_CHARS_MAX:
        raise Invalid(f"{field}: {len(text)} characters; it takes 1 to {LABEL_CHARS_MAX}", field=field)
    if not _LABEL.fullmatch(text):
        raise Invalid(
            f"{field}: {shown(text)} has characters outside printable ASCII, or blanks at an end", field=field
        )
    return text


def parse_resource(text: object, *, field: str = "resource") -> Resource:
    """Return `text` as a lease's resource: a node id, or a record's task field (D2a)."""
    if isinstance(text, str) and text.startswith(RESOURCE_PREFIX):
        if not _RECORD.fullmatch(text):
            raise Invalid(f"{field}: {shown(text)} is not record:<class>/<id>#<field>", field=field)
        return Resource(text)
    return Resource(parse_node_id(text, field=field))


def parse_fence(text: str, *, field: str = "If-Lease") -> Fence:
    """Return the fence in ``<resource>; epoch=<n>``, the form of the If-Lease header (D2a)."""
    match = _FENCE.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {shown(text)} is not <resource>; epoch=<number>", field=field)
    return Fence(parse_resource(match["resource"], field=field), int(match["epoch"]))


def slug_of(text: str, *, chars_max: int) -> str:
    """Return `text` in lower-case ASCII letters, digits and hyphens; where nothing is left, a digest of it."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = _NO_SLUG.sub("-", plain).strip("-")[:chars_max].rstrip("-")
    return slug or hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def shown(text: str, *, chars_max: int = 60) -> str:
    """Return `text` quoted and cut, so that a message can name it whatever it holds."""
    head = text if len(text) <= chars_max else text[: chars_max - 1] + "…"
    return ascii(head) if not head.isprintable() else f'"{head}"'


def json_type(value: object) -> str:
    """Return the JSON name of `value`'s type, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"
