"""How alike two texts are: the cosine of their words, the rarer a word the more it says (companion 5.2).

How rare a word is has to be looked up, so it is known only for the words of
the text that is asked about. The other words of the others weigh what those do
on average: they make a long text about much less alike to a short one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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


def cosine(one: Counts, other: Counts, rarity: Mapping[str, float], *, usual: float) -> float:
    """Return how alike two texts are, from 0 to 1; a word without a weight in `rarity` weighs what is `usual`."""
    # In one order, so that the same words sum up to the same number whatever order they were counted in.
    both = sorted(one.keys() & other.keys())
    common = sum(one[word] * other[word] * rarity.get(word, usual) ** 2 for word in both)
    lengths = _length(one, rarity, usual) * _length(other, rarity, usual)
    return round(common / lengths, _DIGITS) if lengths else 0.0


def matches(
    text: Counts, others: Iterable[tuple[NodeId, Counts]], rarity: Mapping[str, float], *, least: float
) -> list[Match]:
    """Return those of `others` that are at least so much like `text`, of whose words `rarity` has the weights."""
    usual = sum(rarity[word] for word in sorted(rarity)) / len(rarity) if rarity else 0.0
    found = [Match(node, cosine(text, counts, rarity, usual=usual)) for node, counts in others]
    return [match for match in found if match.cosine >= least]


def _length(counts: Counts, rarity: Mapping[str, float], usual: float) -> float:
    return math.sqrt(sum((counts[word] * rarity.get(word, usual)) ** 2 for word in sorted(counts)))
