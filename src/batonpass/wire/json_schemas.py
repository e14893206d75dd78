"""JSON Schema by its library: is a schema one, and what a value breaks of it.

The library is imported where the first schema is met: most commands meet none,
and theirs to start is a promise (D37). It fetches nothing: a schema that
reaches it refers to its own places only (`core.class_schemas`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, cast

from batonpass.core import patterns
from batonpass.core.class_rules import Rule, SchemaFinding
from batonpass.core.ids import shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_Judge = Callable[..., "Iterator[ValidationError] | None"]

CACHED_MAX: Final = 500
BROKEN_SHOWN_MAX: Final = 10
"""How many of the things that are wrong with a value are told."""
WORK_MAX: Final = 100_000_000
"""How much judging one value may take, in steps of about 10 ns: it is judged while its record is locked."""
_KEYWORD_STEPS: Final = 300
"""What a keyword takes at each place of the value where it is asked."""
_ENTRY_STEPS: Final = 30
"""And for each entry of its own, such as the values of an `enum`."""
_ERROR_STEPS: Final = 2_000
"""And for what it finds broken, which one of several others may make good again."""
_WHY_CHARS_MAX: Final = 200


def schema_findings(schema: Any) -> Iterator[SchemaFinding]:  # noqa: ANN401  # JSON of any shape
    """Yield what the library finds wrong with a JSON Schema."""
    kind = _kind()
    for error in kind(kind.META_SCHEMA).iter_errors(schema):
        yield Rule.BAD_SCHEMA, _told(error)


def broken(schema: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401  # JSON of any shape
    """Return what `value` breaks of `schema`, JSON text of one that was checked; nothing when it fits."""
    before = _spent.set([0])
    try:
        errors = _validator(schema).iter_errors(value)
        return tuple(_told(error) for _, error in zip(range(BROKEN_SHOWN_MAX), errors, strict=False))
    except RecursionError:
        return ("nested too deeply",)
    except _TooMuch:
        return ("there is too much in it to be judged by its schema; make the value smaller, or the schema simpler",)
    finally:
        _spent.reset(before)


class _TooMuch(Exception):
    """Judging a value takes more than `WORK_MAX`."""


_spent: ContextVar[list[int] | None] = ContextVar("steps spent on the value that is judged", default=None)


def _spend(steps: int) -> None:
    """Take so much from what the judging of a value may cost; of a schema, which is short, nothing is counted."""
    spent = _spent.get()
    if spent is None:
        return
    spent[0] += steps
    if spent[0] > WORK_MAX:
        raise _TooMuch


@functools.lru_cache(maxsize=CACHED_MAX)
def _validator(schema: str) -> Validator:
    return _kind()(json.loads(schema))


@functools.cache
def _kind() -> type[Validator]:
    """Return draft 2020-12 with some keywords of our own, whose cost the writer of a value cannot drive up."""
    from jsonschema.validators import Draft202012Validator, extend

    own = {"pattern": _pattern, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    judges = {name: _counted(judge) for name, judge in {**Draft202012Validator.VALIDATORS, **own}.items()}
    return cast("type[Validator]", extend(Draft202012Validator, judges))  # type: ignore[no-untyped-call]  # its stubs do not say


def _counted(judge: _Judge) -> _Judge:
    """Return a keyword that takes its part of what the judging of one value may cost."""

    def judged(validator: Validator, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401  # JSON of any shape
        _spend(_KEYWORD_STEPS + _ENTRY_STEPS * len(wanted) if isinstance(wanted, dict | list) else _KEYWORD_STEPS)
        for error in judge(validator, wanted, value, schema) or ():
            _spend(_ERROR_STEPS)
            yield error

    return judged


def _pattern(_: Validator, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(value, str):
        return
    most = patterns.chars_max(pattern)
    if len(value) > most:
        yield ValidationError(f"{len(value)} characters; a text with this pattern has at most {most}")
        return
    _spend(patterns.steps(pattern, len(value)))
    if not re.search(pattern, value):
        yield ValidationError(f"{shown(value)} does not match {shown(pattern)}")


def _multiple_of(_: Validator, unit: float, value: object, __: object) -> Iterator[ValidationError]:
    """Judge by the decimals as they were written: 0.3 is a multiple of 0.1, and no integer is too long."""
    from jsonschema.exceptions import ValidationError

    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if _exact(value) % _exact(unit):
        yield ValidationError(f"{value!r} is not a multiple of {unit!r}")


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


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
