"""Request bodies: one JSON object of at most 1 MiB, decoded into a wire struct (D16b).

What is not JSON, not an object, NaN or infinite, or has a key twice is 400.
A field of the wrong type is 422 and named. Routes of the published protocol
ignore fields they do not know and name them; our own routes refuse them, so
that a misspelt option cannot silently do nothing. What says who asks is
overlooked everywhere: the token says that.
"""

from __future__ import annotations

import codecs
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from batonpass.core.errors import BadRequest, Invalid, TooLarge
from batonpass.wire.text import Cleaner

BODY_BYTES_MAX: Final = 1024 * 1024
IGNORED_NAMED_MAX: Final = 10
"""How many overlooked fields are named: clients and proxies bound what they read of a header."""
FIELD_CHARS_SHOWN: Final = 60

IDENTITY_FIELDS: Final = frozenset({"author", "authored_by_agent", "authored_via", "by", "owner"})
"""What older clients say of themselves. A route that takes one of these as a field of its own still does (D16b)."""

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Body(Generic[S]):
    """A decoded body, the bytes it came as, and what was overlooked or replaced in it."""

    value: S
    raw: bytes
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def overlooked(self) -> tuple[str, ...]:
        """The ignored fields as warnings: for replies that have a list of them (D16b)."""
        named = [f"{shown(name)}: not a field of this request; ignored" for name in self.ignored[:IGNORED_NAMED_MAX]]
        more = len(self.ignored) - len(named)
        return (*named, *([f"{more} more fields are none of this request; ignored"] if more else []))

    @property
    def notices(self) -> tuple[str, ...]:
        """All that the sender should know of how the body was read."""
        return (*self.warnings, *self.overlooked)


def shown(name: str) -> str:
    """Return the name of a field nobody knows, fit for a header and a sentence: one short line, whatever it is."""
    return name[:FIELD_CHARS_SHOWN] if name.isascii() and name.isprintable() else ascii(name[:FIELD_CHARS_SHOWN])


async def read_bytes(request: Request) -> bytes:
    """Return the body; raise `TooLarge` as soon as it is, without reading the rest."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise TooLarge(f"body: {declared} bytes; the limit is {BODY_BYTES_MAX} bytes")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > BODY_BYTES_MAX:
                raise TooLarge(f"body: over the limit of {BODY_BYTES_MAX} bytes")
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise BadRequest("body: broke off before its end") from error
    return b"".join(chunks)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`; an empty body is an empty object."""
    if not raw.strip():
        return {}
    try:
        # Strictly UTF-8: given bytes, json would also read UTF-16, and surrogates that nothing below would see.
        value = _DECODER.decode(raw.removeprefix(codecs.BOM_UTF8).decode())
    except BadRequest:
        raise
    except RecursionError as error:
        raise BadRequest("body: nested too deeply") from error
    except ValueError as error:  # malformed JSON, bytes that are not UTF-8, a number with thousands of digits
        raise BadRequest(f"body: not JSON we can read: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest("body: must be a JSON object")
    return value


async def read(request: Request, kind: type[S], *, published: bool) -> Body[S]:
    """Return the request's body as a `kind`; `published` says whose rules for unknown fields hold."""
    raw = await read_bytes(request)
    value = parse_object(raw)
    cleaner = Cleaner()
    if b"\\u" in raw:  # the only way JSON can carry NUL or a lone surrogate
        value = _cleaned_but(value, cleaner, getattr(kind, "verbatim", frozenset()))
    ignored = _unknown(value, kind)
    refused = () if published else tuple(name for name in ignored if name not in IDENTITY_FIELDS)
    if refused:
        raise Invalid(
            f"{shown(refused[0])}: not a field of this request; it takes {', '.join(sorted(_fields(kind))) or 'none'}",
            details=[f"{shown(name)}: unknown field" for name in refused[:IGNORED_NAMED_MAX]],
            field=shown(refused[0]),
        )
    return Body(convert(value, kind), raw, ignored, tuple(cleaner.warnings))


def convert(value: object, kind: type[S]) -> S:
    """Return `value` as a `kind`; a wrong type or missing field is `Invalid` and named."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _named(error) from error


def _named(error: msgspec.ValidationError) -> Invalid:
    message, _, path = str(error).partition(" - at `$.")
    field = path.rstrip("`") or None
    if field is None and "required field `" in message:
        field = message.split("`")[1]
    return Invalid(f"{field}: {message[:1].lower()}{message[1:]}" if field else message, field=field)


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_encode_fields__)


def _unknown(value: Mapping[str, object], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    known = _fields(kind)
    return () if known.issuperset(value) else tuple(name for name in value if name not in known)


def _cleaned(value: Any, cleaner: Cleaner, field: str) -> Any:  # noqa: ANN401  # JSON in, JSON out
    match value:
        case str():
            return cleaner.text(value, field=field or "body")
        case list():
            return [_cleaned(item, cleaner, f"{field}[{i}]") for i, item in enumerate(value)]
        case dict():
            return {
                cleaner.identifier(name): _cleaned(item, cleaner, f"{field}.{name}" if field else name)
                for name, item in value.items()
            }
        case _:
            return value


def _cleaned_but(value: Mapping[str, Any], cleaner: Cleaner, verbatim: frozenset[str]) -> dict[str, Any]:
    """Return the body cleaned, but for the fields that are kept byte for byte: those have rules of their own."""
    kept = {name: value[name] for name in verbatim if name in value}
    cleaned: dict[str, Any] = _cleaned({name: each for name, each in value.items() if name not in kept}, cleaner, "")
    return {**cleaned, **kept}


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"body: the key {twice[:60]!a} stands there twice")
    return value


def _no_constant(name: str) -> object:
    raise BadRequest(f"body: {name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadRequest(f"body: {text[:40]} is beyond what a number can hold")
    return number


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_constant, parse_float=_finite)
