"""Blame: for each key and line of a node, the revision that made it what it is, read off the history.

A value that stays is its old revision's; one that was changed, or taken away
and later put back, is the revision's that did so. Lines are followed the way a
diff follows them: one that only moves within its text belongs to whoever moved
it. Where a text between two known ones was redacted, a change may be its or
that of the next; the next is named, as `unsure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Parts:
    """A text taken apart: its keys, each edge as a key of its own, and the lines of its body."""

    keys: Mapping[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One revision of a history by its number; `parts` None when its text was taken away."""

    n: int
    parts: Parts | None


@dataclass(frozen=True, slots=True)
class Origin:
    """The number of the entry that made something what it is; `unsure` when it may be the redacted one before."""

    n: int
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Blame:
    """The origin of every key and every line of the last known text, in its order."""

    keys: Mapping[str, Origin]
    lines: tuple[tuple[str, Origin], ...]


def blame(steps: Iterable[Step]) -> Blame:
    """Return whose every part of the last known text is; `steps` are the revisions, oldest first."""
    known, found, hidden = Parts({}, ()), Blame({}, ()), False
    for step in steps:
        if step.parts is None:
            hidden = True
            continue
        origin = Origin(step.n, unsure=hidden)
        found = Blame(
            {
                key: found.keys[key] if known.keys.get(key) == value else origin
                for key, value in step.parts.keys.items()
            },
            tuple(_lines(found.lines, step.parts.lines, origin)),
        )
        known, hidden = step.parts, False
    return found


def _lines(before: Sequence[tuple[str, Origin]], after: Sequence[str], origin: Origin) -> Iterable[tuple[str, Origin]]:
    """Yield each line after a change with its origin: the old one where the line stayed."""
    old = [line for line, _ in before]
    for kind, start, _, new_start, new_end in SequenceMatcher(None, old, after, autojunk=False).get_opcodes():
        for at in range(new_start, new_end):
            yield (after[at], before[start + at - new_start][1] if kind == "equal" else origin)
