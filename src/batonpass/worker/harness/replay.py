"""Reading a whole log once more, when nobody is left who heard it as it grew."""

from __future__ import annotations

from pathlib import Path

from batonpass.worker.harness.base import Harness, Heard
from batonpass.worker.harness.stream import LogLines


def replayed(log: Path, adapter: Harness) -> Heard:
    """Return what a program that writes no more has told in `log`; half a last line is a line too."""
    reader = adapter.reader()
    with LogLines(log) as lines:
        for line in lines.lines():
            reader.line(line.data, is_cut=line.is_cut)
        if (last := lines.unfinished()) is not None:
            reader.line(last.data, is_cut=last.is_cut)
    return reader.heard()
