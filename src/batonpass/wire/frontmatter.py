"""Front matter: the small part of YAML in which a node's keys are written (D12).

Reading takes every scalar as the string it is written as. What could make two
readers differ, or one reader do more than read, is refused: anchors, aliases,
tags, merge keys, duplicate keys, directives, several documents, and nesting
deeper than a list of edges.

Writing quotes every scalar that is not a plain lower-case word, so that a
YAML 1.1 and a YAML 1.2 reader both get the same string back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

Item = str | dict[str, str] | list[str]
Entry = str | dict[str, str] | list[Item]
"""What a key may hold: a scalar, a list of scalars or of edges. Other shapes are read so that they can be named."""

Pair = tuple[str, str | Sequence[str] | Sequence[Mapping[str, str]]]
"""A key and what is written under it: a scalar, a list of scalars, or edges."""

_BARE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_WORDS_1_1: Final = frozenset("y n yes no on off true false null".split())
"""Lower-case words that a YAML 1.1 reader takes for a boolean or for nothing."""
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TEXT_LINE: Final = re.compile(r"(?P<key>title|summary):[ \t]+(?P<text>\S.*)")
_PLAIN: Final = re.compile(r"(?![\[\]{}@`%,#>|\"']|[-?](?: |$))(?!.*(?:: | #|\t#|[\x85\u2028\u2029]|:$)).*", re.DOTALL)
"""A bare text that every reader takes for itself."""
_QUOTED: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?:\s+#.*)?""")
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}(?:\s+#.*)?")
_REFUSED_FIRST: Final = "&*!"
"""What begins an anchor, an alias or a tag: refused wherever it stands (D12), with the advice to quote."""
_TABS: Final = re.compile(r"^\t[ \t]*", re.MULTILINE)


def load(text: str) -> tuple[dict[str, Entry], list[str]]:
    """Return the keys of front matter, in order, and warnings; `InvalidNode` names the line that cannot be read.

    The published format does not ask for quotes. In a title or a summary a
    colon, a number sign or a bracket is nothing but text, whatever YAML makes
    of it: it is taken as it stands, and warned about. So is indentation by
    tabs, of which YAML knows nothing.
    """
    from batonpass.wire.frontmatter_events import document  # what reads no node starts without a parser (D37)

    repaired, keys = _with_texts_quoted(_TABS.sub("    ", text))
    found = document(repaired)
    return found, [f"{key}: is not quoted, and YAML reads it otherwise; taken as the text it is" for key in keys]


def dump(entries: Iterable[Pair]) -> str:
    """Return front matter, one line a key and one line an edge; a key without a value is left out."""
    return "".join(_lines(entries))


def scalar(text: str) -> str:
    """Return `text` as a scalar that YAML 1.1 and 1.2 both read as that string."""
    if _BARE.fullmatch(text) and text not in _WORDS_1_1:
        return text
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _lines(entries: Iterable[Pair]) -> Iterator[str]:
    for key, value in entries:
        if isinstance(value, str):
            yield f"{key}: {scalar(value)}\n"
        elif value and all(isinstance(item, str) for item in value):
            yield f"{key}: [{', '.join(scalar(item) for item in value if isinstance(item, str))}]\n"
        elif value:
            yield f"{key}:\n"
            for item in value:
                assert isinstance(item, Mapping)
                yield f"  - {{{', '.join(f'{scalar(name)}: {scalar(inner)}' for name, inner in item.items())}}}\n"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


def _with_texts_quoted(text: str) -> tuple[str, list[str]]:
    """Return `text` with each title and summary quoted that YAML would misread, on as many lines, and their keys."""
    lines = text.split("\n")
    quoted: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if (match := _TEXT_LINE.fullmatch(lines[at])) is not None:
            while end < len(lines) and lines[end][:1] == " " and lines[end].strip():
                end += 1
            if (meant := _meant([match["text"], *lines[at + 1 : end]])) is not None:
                quoted.append(match["key"])
                lines[at:end] = [f"{match['key']}: {scalar(meant)}", *[""] * (end - at - 1)]
        at = end
    return "\n".join(lines), quoted


def _meant(lines: Sequence[str]) -> str | None:
    """Return the text that a title or summary on these lines is, or None when YAML reads it, or is to refuse it."""
    first = lines[0]
    if first[0] in _REFUSED_FIRST or _BLOCK.fullmatch(first.rstrip()):
        return None
    whole = " ".join(line.strip() for line in lines)
    if _PLAIN.fullmatch(whole) or _QUOTED.fullmatch(whole):
        return None
    outer = whole[0]
    return whole[1:-1] if outer in "\"'" and whole[-1] == outer and len(whole) > 1 else whole
