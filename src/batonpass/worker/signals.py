"""The signals that ask a program to end, for as long as it has something to put in order first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ASKING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def heard(told: Callable[[int], None]) -> Iterator[None]:
    """Call `told` with the number of each signal that asks to end; what was there before is put back at the end.

    It is called between any two steps of the program, perhaps in the middle of
    a line being printed: it leaves a mark, and says nothing.
    """

    def handle(number: int, _: FrameType | None) -> None:
        told(number)

    before = {number: signal.getsignal(number) for number in ASKING}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        # Whoever started us with nohup wants the work to outlive the terminal.
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
