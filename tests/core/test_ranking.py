from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core import ranking
from batonpass.core.ranking import (
    AGE_DAYS_MAX,
    CENT,
    NEVER,
    Signals,
    capped,
    day_number,
    lane,
    lanes,
    pace_of,
    placed,
    points,
    ready_of,
    score,
    units_on,
    urgency,
)
from batonpass.core.readiness import Ready

TODAY = day_number(date(2026, 6, 15))


@pytest.mark.parametrize(
    "priority, signals, shown",
    [
        (None, Signals(0, 0, 11, None), 0.37),
        ("p2", Signals(1, 0, 42, None, heat=1), 8.4),
        ("p1", Signals(0, 1, 72, None, heat=50), 11.07),
        ("p2", Signals(1, 0, 42, None, heat=50), 13.07),
        ("p3", Signals(0, 0, 900, 0), 7.0),
        (None, Signals(0, 0, 0, None, front=3), 2.0),
        (None, Signals(0, 0, 0, None, front=1000), 5.0),
    ],
)
def test_a_score_adds_up_its_signals(priority: str | None, signals: Signals, shown: float) -> None:
    assert points(score(priority, signals)) == shown


@pytest.mark.parametrize(
    "needed_by_days, worth",
    [(None, 0), (31, 0), (30, 0), (15, 1.5), (0, 3), (-15, 4), (-30, 5), (-300, 5)],
)
def test_urgency_rises_from_a_month_ahead_to_a_month_after(needed_by_days: int | None, worth: float) -> None:
    assert points(urgency(needed_by_days)) == worth


@given(
    born=st.integers(TODAY - 200, TODAY + 40),
    due=st.none() | st.integers(TODAY - 100, TODAY + 100),
    day=st.integers(TODAY - 60, TODAY + 60),
    later=st.integers(0, 100),
)
def test_a_place_gives_the_score_of_every_day_until_it_turns(born: int, due: int | None, day: int, later: int) -> None:
    def units(on: int) -> int:
        return score("p2", Signals(1, 0, max(0, on - born), due - on if due is not None else None, heat=7))

    where = placed(units(day), today=day, born=born, due=due)

    on = min(day + later, where.turns - 1)
    assert units_on(on, pace=where.pace, place=where.place) == units(on)
    assert where.turns > day


def test_what_is_old_and_not_due_never_turns() -> None:
    assert placed(0, today=TODAY, born=TODAY - AGE_DAYS_MAX, due=None).turns == NEVER
    assert placed(0, today=TODAY, born=TODAY - AGE_DAYS_MAX, due=None, wakes=TODAY + 3).turns == TODAY + 3
    assert placed(0, today=TODAY, born=TODAY - AGE_DAYS_MAX, due=None, wakes=TODAY).turns == NEVER


def test_every_lane_tells_whom_it_is_for_and_at_what_pace() -> None:
    every = [(ready, pace) for ready in ranking.READY_LANES for pace in range(ranking.PACES)]

    numbers = [lane(ready, pace, blocked=blocked) for blocked in (False, True) for ready, pace in every]

    assert numbers == lanes(blocked=True) == list(range(ranking.DORMANT))
    assert [(ready_of(one), pace_of(one)) for one in numbers] == every * 2
    assert lanes([Ready.AGENT]) == [lane(Ready.AGENT, pace, blocked=False) for pace in range(ranking.PACES)]


def test_a_blocked_item_is_a_cent_below_the_lowest_of_its_blockers() -> None:
    assert capped(1000 * CENT, [900 * CENT, 800 * CENT]) == 799 * CENT
    assert capped(700 * CENT, [900 * CENT]) == 700 * CENT
    assert capped(700 * CENT, []) == 700 * CENT
