"""Durations and moments as people write them: ``90d``, ``1.5h``, ``2027-01-31`` (companion 10).

A duration is a number with one of the units ms, s, m, h, d, w; a number alone
is milliseconds. A moment is a date, which begins at 00:00 UTC, or a date and
time with its offset.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from batonpass.core.clock import micros
from batonpass.core.errors import Invalid
from batonpass.core.ids import Instant, json_type, shown

UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
LONGEST: Final = timedelta(days=36_500)
"""What is longer is a slip of the keyboard; a sum of a moment and this is still a moment."""

_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<unit>ms|s|m|h|d|w)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(value: object, *, field: str) -> timedelta:
    """Return the duration in `value`, a text such as ``1.5h`` or a number of milliseconds; never negative."""
    text = _number_or_text(value, field=field)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Invalid(
            f"{field}: {shown(text)} is not a duration such as 90s, 1.5h or 7d; the units are {', '.join(UNITS)},"
            " a number alone is milliseconds",
            field=field,
        )
    span_us = Decimal(match["number"]) * micros(UNITS[match["unit"] or "ms"])
    if span_us > micros(LONGEST):
        raise Invalid(f"{field}: {shown(text)} is longer than {LONGEST.days} days", field=field)
    return timedelta(microseconds=int(span_us))


def parse_moment(value: object, *, now: Instant, field: str) -> Instant:
    """Return the moment in `value`: a date, a date and time with its offset, or a duration counted from `now`."""
    text = _number_or_text(value, field=field)
    try:
        if _DATE.fullmatch(text):
            return _instant(datetime.fromisoformat(text).replace(tzinfo=UTC))
        if _MOMENT.fullmatch(text):
            return _instant(datetime.fromisoformat(text))
    except ValueError as error:
        raise Invalid(f"{field}: {shown(text)} is no day or time of the calendar: {error}", field=field) from error
    if not _DURATION.fullmatch(text):
        raise Invalid(
            f"{field}: {shown(text)} is neither a duration such as 12h or 90d (units: {', '.join(UNITS)}; a number"
            " alone is milliseconds), nor a date such as 2027-01-31, nor a time with its offset such as"
            " 2027-01-31T09:00:00Z",
            field=field,
        )
    return Instant(now + micros(parse_duration(text, field=field)))


def _number_or_text(value: object, *, field: str) -> str:
    match value:
        case str():
            return value.strip()
        case bool():
            pass
        case int() | float():
            return format(Decimal(str(value)), "f")
        case _:
            pass
    raise Invalid(f"{field}: must be a duration or a date, not {json_type(value)}", field=field)


def _instant(moment: datetime) -> Instant:
    return Instant(micros(moment - _EPOCH))
