from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.clock import micros
from batonpass.core.durations import LONGEST, UNITS, parse_duration, parse_moment
from batonpass.core.errors import Invalid
from batonpass.core.ids import Instant

NOW = Instant(1_780_000_000_000_000)


def at(year: int, month: int, day: int, time: timedelta = timedelta()) -> Instant:
    return Instant(micros(datetime(year, month, day, tzinfo=UTC) + time - datetime(1970, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize(
    "value, expected",
    [
        ("90d", timedelta(days=90)),
        ("12h", timedelta(hours=12)),
        ("1.5h", timedelta(minutes=90)),
        (".5m", timedelta(seconds=30)),
        ("250ms", timedelta(milliseconds=250)),
        ("2w", timedelta(days=14)),
        ("45s", timedelta(seconds=45)),
        ("7200000", timedelta(hours=2)),
        (7_200_000, timedelta(hours=2)),
        (1.5, timedelta(microseconds=1500)),
        (1e3, timedelta(seconds=1)),
        (" 3m ", timedelta(minutes=3)),
        ("0", timedelta()),
        ("36500d", LONGEST),
    ],
)
def test_a_number_with_a_unit_is_a_duration_and_a_number_alone_is_milliseconds(
    value: object, expected: timedelta
) -> None:
    assert parse_duration(value, field="ttl") == expected


@given(number=st.integers(0, 5_000), unit=st.sampled_from(sorted(UNITS)))
def test_every_unit_counts_whole_numbers_exactly(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}", field="ttl") == number * UNITS[unit]


@pytest.mark.parametrize(
    "value, part",
    [
        ("tomorrow", "not a duration"),
        ("", "not a duration"),
        ("-5m", "not a duration"),
        ("5 m", "not a duration"),
        ("5M", "not a duration"),
        ("1e3s", "not a duration"),
        ("1y", "the units are ms, s, m, h, d, w"),
        ("٣d", "not a duration"),  # a digit, but not an ASCII one
        (-1, "not a duration"),
        (float("nan"), "not a duration"),
        (float("inf"), "not a duration"),
        ("36501d", "longer than 36500 days"),
        ("9" * 400 + "w", "longer than 36500 days"),
        (True, "not a boolean"),
        (None, "not null"),
        ([1], "not an array"),
    ],
)
def test_what_is_no_duration_is_refused_by_name(value: object, part: str) -> None:
    with pytest.raises(Invalid, match=r"^ttl: ") as refusal:
        parse_duration(value, field="ttl")

    assert part in refusal.value.message
    assert refusal.value.field == "ttl"


@pytest.mark.parametrize(
    "value, expected",
    [
        ("2027-01-31", at(2027, 1, 31)),
        ("2027-01-31T09:30Z", at(2027, 1, 31, timedelta(hours=9, minutes=30))),
        ("2027-01-31 09:30:15+02:00", at(2027, 1, 31, timedelta(hours=7, minutes=30, seconds=15))),
        ("2027-01-31T09:30:15.25-01:30", at(2027, 1, 31, timedelta(hours=11, seconds=15.25))),
        ("90d", Instant(NOW + micros(timedelta(days=90)))),
        (1000, Instant(NOW + 1_000_000)),
    ],
)
def test_a_moment_is_a_date_a_time_with_its_offset_or_a_duration_from_now(value: object, expected: Instant) -> None:
    assert parse_moment(value, now=NOW, field="expires") == expected


@pytest.mark.parametrize(
    "value",
    ["2027-02-30", "2027-13-01", "2027-01-31T25:00Z", "2027-01-31T09:30", "2027-W05-7", "next week", ""],
)
def test_what_is_no_moment_is_refused_by_name(value: str) -> None:
    with pytest.raises(Invalid, match=r"^expires: ") as refusal:
        parse_moment(value, now=NOW, field="expires")

    assert refusal.value.field == "expires"
