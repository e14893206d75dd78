"""Where the count of a page ended the last time, so that the next one is made by the database and not item by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from batonpass.store.ranking import WINDOW_FIRST, Narrow, Place

SPARE: Final = WINDOW_FIRST - 2
"""How many items before its end a count is cut: so many may come to stand before the cut until it is of no use."""
VIEWS_MAX: Final = 256
"""For how many views a cut is kept."""


class Cuts:
    """For each view the place some items before the end of its last count.

    A hint: up to there the database counts, and from there on it is looked
    item by item, for the exact end. Where it is wrong, all is looked at so.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[Narrow, tuple[int, ...]], Place] = {}

    def of(self, narrow: Narrow, lanes: Sequence[int]) -> Place | None:
        """Return the cut of what is wanted in some lanes."""
        return self._places.get((narrow, tuple(lanes)))

    def put(self, narrow: Narrow, lanes: Sequence[int], place: Place) -> None:
        """Keep a cut, and forget that of the view which was counted longest ago."""
        view = (narrow, tuple(lanes))
        self._places.pop(view, None)
        self._places[view] = place
        if len(self._places) > VIEWS_MAX:
            del self._places[next(iter(self._places))]
