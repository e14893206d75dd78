"""Counts of the queue: what is hidden from a viewer and why, and all there is, as the index has it (D16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core import ranking
from batonpass.core.eligibility import Hidden
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant
from batonpass.core.leases import Kind
from batonpass.store.base import Reader, Statement, as_json, q
from batonpass.store.ranking import UNKNOWN, Narrow, heads, side

HIDDEN_COUNTED_MAX: Final = 1000
"""How many hidden items are counted for each reason; the statement has the number too, for its plan."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Some of the items that are alike, by what the index knows of them."""

    type: str
    project: str | None
    lane: int
    stale: bool
    count: int


async def hidden(
    tx: Reader, narrow: Narrow, viewer: Principal, now: Instant, *, today: int, blocked: bool, every: bool
) -> dict[Hidden, int]:
    """Return how many items are hidden from a viewer for what reason, each counted up to a thousand, or `every` one.

    Blocked ones only if `blocked` says that they are hidden.
    """
    reasons = {
        Hidden.DORMANT: [ranking.DORMANT],
        Hidden.ARCHIVED: [ranking.ARCHIVED],
        Hidden.GATING: [ranking.GATING],
    }
    if blocked:
        reasons[Hidden.BLOCKED] = [lane + ranking.BLOCKED for lane in ranking.lanes()]
    held = q(
        "counting.held",
        **side(viewer),
        now=now,
        lanes=as_json(ranking.lanes(blocked=True)),
        most=UNKNOWN if every else HIDDEN_COUNTED_MAX,
        **narrow.params(),
    )
    counts: Counter[Hidden] = Counter()
    if every:
        (by_kind,) = await tx.fetch(held)
        of = {lane: why for why, lanes in reasons.items() for lane in lanes}
        for tally in await census(tx, narrow, list(of), today=today):
            counts[of[tally.lane]] += tally.count
    else:
        by_reason, by_kind = await tx.fetch(_hidden_asked(narrow, reasons, today), held)
        counts.update({Hidden(why): count for why, count in by_reason})
    for kind, count in by_kind:
        counts[Hidden.RESERVED if kind == Kind.RESERVATION else Hidden.LEASED] = count
    return {why: count for why, count in counts.items() if count}


def _hidden_asked(narrow: Narrow, reasons: Mapping[Hidden, Sequence[int]], today: int) -> Statement:
    everything = replace(narrow, types=None)
    wanted = [{"why": why, "heads": heads(everything, lanes)} for why, lanes in reasons.items()]
    params = narrow.params()
    return q(
        "counting.hidden" if narrow.projects is None else "counting.hidden_in",
        reasons=as_json(wanted),
        today=today,
        types=params["types"],
        exclude_types=params["exclude_types"],
    )


async def census(tx: Reader, narrow: Narrow, lanes: Sequence[int], *, today: int) -> list[Tally]:
    """Return how many items there are of each kind in some lanes, all of them."""
    (rows,) = await tx.fetch(q("counting.census", lanes=as_json(lanes), today=today, **narrow.params()))
    return [Tally(kind, project, lane, bool(stale), count) for kind, project, lane, stale, count in rows]
