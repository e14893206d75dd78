"""How alike two texts are: the cosine of their words, the rarer a word the more it says (companion 5.2).

How rare a word is has to be looked up, so it is known only for the words of
the text that is asked about. The other words of the others weigh what those do
on average: they make a long text about much less alike to a short one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from batonpass.core.digest import Match
from batonpass.core.ids import NodeId

WORDS_MAX: Final = 300
"""How many words of one text are weighed, the most repeated first."""
SHARED_MAX: Final = 16
UNSEEN_MAX: Final = 8
"""By how many words others are looked for: those known to stand elsewhere too, and those not seen elsewhere yet."""
_DIGITS: Final = 4

Counts = Mapping[str, int]


def foremost(counts: Counts) -> dict[str, int]:
    """Return the words of a text that are weighed."""
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: counts[word] for word in order[:WORDS_MAX]}


def weights(of: Counts, among: int) -> dict[str, float]:
    """Return the inverse document frequency of words that stand in `of` them of `among` texts."""
    return {word: math.log((1 + among) / (1 + min(count, among))) for word, count in of.items()}


def telling(counts: Counts, of: Counts, among: int) -> list[str]:
    """Return the few words of a text by which others like it are looked for, the most telling first.

    A word that only this text has would find nothing, so words that stand
    elsewhere as well come first, however rare the others are.
    """
    rarity = weights(of, among)
    order = sorted(of, key=lambda word: (-counts.get(word, 0) * rarity[word], word))
    shared = [word for word in order if of[word] > 1 and rarity[word] > 0]
    unseen = [word for word in order if of[word] <= 1]
    return [*shared[:SHARED_MAX], *unseen[:UNSEEN_MAX]]


@dataclass(frozen=True, slots=True)
class Scale:
    """What words weigh: those of the text that is asked about by `rarity`, all others what is `usual` among them."""

    rarity: Mapping[str, float]
    usual: float

    @classmethod
    def of(cls, rarity: Mapping[str, float]) -> Scale:
        """Return the scale on which the words that nothing is known of weigh the average of the others."""
        return cls(rarity, sum(rarity[word] for word in sorted(rarity)) / len(rarity) if rarity else 0.0)

    def weight(self, word: str) -> float:
        """Return what a word weighs."""
        return self.rarity.get(word, self.usual)

    def length(self, counts: Counts) -> float:
        """Return the length of a text, as that of a vector with a direction for each word."""
        # In one order, so that the same words sum up to the same number whatever order they were counted in.
        return math.sqrt(sum((counts[word] * self.weight(word)) ** 2 for word in sorted(counts)))

    def product(self, one: Counts, other: Counts) -> float:
        """Return the product of two texts as vectors."""
        return sum(one[word] * other[word] * self.weight(word) ** 2 for word in sorted(one.keys() & other.keys()))


def matches(text: Counts, others: Iterable[tuple[NodeId, Counts]], scale: Scale, *, least: float) -> list[Match]:
    """Return those of `others` that are at least so much like `text`, from 0 to 1."""
    own = scale.length(text)
    found = []
    for node, counts in others:
        lengths = own * scale.length(counts)
        cosine = round(scale.product(text, counts) / lengths, _DIGITS) if lengths else 0.0
        if cosine >= least:
            found.append(Match(node, cosine))
    return found
