"""JSON Schema by its library: is a schema one, and what a value breaks of it.

The library is imported where the first schema is met: most commands meet none,
and theirs to start is a promise (D37). It fetches nothing: a schema that
reaches it refers to its own places only (`core.class_schemas`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from batonpass.core.class_rules import Rule, SchemaFinding
from batonpass.core.ids import shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

CACHED_MAX: Final = 500
BROKEN_SHOWN_MAX: Final = 10
"""How many of the things that are wrong with a value are told."""
MATCHED_CHARS_MAX: Final = 1_000
"""How long a text with a `pattern` may be: `re` may take a power of its length (`core.patterns`)."""
_WHY_CHARS_MAX: Final = 200


def schema_findings(schema: Any) -> Iterator[SchemaFinding]:  # noqa: ANN401  # JSON of any shape
    """Yield what the library finds wrong with a JSON Schema."""
    kind = _kind()
    for error in kind(kind.META_SCHEMA).iter_errors(schema):
        yield Rule.BAD_SCHEMA, _told(error)


def broken(schema: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401  # JSON of any shape
    """Return what `value` breaks of `schema`, JSON text of one that was checked; nothing when it fits."""
    try:
        errors = _validator(schema).iter_errors(value)
        return tuple(_told(error) for _, error in zip(range(BROKEN_SHOWN_MAX), errors, strict=False))
    except RecursionError:
        return ("nested too deeply",)


@functools.lru_cache(maxsize=CACHED_MAX)
def _validator(schema: str) -> Validator:
    return _kind()(json.loads(schema))


@functools.cache
def _kind() -> type[Validator]:
    """Return draft 2020-12 with two keywords of our own, whose cost the writer of a value cannot drive up."""
    from jsonschema.validators import Draft202012Validator, extend

    made = extend(Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique_items})  # type: ignore[no-untyped-call]  # its stubs do not say
    return cast("type[Validator]", made)


def _pattern(_: Validator, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(value, str):
        return
    if len(value) > MATCHED_CHARS_MAX:
        yield ValidationError(f"{len(value)} characters; a text with a pattern has at most {MATCHED_CHARS_MAX}")
    elif not re.search(pattern, value):
        yield ValidationError(f"{shown(value)} does not match {shown(pattern)}")


def _unique_items(_: Validator, wanted: object, value: object, __: object) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if wanted and isinstance(value, list) and len({_canonical(item) for item in value}) < len(value):
        yield ValidationError("two items are equal")


def _canonical(value: object) -> str:
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:  # noqa: ANN401  # JSON in, JSON out
    """Return `value` with 1.0 as 1: to JSON Schema they are equal."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case _:
            return value


def _told(error: ValidationError) -> str:
    place = "/".join(str(part) for part in error.absolute_path)
    why = error.message if len(error.message) <= _WHY_CHARS_MAX else error.message[: _WHY_CHARS_MAX - 1] + "…"
    return f"{place}: {why}" if place else why
