"""Lines of a log that is still being written, as bytes, with memory that has a bound.

A child writes straight into its log file, so nothing of it can be lost and
nothing can block it; this is how the supervisor follows along. Lines end at a
line feed and nowhere else: U+2028, a lone carriage return or a NUL are part of
a line. Nothing is decoded here, so no byte can stop the reading (case 46).

There is no longest line (case 44). What goes beyond `LINE_BYTES_MAX` is read
past, not kept: such a line is given with its head, marked as cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""What is kept of one line, in bytes: room for the longest report (1 MiB) with every character of it escaped."""

CHUNK_BYTES: Final = 256 * 1024
"""What one look reads, in bytes; with one line it bounds the memory that following a log takes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed; `is_cut` says that it went on, and that only its head is here."""

    data: bytes
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The line for people: bytes that are no UTF-8 read as U+FFFD."""
        return self.data.decode("utf-8", "replace")


class Splitter:
    """Makes lines of bytes that arrive in pieces, whatever the pieces are."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._head = bytearray()
        self._length = 0

    @property
    def unfinished_bytes(self) -> int:
        """How long the line is by now that has no end yet, with what of it was not kept."""
        return self._length

    def feed(self, chunk: bytes) -> list[Line]:
        """Take the next bytes, and return the lines that end in them."""
        *ended, rest = chunk.split(b"\n")
        lines = [self._end(piece) for piece in ended]
        self._keep(rest)
        return lines

    def unfinished(self) -> Line | None:
        """Return the line that has no end yet, None when there is none; it may still go on."""
        return Line(bytes(self._head), self._length > len(self._head)) if self._length else None

    def _end(self, piece: bytes) -> Line:
        if not self._length and len(piece) <= self._line_bytes_max:
            return Line(piece)
        self._keep(piece)
        line = Line(bytes(self._head), self._length > len(self._head))
        self._head.clear()
        self._length = 0
        return line

    def _keep(self, piece: bytes) -> None:
        self._head += piece[: self._line_bytes_max - len(self._head)]
        self._length += len(piece)


class LogLines:
    """The lines of a growing file, from `offset` on, which must be where a line begins.

    >>> with LogLines(path) as log:
    ...     for line in log.lines():     # what there is now; ask again when there may be more
    ...         reader.line(line.data, is_cut=line.is_cut)
    ...     last = log.unfinished()      # once its writers are gone: half a line is a line too

    Raises `OSError` when the file can't be opened or read.
    """

    def __init__(self, path: Path, *, offset: int = 0, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._splitter = Splitter(line_bytes_max=line_bytes_max)
        self._file: BinaryIO = path.open("rb", buffering=0)
        self._position = self._file.seek(offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; safe twice."""
        self._file.close()

    @property
    def offset(self) -> int:
        """Where the first byte stands that belongs to no line given so far: begin here to go on."""
        return self._position - self._splitter.unfinished_bytes

    def take(self) -> list[Line] | None:
        """Return the lines that end in the next `CHUNK_BYTES` at most, None at the present end of the file."""
        chunk = self._file.read(CHUNK_BYTES)
        if not chunk:
            return None
        self._position += len(chunk)
        return self._splitter.feed(chunk)

    def lines(self) -> Iterator[Line]:
        """Give each line up to the present end of the file; one that is not taken from here is lost.

        A file that grows faster than it is read keeps this going: who must
        look at the clock in between calls `take`.
        """
        while (ended := self.take()) is not None:
            yield from ended

    def unfinished(self) -> Line | None:
        """Return what stands after the last line feed, None when nothing does; it stays to be gone on with."""
        return self._splitter.unfinished()
