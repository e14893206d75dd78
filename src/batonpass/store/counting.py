"""Counts of the queue: what is hidden from a viewer and why, and all there is, as the index has it (D16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core import ranking
from batonpass.core.eligibility import Hidden
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId
from batonpass.core.leases import Kind
from batonpass.store.base import Reader, Row, Statement, as_json, q
from batonpass.store.ranking import UNKNOWN, Narrow, Place, Walk, heads, side

HIDDEN_COUNTED_MAX: Final = 1000
"""How many hidden items are counted for each reason; the statement has the number too, for its plan."""


BETWEEN_MAX: Final = 1000
"""How many items are counted between two places; the statements read one more of each lane."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Some of the items that are alike, by what the index knows of them."""

    type: str
    project: str | None
    lane: int
    stale: bool
    count: int


def hidden_asked(narrow: Narrow, viewer: Principal, now: Instant, *, today: int, blocked: bool) -> list[Statement]:
    """Ask how many items are hidden from a viewer for what reason, each counted up to a thousand; see `hidden`.

    Blocked ones only if `blocked` says that they are hidden. The second statement also has the items whose lease is
    over, as `store.ranking.lapsed_asked` would.
    """
    everything, params = replace(narrow, types=None), narrow.params()
    reasons = [{"why": why, "heads": heads(everything, lanes)} for why, lanes in _reasons(blocked=blocked).items()]
    statement = "counting.hidden" if narrow.projects is None else "counting.hidden_in"
    return [
        q(
            statement,
            reasons=as_json(reasons),
            today=today,
            types=params["types"],
            exclude_types=params["exclude_types"],
        ),
        _held_asked("counting.marked", narrow, viewer, now, most=HIDDEN_COUNTED_MAX),
    ]


def hidden(answers: Sequence[Sequence[Row]]) -> dict[Hidden, int]:
    """Return how many items are hidden for what reason, from the answers to `hidden_asked`."""
    by_reason, marked = answers
    return _told(
        {Hidden(why): count for why, count in by_reason}, [(row[2], row[0]) for row in marked if row[1] is None]
    )


def lapsed(marked: Sequence[Row]) -> list[Row]:
    """Return the items whose lease is over, from the answer to the second statement of `hidden_asked`."""
    return [row for row in marked if row[1] is not None]


async def all_hidden(
    tx: Reader, narrow: Narrow, viewer: Principal, now: Instant, *, today: int, blocked: bool
) -> dict[Hidden, int]:
    """Return the same with no end to the counts."""
    of = {lane: why for why, lanes in _reasons(blocked=blocked).items() for lane in lanes}
    counts: dict[Hidden, int] = {}
    for tally in await census(tx, narrow, list(of), today=today):
        counts[of[tally.lane]] = counts.get(of[tally.lane], 0) + tally.count
    (by_kind,) = await tx.fetch(_held_asked("counting.held", narrow, viewer, now, most=UNKNOWN))
    return _told(counts, by_kind)


def _reasons(*, blocked: bool) -> dict[Hidden, list[int]]:
    """Return the lanes of what is only counted, by why it is."""
    reasons = {
        Hidden.DORMANT: [ranking.DORMANT],
        Hidden.ARCHIVED: [ranking.ARCHIVED],
        Hidden.GATING: [ranking.GATING],
    }
    if blocked:
        reasons[Hidden.BLOCKED] = [lane + ranking.BLOCKED for lane in ranking.lanes()]
    return reasons


def _held_asked(statement: str, narrow: Narrow, viewer: Principal, now: Instant, *, most: int) -> Statement:
    lanes = as_json(ranking.lanes(blocked=True))
    return q(statement, **side(viewer), now=now, lanes=lanes, most=most, **narrow.params())


def _told(counts: dict[Hidden, int], held: Sequence[Row]) -> dict[Hidden, int]:
    for kind, count in held:
        counts[Hidden.RESERVED if kind == Kind.RESERVATION else Hidden.LEASED] = count
    return {why: count for why, count in counts.items() if count}


async def census(tx: Reader, narrow: Narrow, lanes: Sequence[int], *, today: int) -> list[Tally]:
    """Return how many items there are of each kind in some lanes, all of them."""
    (rows,) = await tx.fetch(q("counting.census", lanes=as_json(lanes), today=today, **narrow.params()))
    return [Tally(kind, project, lane, bool(stale), count) for kind, project, lane, stale, count in rows]


def between_asked(walk: Walk, cut: Place, known: Iterable[NodeId]) -> Statement:
    """Ask what there is in the lanes of `walk` from where it is up to `cut`, without those `known`; see `between`."""
    by_project, by_type = walk.narrow.projects is not None, walk.narrow.types is not None
    statement = "counting.between_in" if by_project else "counting.between_of" if by_type else "counting.between"
    return q(statement, heads=as_json(walk.heads_up_to(cut)), today=walk.today, known=as_json(sorted(known)))


def between(rows: Sequence[Row], narrow: Narrow) -> list[Tally] | None:
    """Return the answer to `between_asked`, or None if that was more than a thousand."""
    if sum(row[5] for row in rows) > BETWEEN_MAX:
        return None
    return [
        Tally(kind, project, lane, bool(stale), count)
        for kind, project, lane, stale, counts, count in rows
        if counts and narrow.wants(kind)
    ]
