"""Filing a text as a node: the title, summary and id it gets that was given none, and its parts if it is too long.

Whoever files a question, a correction or a capture writes a text; what else a
node needs is derived here, the same for all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from batonpass.core.ids import NODE_ID_BYTES_MAX, NodeId, slug_of
from batonpass.core.nodes import BODY_BYTES_MAX, SUMMARY_CHARS_MAX

TITLE_CHARS: Final = 100
"""Where a title that was made of a text is cut, in code points; one that is given may be longer."""
SLUG_CHARS: Final = 60
NUMBER_CHARS: Final = 10
"""Room that a stem leaves for a hyphen and a number."""
ELLIPSIS: Final = "…"
_CONTINUES_MASK: Final = 0b1100_0000
_CONTINUES: Final = 0b1000_0000
"""How UTF-8 marks a byte that is not the first of its character."""


def title_of(text: str) -> str:
    """Return a text's first line that is not blank, in one line of at most 100 code points; "" when all is blank."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _cut(first, TITLE_CHARS)


def summary_of(text: str) -> str:
    """Return a text in one line of at most 500 code points, the limit of a summary."""
    return _cut(text, SUMMARY_CHARS_MAX)


def body_of(text: str, summary: str) -> str:
    """Return what of `text` its `summary` does not already say: all of it, or nothing."""
    return "" if text == summary else text


def stem_of(prefix: str, title: str) -> str:
    """Return what the ids of nodes with this prefix and title begin with; see `numbered`."""
    return prefix + slug_of(title, chars_max=min(SLUG_CHARS, NODE_ID_BYTES_MAX - len(prefix) - NUMBER_CHARS))


def numbered(stem: str, n: int) -> NodeId:
    """Return the `n`th id of a stem, counted from 1: the first is the stem itself."""
    return NodeId(stem if n == 1 else f"{stem}-{n}")


def parts(text: str, *, bytes_max: int = BODY_BYTES_MAX) -> Iterator[str]:
    """Yield `text` in pieces of at most `bytes_max` bytes, which joined are the text again; an empty one is one piece.

    A piece ends behind a line if there is one in its second half, and never
    within a character.
    """
    raw = text.encode()
    begin = 0
    while len(raw) - begin > bytes_max:
        end = _end(raw, begin, bytes_max)
        yield raw[begin:end].decode()
        begin = end
    yield raw[begin:].decode()


def _end(raw: bytes, begin: int, bytes_max: int) -> int:
    line = raw.rfind(b"\n", begin + bytes_max // 2, begin + bytes_max)
    if line >= 0:
        return line + 1
    end = begin + bytes_max
    while raw[end] & _CONTINUES_MASK == _CONTINUES:
        end -= 1
    return end


def _cut(text: str, chars_max: int) -> str:
    """Return `text` with its blanks folded and cut behind a word, if one ends in the last fifth, with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= chars_max:
        return line
    head = line[: chars_max - len(ELLIPSIS)]
    word = head.rfind(" ", chars_max - chars_max // 5)
    return (head[:word] if word > 0 else head).rstrip() + ELLIPSIS
