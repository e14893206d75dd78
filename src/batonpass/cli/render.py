"""What commands print: for people a table or lines, for programs one JSON document (case 168).

Nothing here knows a command. Text from outside is never trusted to be
harmless: control characters, which could move a terminal's cursor or colour
it, are shown as escapes. Rich draws only when standard output is a terminal;
otherwise tables are plain columns, whatever FORCE_COLOR says.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.table import Table as RichTable

GAP: Final = "  "
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of what is not to be sent to a terminal as it is: controls, marks of direction, surrogates."""
_JOINERS: Final = frozenset("\u200c\u200d\ufe0f")
"""Format characters that letters and emoji are made with."""
_WIDE: Final = frozenset("WF")
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, and whether it may be cut to fit a terminal."""

    title: str
    cut: bool = False


def print_json(raw: bytes) -> None:
    """Print the JSON document `raw`, and nothing else: on one line, or spread out on a terminal.

    It is ASCII unless both the locale and standard output can do with more,
    and then still where the document itself is not to be encoded.
    """
    value = json.loads(raw)
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(value, indent=indent, ensure_ascii=not locale_is_utf8(os.environ))
    if not _encodes(text, sys.stdout):
        text = json.dumps(value, indent=indent)
    sys.stdout.write(text + "\n")


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str | None]], *, empty: str) -> None:
    """Print `rows` under `columns`, or `empty` when there are none; a column without a single value is left out."""
    if not rows:
        say(empty)
        return
    filled = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    kept = [columns[at] for at in filled]
    cells = [[clean(row[at] or "") for at in filled] for row in rows]
    if sys.stdout.isatty():
        _print_rich(kept, cells)
        return
    lines = [[column.title for column in kept], *cells]
    widths = [max(map(width, column)) for column in zip_longest(*lines, fillvalue="")]
    for line in lines:
        padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(line, widths, strict=True)]
        say(GAP.join(padded).rstrip())


def again(command: str, **options: str | Sequence[str] | bool | None) -> str:
    """Return `command` with the options that it was given: what has to be typed for the rest of its list (case 174)."""
    words = [command]
    for name, given in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(given, bool):
            words += [option] if given else []
            continue
        values = [given] if isinstance(given, str) else given or ()
        words += [f"{option} {shlex.quote(value)}" for value in values]
    return " ".join(words)


def cut_short(count: int, again: str, *, after: str | None) -> None:
    """Say that a list was cut, if `after` names where it goes on, and with which command (case 174)."""
    if after is not None:
        say(f"… only the first {count} of this list; more: {again} --after {after}")


def print_fields(fields: Mapping[str, str | None]) -> None:
    """Print names and values, one pair a line, aligned; those without a value are left out."""
    there = {name: value for name, value in fields.items() if value}
    wide = max(map(len, there), default=0)
    for name, value in there.items():
        say(f"{name.ljust(wide)}{GAP}{clean(value)}")


def print_text(text: str) -> None:
    """Print text of several lines from outside."""
    for line in text.splitlines():
        say(clean(line.replace("\t", "    ")))


def say(line: str) -> None:
    """Print one line of our own to standard output."""
    sys.stdout.write(_writable(line, sys.stdout) + "\n")


def warn(line: str) -> None:
    """Print one line to standard error, where it can't get between the data."""
    sys.stderr.write(_writable(line, sys.stderr) + "\n")


class Teller:
    """Says lines at once for as long as there is somebody to hear them, and from then on nothing; it never raises.

    For a command whose work goes on whether or not it is watched. What it says
    may quote others, so it is made harmless (`clean`).
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __call__(self, line: str) -> None:
        """Print one line, if that can be done."""
        if self._stream is None:
            return
        try:
            self._stream.write(_writable(clean(line), self._stream) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # a reader that left, a full disk; a stream that was closed
            silence(self._stream)
            self._stream = None


def silence(stream: TextIO) -> None:
    """Send what `stream` still holds, and whatever is written to it from now on, nowhere."""
    with suppress(OSError, ValueError):
        target = stream.fileno()
        void = os.open(os.devnull, os.O_WRONLY)
        os.dup2(void, target)
        os.close(void)


def span(ms: float) -> str:
    """Return a duration in milliseconds as a person says it: two units at most, rounded down."""
    left, parts = max(int(ms), 0), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def span_of(duration: timedelta) -> str:
    """Return `duration` as a person says it."""
    return span(duration // timedelta(milliseconds=1))


def clean(text: str) -> str:
    """Return `text` as one line that does to a terminal nothing but appear; what could do more is an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        ascii(char)[1:-1] if unicodedata.category(char) in _UNSEEN and char not in _JOINERS else char for char in text
    )


def width(text: str) -> int:
    """Return how many cells of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(char) or char in _JOINERS
        else 2
        if unicodedata.east_asian_width(char) in _WIDE
        else 1
        for char in text
    )


def locale_is_utf8(environ: Mapping[str, str]) -> bool:
    """Whether whoever reads our output under this locale expects UTF-8.

    Python itself cannot be asked: under ``LANG=C`` it turns UTF-8 on, and sets LC_CTYPE to say so.
    """
    if everything := environ.get("LC_ALL"):
        return _names_utf8(everything)
    return _names_utf8(environ.get("LANG", "")) and _names_utf8(environ.get("LC_CTYPE") or "UTF-8")


def _names_utf8(name: str) -> bool:
    return name.upper().replace("-", "").endswith("UTF8")


def _encodes(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _writable(text: str, stream: TextIO) -> str:
    """Return `text` with what `stream` can't encode as escapes."""
    encoding = stream.encoding or "ascii"
    return text if _encodes(text, stream) else text.encode(encoding, "backslashreplace").decode(encoding)


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    table: RichTable = _rich_table(columns)
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    console.print(table)


def _rich_table(columns: Sequence[Column]) -> RichTable:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, no_wrap=True, overflow="ellipsis" if column.cut else "fold")
    return table
