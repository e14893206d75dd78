"""The ranking: what an item's score is made of, and where an index keeps its place in the order (companion 3.5, D16).

A score is counted in whole units, thirty thousand to the point, so that a day
of age is a thousand of them and both databases order alike. What it is at a
day is `pace * DAY * day - place`: the *pace* says by how many thousands the
score grows each day, by age and by what is due, and the *place* is the rest
of it, the same on every day until the item's `turns`. So items of one pace
keep their order by themselves, an index holds it, and merging one scan for
each pace gives the order of any day without reading what is further down.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from batonpass.core.readiness import Ready

POINT: Final = 30_000
"""How many units a point of the score is."""
DAY: Final = 1_000
"""How many units a day of age adds."""
CENT: Final = POINT // 100
"""The last digit of a score that is shown."""
PRIORITY_POINTS: Final = {"p1": 6, "p2": 3, "p3": 1}
PER_BLOCKED: Final = 3 * POINT
PROPOSAL: Final = 5 * POINT
"""What a proposed schema has for being one; it has nothing else but its age."""
FRONT_MAX: Final = 5 * POINT
AGE_DAYS_MAX: Final = 90
"""From how many days on an item grows no older in the ranking: three points of it."""
URGENT_WITHIN_DAYS: Final = 30
URGENT_PACE: Final = 3
"""Days of age that a day nearer to what is due is worth: three points in thirty days."""
OVERDUE_PACE: Final = 2
BLOCKING_MAX: Final = 100
BLOCKING_DEPTH_MAX: Final = 8
"""How many live nodes downstream count, and how far down they are looked for."""
PACES: Final = 5
"""Growing by 0 to 4 thousand units a day: age adds one, what is due three or two."""
COOLS_AFTER_DAYS: Final = 7
"""After so many days, and within as many more, the heat of an item is counted anew: it falls while nobody writes."""
NEVER: Final = 2**31 - 1
"""The day of an item whose place holds for good."""
EPOCH: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Signals:
    """The raw values behind a score.

    `front` is the viewer's own work on the item in a week, `heat` everybody's
    in thirty days, both without the filing of it. `staleness` is the share of
    its edges that lead nowhere any more; it and `cold_neighbors`, the ends of
    its edges that nobody has touched for thirty days, weigh nothing.
    """

    blocking: int
    blocked_by: int
    age_days: int
    needed_by_days: int | None
    front: int = 0
    heat: int = 0
    staleness: float = 0.0
    cold_neighbors: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an item stands among those of its pace, and until the beginning of which day."""

    pace: int
    place: int
    """Lower is better."""
    turns: int
    """A day's number; on it the pace is another, or the item wakes up."""


def day_number(day: date) -> int:
    """Return a day as a whole number of days since 1970."""
    return day.toordinal() - EPOCH


def score(priority: str | None, signals: Signals, *, proposal: bool = False) -> int:
    """Return a score in units; a `proposal` is ranked by being one and by its age alone."""
    age = min(signals.age_days, AGE_DAYS_MAX) * DAY
    if proposal:
        return PROPOSAL + age
    return base(priority, signals) + front_boost(signals.front) + age + urgency(signals.needed_by_days)


def base(priority: str | None, signals: Signals) -> int:
    """Return what of a score does not depend on the day or the viewer, in units."""
    bump = PRIORITY_POINTS.get(priority or "", 0) * POINT
    return bump + PER_BLOCKED * (signals.blocking - signals.blocked_by) + round(math.log2(1 + signals.heat) * POINT)


def front_boost(front: int) -> int:
    """Return what the viewer's own work on an item adds, in units."""
    return min(round(math.log2(1 + front) * POINT), FRONT_MAX)


def urgency(needed_by_days: int | None) -> int:
    """Return what a due date adds: nothing a month ahead, 3 points on the day, 5 a month after."""
    if needed_by_days is None or needed_by_days >= URGENT_WITHIN_DAYS:
        return 0
    if needed_by_days >= 0:
        return URGENT_PACE * (URGENT_WITHIN_DAYS - needed_by_days) * DAY
    return URGENT_PACE * URGENT_WITHIN_DAYS * DAY + OVERDUE_PACE * min(-needed_by_days, URGENT_WITHIN_DAYS) * DAY


def points(units: int) -> float:
    """Return a score as it is shown: in points, to two decimals."""
    return round(units / POINT, 2)


def placed(units: int, *, today: int, born: int, due: int | None, wakes: int | None = None) -> Placed:
    """Return the place of an item that has `units` today, by the numbers of the days it was born, is due and wakes."""
    ageing = born <= today < born + AGE_DAYS_MAX
    pace = int(ageing) + _urgent_pace(due, today)
    turns = [born, born + AGE_DAYS_MAX]
    if due is not None:
        turns += [due - URGENT_WITHIN_DAYS, due, due + URGENT_WITHIN_DAYS]
    if wakes is not None:
        turns.append(wakes)
    return Placed(pace, pace * DAY * today - units, min((turn for turn in turns if turn > today), default=NEVER))


def cools(item: str, today: int) -> int:
    """Return the day on which the heat of an item is to be counted anew: in a week or two, not all on one day."""
    return today + COOLS_AFTER_DAYS + zlib.crc32(item.encode()) % COOLS_AFTER_DAYS


def units_on(today: int, *, pace: int, place: int) -> int:
    """Return the score of an item on a day before it turns."""
    return pace * DAY * today - place


def capped(units: int, blockers: Iterable[int]) -> int:
    """Return the score of a blocked item: below each of its blockers in the list, whose scores are `blockers`."""
    return min([units, *(blocker - CENT for blocker in blockers)])


def _urgent_pace(due: int | None, today: int) -> int:
    if due is None or not due - URGENT_WITHIN_DAYS <= today < due + URGENT_WITHIN_DAYS:
        return 0
    return URGENT_PACE if today < due else OVERDUE_PACE


# --- lanes -------------------------------------------------------------------------------------------------------

READY_LANES: Final = (Ready.AGENT, Ready.UNTRIAGED, Ready.HUMAN, None)
"""Whom the items of a lane are for, best first for an agent; a proposal is for nobody in particular."""
BLOCKED: Final = len(READY_LANES) * PACES
"""The lanes from here on are those of blocked items."""
DORMANT: Final = 2 * BLOCKED
ARCHIVED: Final = DORMANT + 1
GATING: Final = DORMANT + 2
"""What nobody is shown and only counted has a lane of its own: asleep, put away, in an unsettled pipeline."""


def lane(ready: Ready | None, pace: int, *, blocked: bool) -> int:
    """Return the number under which an index keeps the items of one readiness and pace, blocked or not."""
    assert 0 <= pace < PACES, pace
    return READY_LANES.index(ready) * PACES + pace + (BLOCKED if blocked else 0)


def lanes(readiness: Sequence[Ready | None] = READY_LANES, *, blocked: bool = False) -> list[int]:
    """Return the lanes of items that are for somebody in `readiness`, with the blocked ones or without."""
    free = [lane(ready, pace, blocked=False) for ready in readiness for pace in range(PACES)]
    return [*free, *(each + BLOCKED for each in free)] if blocked else free


def pace_of(lane: int) -> int:
    """Return the pace of a lane of shown items."""
    assert 0 <= lane < DORMANT, lane
    return lane % PACES


def ready_of(lane: int) -> Ready | None:
    """Return whom a lane of shown items is for."""
    return READY_LANES[lane % BLOCKED // PACES]
