r"""Whether a pattern can be trusted with text that somebody else wrote.

Python's `re` tries one way after the other, and a pattern such as ``(a+)+$``
has twice as many ways with each character. What a register holds is matched
while its record is locked, so a pattern is refused where a repetition repeats
something that can itself be read in several ways: another repetition, or an
alternative. It is let through where every turn begins with a character that
nothing else in it matches, as in ``[a-z]+(-[a-z]+)*``: then there is one way
only. What is left costs a power of the text's length, and that is bounded
where texts are matched.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Final

PATTERN_CHARS_MAX: Final = 500
REPEATS_MAX: Final = 4
"""How many repetitions without an end a pattern may have: the power of the text's length that it can cost."""
_ATOM: Final = re.compile(r"\\(?:[0-7]{1,3}|x..|u.{4}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})[?+]?")
_FIXED: Final = re.compile(r"\{\d+\}[?+]?")
_GROUP: Final = re.compile(r"\?(?:[:=!>]|P<\w+>|<[=!])")
_BACK: Final = re.compile(r"\\[1-9]")


@dataclass(slots=True)
class _Group:
    """What one group holds, as far as it matters.

    `several` says whether it can be read in several ways, `unsure` whether it
    may begin otherwise than with its first atom, once.
    """

    atoms: list[str] = field(default_factory=list)
    looks: bool = False
    several: bool = False
    unsure: bool = False

    def add(self, atoms: list[str], *, several: bool, unsure: bool) -> None:
        """Take in what stands next in the group."""
        self.unsure |= unsure and not self.atoms
        self.several |= several
        self.atoms += atoms


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
    return _risk(pattern)


def _risk(pattern: str) -> str | None:
    groups, at, endless = [_Group()], 0, 0
    while at < len(pattern):
        if pattern[at] == "(":
            opened = _GROUP.match(pattern, at + 1)
            if opened is None and pattern.startswith("?", at + 1):
                return "groups with flags, comments or conditions are not taken"
            groups.append(_Group(looks=opened is not None and opened[0].endswith(("=", "!"))))
            at = opened.end() if opened is not None else at + 1
            continue
        if pattern[at] == "|":
            groups[-1].several = groups[-1].unsure = True
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
        many = varies and repeat is not None and repeat[0][0] != "?"
        endless += many
        if closed is None:
            groups[-1].add([atom[0]], several=varies, unsure=varies)
            continue
        if repeat is not None and repeat[0][0] != "?" and closed.several and not _is_parted(closed):
            return "a repetition repeats another one, or an alternative, and no character parts its turns"
        groups[-1].add(closed.atoms, several=closed.several or varies, unsure=closed.unsure or closed.looks or varies)
    if endless > REPEATS_MAX:
        return f"{endless} repetitions; the limit is {REPEATS_MAX}"
    return None


def _is_parted(group: _Group) -> bool:
    """Whether each turn begins with one character that no other atom of the group matches."""
    if not group.atoms or group.unsure:
        return False
    first, *others = group.atoms
    letter = first.removeprefix("\\")
    if len(letter) != 1 or (first[0] == "\\" and letter.isalnum()) or first in ".^$":
        return False
    return not any(re.fullmatch(atom, letter) for atom in others)
