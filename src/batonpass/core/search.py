"""Search: what a node is found by, what a query asks for, and in which order the answers come (D39).

A node is kept as a set of *tokens*, and a query becomes conditions on that set.
The first letter of a token says what it is:

    w  a word of its text          t  a word of its title
    i  a whole: an id, a file …    g  its project              k  its type

Each query is asked in three *tiers*, the narrower first: nodes whose title has
every word; nodes that have every word and whole, as it was typed; nodes that
have every word, where the last one may only be begun. Before them comes the
node whose id the query is, and those whose ids it begins. Within a tier the
node that was filed last is first. So an answer depends on the graph alone, and
none of it on how rare a word is today.

Tokens and conditions are the same for every database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core import words as reading
from batonpass.core.errors import Invalid
from batonpass.core.ids import NODE_ID_BYTES_MAX
from batonpass.core.nodes import Authored
from batonpass.core.words import Wanted, fold, read, tally

QUERY_CHARS_MAX: Final = 500
QUERY_WORDS_MAX: Final = 64
"""Each word is looked up by itself; a run of an unspaced script is as many words as it has characters."""
FOUND_MAX: Final = 1000
"""How many nodes are found at most: nobody reads on, and a word that everything holds costs no more than that."""
LIMIT_MAX: Final = 100
PREFIX_CHARS: Final = 3
"""Beginnings of words up to this length are kept by themselves: too many words begin with each to look through."""
SNIPPET_CHARS_MAX: Final = 160

FIELDS: Final = ("id", "title", "summary", "tags", "commits", "body")
"""Where a word may stand."""
COMPARED: Final = frozenset({"title", "summary", "body"})
"""What texts are compared by: what is said, not what it is filed under."""

_ID: Final = re.compile(r"[a-z0-9]+-[a-z0-9-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """A node in the index: its tokens, in order and parted by blanks, and its telling words counted."""

    tokens: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A query that was read: what is wanted, in which projects and types (none: all), and the id it may be."""

    wanted: Wanted
    id: str | None
    projects: Sequence[str] = ()
    types: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look for: punctuation is in no index."""
        return not self.wanted.words


@dataclass(frozen=True, slots=True)
class Nearby:
    """Where a word that is only begun may stand: in nodes for which `condition` holds, as a token with `beginning`."""

    condition: str
    beginning: str


def entry(authored: Authored) -> Entry:
    """Return `authored` as it stands in the index."""
    found = tally("\n".join(text for name, text in texts(authored).items() if name in COMPARED))
    aside = read("\n".join(text for name, text in texts(authored).items() if name not in COMPARED))
    tokens = {f"w{word}" for word in found.words.union(aside.words)}
    tokens |= {f"i{whole}" for whole in found.wholes.union(aside.wholes)}
    tokens |= {f"t{word}" for word in read(authored.title).words}
    tokens |= {f"g{authored.project}"} if authored.project is not None else set()
    tokens.add(f"k{authored.type}")
    return Entry(" ".join(sorted(tokens)), found.counts)


def texts(authored: Authored) -> Mapping[str, str]:
    """Return what a node is searched by, in the order of `FIELDS`."""
    listed = {name: authored.extra.get(name, ()) for name in ("tags", "commits")}
    return {
        "id": authored.id,
        "title": authored.title,
        "summary": authored.summary,
        **{name: value if isinstance(value, str) else "\n".join(value) for name, value in listed.items()},
        "body": authored.body,
    }


def is_found_alike(one: Authored, other: Authored) -> bool:
    """Whether both have the same entry, as far as can be told without making them: a status is in none."""
    return texts(one) == texts(other) and (one.project, one.type) == (other.project, other.type)


def question(query: str, *, projects: Sequence[str] = (), types: Sequence[str] = ()) -> Question:
    """Return `query` read; `Invalid` when it is too long. Nothing in it is syntax."""
    if len(query) > QUERY_CHARS_MAX:
        raise Invalid(f"q: {len(query)} characters; the limit is {QUERY_CHARS_MAX}", field="q")
    wanted = reading.wanted(query)
    if len(wanted.words) > QUERY_WORDS_MAX:
        raise Invalid(
            f"q: {len(wanted.words)} words; the limit is {QUERY_WORDS_MAX}, where a script without blanks has one in"
            " each character",
            field="q",
        )
    typed = fold(query).strip()
    is_id = len(typed) <= NODE_ID_BYTES_MAX and _ID.fullmatch(typed) is not None
    return Question(wanted, typed if is_id else None, projects, types)


# --- conditions ------------------------------------------------------------------------------------------------------


def tiers(asked: Question) -> tuple[str, ...]:
    """Return the conditions of the tiers, the narrower first; each holds for all that one before it holds for.

    A condition is in the form of PostgreSQL's tsquery, over tokens that have
    nothing in them to be escaped. A tilde ends a beginning that is kept by itself.
    """
    wanted, scope = asked.wanted, [*_any_of("g", asked.projects), *_any_of("k", asked.types)]
    words = [_token("w", word) for word in wanted.words]
    title = [_token("t", word) for word in wanted.words]
    typed = [*words, *(_token("i", whole) for whole in wanted.wholes)]
    begun = [_beginning(word) if word == wanted.last else _token("w", word) for word in wanted.words]
    return tuple(" & ".join([*condition, *scope]) for condition in (title, typed, begun))


def nearby(asked: Question) -> Nearby | None:
    """Return where to look for the last word if it is only begun; None if its beginning is kept by itself."""
    wanted = asked.wanted
    if wanted.last is None or len(wanted.last) <= PREFIX_CHARS:
        return None
    words = [_token("w", word) for word in wanted.words if word != wanted.last]
    scope = [*_any_of("g", asked.projects), *_any_of("k", asked.types)]
    kept = _beginning(wanted.last[:PREFIX_CHARS])
    return Nearby(" & ".join([*words, kept, *scope]), f"w{wanted.last}")


def any_word(words: Iterable[str]) -> str:
    """Return the condition that a node has any of `words`."""
    return " | ".join(_token("w", word) for word in words)


def _any_of(kind: str, values: Sequence[str]) -> list[str]:
    return [f"({' | '.join(_token(kind, value) for value in values)})"] if values else []


def _token(kind: str, text: str) -> str:
    return f"'{kind}{text}'"


def _beginning(word: str) -> str:
    return _token("w", f"{word}~") if len(word) <= PREFIX_CHARS else f"{_token('w', word)}:*"


# --- answers ---------------------------------------------------------------------------------------------------------


def matched(asked: Question, found: Mapping[str, str]) -> tuple[str, ...]:
    """Return in which of the texts `found` words of the query stand, in the order of `FIELDS`."""
    return tuple(name for name, text in found.items() if _held(asked.wanted, text))


def snippet(asked: Question, found: Mapping[str, str]) -> str:
    """Return a stretch of plain text around the first word of the query: of the body, else of the summary.

    One line of at most `SNIPPET_CHARS_MAX` characters. It is text as somebody
    wrote it: whoever shows it escapes it.
    """
    for name in ("body", "summary"):
        for line in found[name].splitlines():
            if _may_hold(asked.wanted, line) and _held(asked.wanted, line):
                return _around(asked.wanted, line)
    return _cut(" ".join(found["summary"].split()))


def _held(wanted: Wanted, text: str) -> bool:
    if not _may_hold(wanted, text):
        return False
    words = read(text).words
    return not set(words).isdisjoint(wanted.words) or (
        wanted.last is not None and any(word.startswith(wanted.last) for word in words)
    )


def _may_hold(wanted: Wanted, text: str) -> bool:
    """Whether a word of the query stands somewhere in `text`, be it within another word: quickly told."""
    folded = fold(text)
    return any(word in folded for word in wanted.words)


def _around(wanted: Wanted, line: str) -> str:
    """Return the part of `line` that begins a little before the first word of the query."""
    pieces = line.split()
    first = next((at for at, piece in enumerate(pieces) if _may_hold(wanted, piece)), 0)
    begin, room = first, SNIPPET_CHARS_MAX // 3
    while begin > 0 and (room := room - len(pieces[begin - 1]) - 1) >= 0:
        begin -= 1
    rest = " ".join(pieces[begin:])
    if len(pieces[first]) > SNIPPET_CHARS_MAX // 2:  # an unspaced script: one piece is a whole paragraph
        rest = _from_within(wanted, rest)
        return _cut(f"…{rest}")
    return _cut(f"… {rest}" if begin else rest)


def _from_within(wanted: Wanted, text: str) -> str:
    """Return `text` from a little before the first word of the query, wherever in a piece that is."""
    folded = fold(text)
    at = min((folded.find(word) for word in wanted.words if word in folded), default=0)
    return text[max(0, min(at, len(text) - SNIPPET_CHARS_MAX // 2) - SNIPPET_CHARS_MAX // 3) :]


def _cut(text: str) -> str:
    return text if len(text) <= SNIPPET_CHARS_MAX else f"{text[: SNIPPET_CHARS_MAX - 1].rstrip()}…"
