r"""Whether a pattern can be trusted with text that somebody else wrote.

Python's `re` tries one way after the other, and a pattern such as ``(a+)+$``
has twice as many ways with each character. What a register holds is matched
while its record is locked, so a pattern is refused where a repetition repeats
something that can itself be read in several ways: another repetition, or an
alternative. It is let through where every turn begins with a character that
nothing else in it matches, and has one choice at most after it, as in
``[a-z]+(-[a-z]+)*``: then there is one way only.

What is left costs a power of the text's length, times the ways that options and
alternatives add. So a pattern has a longest text of its own (`chars_max`), and
one whose texts would have to be very short is refused as well.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Final

PATTERN_CHARS_MAX: Final = 500
REPEATS_MAX: Final = 4
"""How many repetitions a pattern may have: the power of the text's length that it can cost."""
MATCHED_CHARS_MAX: Final = 1_000
"""How long a text with a pattern is at most, whatever the pattern."""
MATCHED_CHARS_MIN: Final = 40
"""A pattern that is safe with shorter texts only is refused."""
STEPS_MAX: Final = 10_000_000
"""How many steps matching one text may take, at about 10 ns each."""
_ATOM: Final = re.compile(r"\\(?:[0-7]{1,3}|x..|u.{4}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})[?+]?")
_FIXED: Final = re.compile(r"\{\d+\}[?+]?")
_LEAST: Final = re.compile(r"\{(\d*).*")
_GROUP: Final = re.compile(r"\?(?:[:=!>]|P<\w+>|<[=!])")
_BACK: Final = re.compile(r"\\[1-9]")


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a pattern reads a text: in so many `ways` at each place, times its length for every repetition."""

    ways: int
    repeats: int
    anchored: bool

    def steps(self, chars: int) -> int:
        """Return how many steps a text of so many characters takes at most: where it does not match, all are tried."""
        parted: int = self.ways * chars**self.repeats // math.factorial(self.repeats)
        return (parted + 1) * (1 if self.anchored else chars) + chars


@dataclass(slots=True)
class _Group:
    """What one group holds, as far as it matters.

    `choices` counts what in it can be read in several ways, alternatives left
    out; `starts` is the letter with which each of those begins, None if it may
    be another one. `unsure` says whether the group may begin otherwise than
    with its first atom, once.
    """

    atoms: list[str] = field(default_factory=list)
    looks: bool = False
    choices: int = 0
    starts: list[str | None] = field(default_factory=list)
    begins: bool = True
    unsure: bool = False

    def add(self, atoms: list[str], *, choices: int, start: str | None, unsure: bool) -> None:
        """Take in what stands next in the group."""
        if self.begins:
            self.starts.append(start)
        self.unsure |= unsure and not self.atoms
        self.choices += choices
        self.atoms += atoms
        self.begins = False

    def alternate(self) -> None:
        """Take in a bar: what follows is another alternative."""
        if self.begins:
            self.starts.append(None)
        self.begins = self.unsure = True

    @property
    def branches(self) -> int:
        """How many alternatives it has."""
        return len(self.starts) + self.begins

    @property
    def begins_surely(self) -> bool:
        """Whether it takes a character, and always one that `starts` says."""
        return len(self.starts) == self.branches == 1 and not self.looks

    @property
    def ambiguities(self) -> int:
        """How much in it can be read in several ways; alternatives count unless their first letters part them."""
        parted = None not in self.starts and len(set(self.starts)) == self.branches
        return self.choices + (0 if self.branches == 1 or parted else 2 * (self.branches - 1))


def what_is_wrong(pattern: str) -> str | None:
    """Return why `pattern` is not taken, None when it is."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"{len(pattern)} characters; the limit is {PATTERN_CHARS_MAX}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        return f"no regular expression of Python's: {error}"
    reading = _read(pattern)
    if isinstance(reading, str):
        return reading
    if reading.steps(MATCHED_CHARS_MIN) > STEPS_MAX:
        return "its options and alternatives can be read together in too many ways; make it simpler"
    return None


