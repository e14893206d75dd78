"""What a child prints, line by line as it comes.

Lines end at LF and nowhere else, so that no byte of a text in them is taken
for an end; the last one needs none. Bytes stay bytes: nothing is decoded here,
so nothing can be lost by it. A line that is longer than anybody could use is
not kept while it is read: what comes out is that there was one.

The end is when the child's processes have been stopped, and not when the pipe
is closed: whoever holds its other end, an orphan perhaps, decides nothing.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LINE_BYTES_MAX: Final = 1024 * 1024
"""The longest line, as long as the body of a request may be: what is in a longer one could never be sent."""
READ_BYTES: Final = 64 * 1024
LEFT_BYTES_MAX: Final = 1024 * 1024
"""How much is read after the end: no pipe of ours holds more, and what writes on then is no part of the run."""
LOOK_S: Final = 0.1
"""How soon the end is noticed when nothing is printed."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its LF, counted from 1; `text` None was longer than `LINE_BYTES_MAX`.

    `last` says that nothing comes after it. Of most lines nobody can know: it
    is told only of one that is read after the end.
    """

    number: int
    text: bytes | None
    last: bool = False


class Printed:
    """The lines that come through the pipe `heard`, until `ended` is set and all is read. Closes the pipe."""

    def __init__(self, heard: int, ended: threading.Event) -> None:
        self._heard = heard
        self._ended = ended
        self._number = 0
        self._open = bytearray()
        self._too_long = False

    def lines(self) -> Iterator[Line]:
        """Yield each line as soon as it is whole. To be called once."""
        try:
            for part in self._while_it_runs():
                yield from self._whole(part)
            yield from _marking_the_last(self._left())
        finally:
            os.close(self._heard)

    def _while_it_runs(self) -> Iterator[bytes]:
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        while not self._ended.is_set():
            if not poll.poll(LOOK_S * 1000):
                continue
            part = self._read()
            if part == b"":
                # Closed by everybody: there is nothing to wait for but the end.
                self._ended.wait()
            elif part is not None:
                yield part

    def _left(self) -> Iterator[Line]:
        """Return the lines that are still in the pipe after the end, and what was begun and not ended with LF."""
        left = LEFT_BYTES_MAX
        while left > 0 and (part := self._read()):
            left -= len(part)
            yield from self._whole(part)
        if self._open or self._too_long:
            yield self._line()

    def _read(self) -> bytes | None:
        """Return what is there, b"" when nobody can write any more, None when there is nothing now."""
        try:
            return os.read(self._heard, READ_BYTES)
        except BlockingIOError:
            return None

    def _whole(self, part: bytes) -> Iterator[Line]:
        *ended, begun = part.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._line()
        self._add(begun)

    def _add(self, piece: bytes) -> None:
        if self._too_long or len(self._open) + len(piece) > LINE_BYTES_MAX:
            self._too_long = True
            self._open.clear()
        else:
            self._open += piece

    def _line(self) -> Line:
        self._number += 1
        text = None if self._too_long else bytes(self._open)
        self._open.clear()
        self._too_long = False
        return Line(self._number, text)


def _marking_the_last(lines: Iterator[Line]) -> Iterator[Line]:
    before: Line | None = None
    for line in lines:
        if before is not None:
            yield before
        before = line
    if before is not None:
        yield Line(before.number, before.text, last=True)
