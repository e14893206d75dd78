"""Hearing what a run's program says: its log, read as it grows, and given to its adapter's reader line by line.

The log is a file that the child writes to by itself, so nothing is lost when
nobody listens, and a child that is faster than we are waits for nobody (D20).
A plain command has no reader: of it only the size of what it printed is known.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from batonpass.core import reports
from batonpass.worker.crew import Exit
from batonpass.worker.harness.base import Command, Failure, Harness, Heard
from batonpass.worker.harness.stream import LogLines
from batonpass.worker.journal import REPORT_BYTES_MAX, HeldRun, read_regular

LISTEN_S: Final = 0.1
"""How long one look reads at a stretch: what comes faster is read at the next, and the deadlines are looked at too."""
STDERR_BYTES: Final = 16 * 1024
"""How much of the end of a program's errors is looked at."""


class Ear:
    """Listens to one run. Close it, or use it for a block."""

    def __init__(self, run: HeldRun, command: Command, harness: Harness | None) -> None:
        self._run = run
        self._command = command
        self._harness = harness
        self._reader = None if harness is None else harness.reader()
        self._log = LogLines(run.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()

    @property
    def is_deaf(self) -> bool:
        """Whether nothing that is printed is understood: a plain command's output means nothing to us."""
        return self._reader is None

    @property
    def heard(self) -> Heard:
        """What the program has told so far."""
        return Heard() if self._reader is None else self._reader.heard()

    def signs(self) -> tuple[int, ...]:
        """Return numbers that change when the run shows life by what it says; a mere retry changes none."""
        report = _size(self._run.report)
        if self._reader is None:
            return (_size(self._run.log), _size(self._run.errors), report)
        return (self._reader.heard().progress, report)

    def listen(self) -> Heard:
        """Take in what was said since, for `LISTEN_S` at most."""
        until_s = time.monotonic() + LISTEN_S
        while self._reader is not None and self._hear() and time.monotonic() < until_s:
            pass
        return self.heard

    def drain(self) -> Heard:
        """Take in all that is left, once the child and its strays write no more: half a line is a line too."""
        if self._reader is None:
            return self.heard
        while self._hear():
            pass
        if (last := self._log.unfinished()) is not None:
            self._reader.line(last.data, is_cut=last.is_cut)
        for path in self._command.told_later:
            if content := _head(path):
                self._reader.line(content)
        return self.heard

    def judge(self, ended: Exit) -> Failure | None:
        """Return why the program failed, or None when it did not, as its adapter reads the signs."""
        if self._harness is None:
            return None
        return self._harness.judge(self.heard, code=ended.code, signal=ended.signal, stderr=_tail(self._run.errors))

    def keep_final(self, *, failed: bool) -> None:
        """Keep what the agent said last beside its run; the words of a failure are nobody's report."""
        text = self.heard.final_text or ""
        if not reports.is_usable(text) and not failed and self._command.final_message is not None:
            text = reports.storable(_head(self._command.final_message).decode(errors="replace"))
        if self._harness is not None and reports.is_usable(text):
            self._run.keep_final(text)

    def _hear(self) -> bool:
        """Give the reader the lines of one chunk; whether there was any."""
        assert self._reader is not None
        lines = self._log.take()
        for line in lines or ():
            self._reader.line(line.data, is_cut=line.is_cut)
        return lines is not None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _head(path: Path) -> bytes:
    """Return the beginning of a file that the child wrote, or nothing when it is none."""
    return _read(path, offset=0, size=REPORT_BYTES_MAX)


def _tail(path: Path) -> bytes:
    return _read(path, offset=max(_size(path) - STDERR_BYTES, 0), size=STDERR_BYTES)


def _read(path: Path, *, offset: int, size: int) -> bytes:
    with suppress(OSError):  # a disk that fails costs a word, not the run
        return read_regular(path, offset=offset, size=size)
    return b""
