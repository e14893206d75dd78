"""When a field has moved, by itself: what ends a wait and what does not (D38)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from batonpass.core.ids import Instant
from batonpass.core.record_waits import FieldAt, Stand, held_until
from batonpass.core.records import ClassName, FieldName, RecordId, RecordPath

REGISTER = Stand(3)
HELD = Stand(5, epoch=2, tenure=True, left_us=1_500_000)
LAPSED = replace(HELD, left_us=0)
FREE = Stand(6, epoch=2)


@pytest.mark.parametrize(
    "seen, now, moved",
    [
        (REGISTER, REGISTER, False),
        (REGISTER, Stand(4), True),
        (HELD, replace(HELD, left_us=1), False),
        (HELD, replace(HELD, version=9, left_us=9_000_000), False),
        (HELD, LAPSED, True),
        (LAPSED, LAPSED, False),
        (LAPSED, replace(HELD, version=6), True),
        (LAPSED, replace(HELD, version=6, epoch=3), True),
        (HELD, replace(HELD, version=6, epoch=3), True),
        (HELD, FREE, True),
        (FREE, replace(HELD, version=7, epoch=3), True),
        (LAPSED, replace(FREE, epoch=3), True),
        (FREE, FREE, False),
    ],
)
def test_a_field_moves_with_a_write_a_tenure_or_a_lease_s_end_and_not_with_a_renewal(
    seen: Stand, now: Stand, *, moved: bool
) -> None:
    assert now.moved_from(seen) is moved


def test_time_alone_moves_what_is_held_and_a_little_after_its_end() -> None:
    assert 1.5 < HELD.left_s < 1.51
    assert {LAPSED.left_s, FREE.left_s, REGISTER.left_s} == {math.inf}


def test_a_lease_whose_clock_was_set_back_lasts_as_long_as_it_was_granted_for() -> None:
    assert held_until(Instant(100), Instant(400), Instant(200)) == 400
    assert held_until(Instant(100), Instant(400), Instant(50)) == 350


def test_fields_are_in_the_order_of_their_records() -> None:
    first, second = (RecordPath(ClassName("incidents"), RecordId(name)) for name in ("a", "b"))

    assert min(FieldAt(second, FieldName("a")), FieldAt(first, FieldName("b"))).record == first