@functools.lru_cache(maxsize=500)
def chars_max(pattern: str) -> int:
    """Return how long a text may be that is matched with `pattern`, which was taken."""
    reading = _taken(pattern)
    fits, too_long = 0, MATCHED_CHARS_MAX + 1
    while too_long - fits > 1:
        chars = (fits + too_long) // 2
        if reading.steps(chars) > STEPS_MAX:
            too_long = chars
        else:
            fits = chars
    return fits


def steps(pattern: str, chars: int) -> int:
    """Return how many steps it takes at most to match `pattern`, which was taken, with a text of so many characters."""
    return _taken(pattern).steps(chars)


@functools.lru_cache(maxsize=500)
def _taken(pattern: str) -> _Reading:
    reading = _read(pattern)
    assert isinstance(reading, _Reading), reading
    return reading


def _read(pattern: str) -> _Reading | str:
    groups, at, ways, repeats = [_Group()], 0, 1, 0
    while at < len(pattern):
        if pattern[at] == "(":
            opened = _GROUP.match(pattern, at + 1)
            if opened is None and pattern.startswith("?", at + 1):
                return "groups with flags, comments or conditions are not taken"
            groups.append(_Group(looks=opened is not None and opened[0].endswith(("=", "!"))))
            at = opened.end() if opened is not None else at + 1
            continue
        if pattern[at] == "|":
            groups[-1].alternate()
            at += 1
            continue
        closed = groups.pop() if pattern[at] == ")" else None
        atom = _ATOM.match(pattern, at)
        assert atom is not None, "every character is an atom"
        if _BACK.match(atom[0]):
            return "references back to a group are not taken"
        repeat = _REPEAT.match(pattern, atom.end())
        at = atom.end() if repeat is None else repeat.end()
        varies = repeat is not None and not _FIXED.fullmatch(repeat[0])
        many = repeat is not None and repeat[0][0] != "?"
        least = _least(repeat[0]) if repeat is not None else 1
        ways *= 2 if varies and not many else 1
        if closed is None:
            repeats += varies and many
            start = _letter(atom[0]) if least else None
            groups[-1].add([atom[0]], choices=varies, start=start, unsure=varies)
            continue
        ways *= closed.branches * max(least, 1)
        if many and closed.ambiguities and not _is_parted(closed):
            return "a repetition repeats another one, or an alternative, and no character parts its turns"
        if many and closed.ambiguities > 1:
            return "a repetition repeats several others, or alternatives, so that each turn can be read in several ways"
        # Where a repetition repeats another one, a character parts the turns: together they read a text as one does.
        repeats += varies and many and not closed.ambiguities
        groups[-1].add(
            closed.atoms,
            choices=closed.ambiguities + varies,
            start=closed.starts[0] if repeat is None and closed.begins_surely else None,
            unsure=closed.unsure or closed.looks or varies,
        )
    if repeats > REPEATS_MAX:
        return f"{repeats} repetitions; the limit is {REPEATS_MAX}"
    (whole,) = groups
    anchored = pattern.startswith(("^", r"\A")) and whole.branches == 1
    return _Reading(ways * whole.branches, repeats, anchored)


def _least(repeat: str) -> int:
    """Return how many turns a repetition takes at least."""
    if repeat[0] == "{":
        return int(_LEAST.sub(r"\1", repeat) or 0)
    return int(repeat[0] == "+")


def _is_parted(group: _Group) -> bool:
    """Whether each turn begins with one character that no other atom of the group matches."""
    if not group.atoms or group.unsure:
        return False
    first, *others = group.atoms
    letter = _letter(first)
    return letter is not None and not any(re.fullmatch(atom, letter) for atom in others)


def _letter(atom: str) -> str | None:
    """Return the one character that `atom` matches, None if it may be several, or is no character."""
    letter = atom.removeprefix("\\")
    if len(letter) != 1 or (atom[0] == "\\" and letter.isalnum()) or atom in ".^$":
        return None
    return letter
