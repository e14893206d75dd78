"""What counts as a word: one reading of text for the index, the query and the similarity, the same on every database.

Neither database's own tokenizer is used: they disagree with each other and
with their next version. Text is folded first (`fold`), so that case, width,
accents and the way a character was composed make no difference. Then it is
read (`read`):

* A *word* is a run of letters, digits and the marks that belong to them.
* Scripts written without spaces (Han, kana, hangul, Thai, Lao, Khmer, Burmese)
  have no such runs: there each character is a word, and each pair of
  neighbours. So a query of one character or two finds something, and a longer
  one is asked for by its pairs.
* A symbol such as an emoji is a word by itself. Punctuation is none.
* What hyphens, underscores, dots and slashes hold together is a *whole*: an
  id, a file name, a version. Its parts are words as well.

A word has no quote, blank or operator in it, so none can act as syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

WORD_CHARS_MAX: Final = 64
"""A longer word is cut, in the text and in the query alike: an index row must have room for it."""
WHOLE_CHARS_MAX: Final = 200
"""The same for wholes: as long as an id may be."""
ALIKE_CHARS_MIN: Final = 3
"""Shorter words say nothing about what a text is about (companion 5.2)."""

STOP_WORDS: Final = frozenset(
    "about after again all also and any are because been before being below between both but can cannot could did does"
    " doing down during each few for from further had has have having her here hers herself him himself his how into"
    " its itself just more most must nor not now off once only other our ours ourselves out over own same she should"
    " some such than that the their theirs them themselves then there these they this those through too under until"
    " very was were what when where which while who whom why will with would you your yours yourself yourselves".split()
)
"""Words that make no two texts alike. A search looks for them like for any other."""

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_JOINERS: Final = "-_./"
_INVISIBLE: Final = re.compile("[\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]")
"""Characters that only say how to show their neighbours. The zero-width space is none of them: it parts words."""
_ACCENTS: Final = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]"
)
"""Marks that people leave out when they type: accents on Latin, Greek and Cyrillic, Hebrew and Arabic vowel points."""
_PART: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}{_JOINERS}]+")
_JOINER: Final = re.compile(f"[{_JOINERS}]")
_SEGMENT: Final = re.compile(r"[^./]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as words and wholes, in its order and with repeats."""

    words: tuple[str, ...]
    wholes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """A text as the different words and wholes in it, and how often each of its telling words stands there."""

    words: frozenset[str]
    wholes: frozenset[str]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query asks for: every one of `words`, or, as it was typed, every one of `words` and `wholes`.

    `last` is the word that may still be going on: a word that it begins will
    do. It is the last of `words`, or None when that one cannot go on.
    """

    words: tuple[str, ...]
    wholes: tuple[str, ...]
    last: str | None


def fold(text: str) -> str:
    """Return `text` without differences of case, width, accents and composition; ß reads as ss, every i as i."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", _INVISIBLE.sub("", text)).casefold()
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", text).replace("\u0131", "i")


def read(text: str) -> Reading:
    """Return the words and wholes that a search finds `text` by."""
    words: list[str] = []
    wholes: list[str] = []
    for chunk in _chunks(text):
        if chunk.isascii() and chunk.isalnum():  # nearly all of them, and the whole graph is read this way
            words.append(chunk[:WORD_CHARS_MAX])
            continue
        wholes += _wholes(chunk)
        for part in _PART.findall(chunk):
            words += _indexed(part)
    return Reading(tuple(words), tuple(wholes))


def wanted(query: str) -> Wanted:
    """Return what `query` asks for; no words when there is nothing in it but punctuation.

    A run of an unspaced script is asked for by its pairs, which are rarer than
    its characters.
    """
    words: list[str] = []
    wholes: list[str] = []
    last: str | None = None
    for chunk in _chunks(query):
        wholes += _wholes(chunk)[:1]
        for part in _PART.findall(chunk):
            words += _asked(part)
            last = words[-1] if _goes_on(part) else None
    return Wanted(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(wholes)), last)


def counts(text: str) -> Mapping[str, int]:
    """Return how often each word stands in `text` that says what it is about, for comparing it with another.

    Words of an unspaced script count by their pairs.
    """
    return tally(text).counts


def tally(text: str) -> Tally:
    """Return what `read` and `counts` say of `text`, without the order: what stands in it often is read once."""
    words: set[str] = set()
    wholes: set[str] = set()
    counted: dict[str, int] = {}
    for chunk, often in Counter(_chunks(text)).items():
        if chunk.isascii() and chunk.isalnum():  # see `read`
            words.add(word := chunk[:WORD_CHARS_MAX])
            telling = [word] if _is_telling(word) else []
        else:
            wholes.update(_wholes(chunk))
            parts = _PART.findall(chunk)
            words.update(word for part in parts for word in _indexed(part))
            telling = [word for part in parts for word in _compared(part)]
        for word in telling:
            counted[word] = counted.get(word, 0) + often
    return Tally(frozenset(words), frozenset(wholes), counted)


def _chunks(text: str) -> list[str]:
    """Return what blanks and punctuation set apart, joiners only within."""
    return [chunk for run in fold(text).translate(_KEPT).split() if (chunk := run.strip(_JOINERS))]


def _wholes(chunk: str) -> list[str]:
    """Return `chunk` if joiners hold it together, and what hyphens and underscores hold together within it."""
    if _JOINER.search(chunk) is None:
        return []
    inner = [piece.strip(_JOINERS) for piece in _SEGMENT.findall(chunk) if piece != chunk]
    return [
        whole[:WHOLE_CHARS_MAX] for whole in (chunk, *inner) if whole == chunk or any(mark in whole for mark in "-_")
    ]


def _indexed(part: str) -> list[str]:
    if _is_unspaced(part):
        return [*part, *_pairs(part)]
    return _spaced(part)


def _compared(part: str) -> list[str]:
    return _asked(part) if _is_unspaced(part) else [word for word in _spaced(part) if _is_telling(word)]


def _asked(part: str) -> list[str]:
    if _is_unspaced(part):
        return _pairs(part) or [part]
    return _spaced(part)


def _spaced(part: str) -> list[str]:
    """Return the words of a part: symbols one by one, what is between them whole."""
    if part.isascii():
        return [part[:WORD_CHARS_MAX]]
    return [piece[:WORD_CHARS_MAX] for piece in _symbols_apart(part)]


def _symbols_apart(part: str) -> Iterator[str]:
    word = ""
    for character in part:
        if _kind(character) == "So":
            if word:
                yield word
            word = ""
            yield character
        else:
            word += character
    if word:
        yield word


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def _goes_on(part: str) -> bool:
    return not _is_unspaced(part) and _kind(part[-1]) != "So"


def _is_unspaced(part: str) -> bool:
    return _UNSPACED_START.match(part) is not None


def _is_telling(word: str) -> bool:
    return len(word) >= ALIKE_CHARS_MIN and word not in STOP_WORDS


class _Kept:
    """For `str.translate`: what is part of a word or holds words together stays, all else becomes a blank."""

    def __getitem__(self, point: int) -> int:
        return _kept(point)


@lru_cache(maxsize=8192)
def _kept(point: int) -> int:
    character = chr(point)
    if character in _JOINERS:
        return point
    kind = _kind(character)
    return point if kind[0] in "LNM" or (kind == "So" and character != "\ufffd") else _BLANK


@lru_cache(maxsize=8192)
def _kind(character: str) -> str:
    return unicodedata.category(character)


_BLANK: Final = ord(" ")
_KEPT: Final = _Kept()
_UNSPACED_START: Final = re.compile(f"[{_UNSPACED}]")
