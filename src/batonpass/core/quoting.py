"""Other people's text inside a text of ours: always data, never a line that could be one of ours.

Whatever comes off the graph may end up in an agent's prompt. There it appears
in two forms only. On a line of ours it is a JSON string, which cannot end its
own quotation or its line. Over several lines each begins with ``> ``, however
a reader may break lines. In both, what a reader does not see is taken out:
terminal codes, marks of direction, characters without a shape; they could
hide one text behind another.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Final

from batonpass.core import reports

QUOTE: Final = "> "
LINE_CHARS_MAX: Final = 500
"""Of a quoted line, in code points; a longer one goes on in the next, so that none runs out of its mark's sight."""
SHORTENED: Final = "[shortened here]"

# Unicode's Default_Ignorable_Code_Point, which has the marks of direction in it, and those for interlinear notes.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def seen(text: str) -> str:
    """Return `text` as a reader sees it: without unseen characters, terminal codes, and secrets of ours."""
    # Twice: without what was unseen, the rest may be a terminal code or a secret that it had split.
    return reports.storable(_UNSEEN.sub("", reports.storable(text)))


def inline(text: str, *, chars_max: int | None = None) -> str:
    """Return `text` as a JSON string on one line; `chars_max` counts code points before quoting."""
    return json.dumps(reports.one_line(seen(text), chars_max=chars_max), ensure_ascii=False)


def quoted(text: str) -> list[str]:
    """Return `text` as lines that each begin as a quotation; an empty text has none."""
    lines = seen(text).replace("\r\n", "\n").strip().splitlines()
    return [f"{QUOTE}{piece}".rstrip() for line in lines for piece in _folded(_CONTROL.sub("", line).rstrip())]


def within(lines: list[str], *, chars_max: int) -> list[str]:
    """Return as many whole quoted lines as fit, line ends included, with a last one that says if some don't."""
    if sum(len(line) + 1 for line in lines) <= chars_max:
        return lines
    notice = f"{QUOTE}{SHORTENED}"
    ends = accumulate(len(line) + 1 for line in lines)
    fitting = sum(end <= chars_max - len(notice) - 1 for end in ends)
    return [*lines[:fitting], notice]


def _folded(line: str) -> list[str]:
    """Return a line in pieces of at most `LINE_CHARS_MAX`, broken behind blanks where there are some."""
    pieces = []
    while len(line) > LINE_CHARS_MAX:
        at = line.rfind(" ", LINE_CHARS_MAX // 2, LINE_CHARS_MAX) + 1 or LINE_CHARS_MAX
        pieces.append(line[:at].rstrip())
        line = line[at:]
    return [*pieces, line]
