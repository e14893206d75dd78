"""Writing down what a sidecar's child prints, each line as it comes, under the task's fence.

    line ─▶ no instruction ──▶ passed on as it is
       └──▶ instruction ─▶ bad, or refused by the server ──▶ named, and the next line is taken
                        ├▶ written
                        ├▶ no answer ──▶ sent again under the same key, until there is one or the task is lost
                        └▶ the task is lost ──▶ neither this line nor any after it is written

**Order.** Lines are written one after the other, as they were printed. While
one waits for the server the child is not read from, and in the end waits too.

**What a crash leaves.** The lines that were written. What came after the last
checkpoint is done again by whoever takes the task over.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from batonpass.client.checkpoint import CheckpointField
from batonpass.client.task import HeldTask
from batonpass.core.errors import BatonError, Invalid, LeaseLost, Unavailable
from batonpass.core.points import reach
from batonpass.worker.instructions import Write, is_instruction, parse
from batonpass.worker.printed import LINE_BYTES_MAX, Line, Printed

AGAIN_S: Final = 1.0
"""Between two rounds of tries while the server gives no answer; a round is what the client does by itself."""
AFTER_END_S_MAX: Final = 20.0
"""How long the server is waited for once the child is over: whoever stops us gives us half a minute, as a rule."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many instructions were written, refused or bad, and not written because the task or the server was lost."""

    written: int = 0
    refused: int = 0
    unwritten: int = 0


class Scribe:
    """Takes the lines of `printed` on a thread of its own.

    `pass_on` gets each line that is no instruction, `tell` words for a person.
    After `ended` the server has `AFTER_END_S_MAX` for all that is left.
    """

    def __init__(
        self,
        printed: Printed,
        task: HeldTask,
        *,
        checkpoint: CheckpointField | None,
        ended: threading.Event,
        pass_on: Callable[[bytes], None],
        tell: Callable[[str], None],
    ) -> None:
        self._printed = printed
        self._task = task
        self._checkpoint = checkpoint
        self._ended = ended
        self._pass_on = pass_on
        self._tell = tell
        self._given_up = False
        self._until_s: float | None = None
        self._failure: Exception | None = None
        self.tally = Tally()
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self) -> Tally:
        """Return what became of all lines, once `ended` is set and the rest has been taken."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self.tally

    @property
    def failed(self) -> bool:
        """Whether it can't go on, by a fault of ours: `finish` raises it."""
        return self._failure is not None

    def _run(self) -> None:
        try:
            for line in self._printed.lines():
                self._take(line)
        except Exception as error:  # noqa: BLE001 — of this thread, and raised in the one that waits for it
            self._failure = error

    def _take(self, line: Line) -> None:
        if line.text is None:
            self._refuse(line, f"it is longer than {LINE_BYTES_MAX} bytes")
        elif not is_instruction(line.text):
            self._pass_on(line.text + b"\n")
        else:
            try:
                writes = parse(line.text, checkpoint=self._checkpoint)
            except Invalid as error:
                self._refuse(line, error.message)
            else:
                self._write(line, writes)

    def _write(self, line: Line, writes: tuple[Write, ...]) -> None:
        reach("line.read")
        key = uuid.uuid4().hex
        told = False
        while not self._given_up and self._task.lost is None:
            try:
                if line.last:
                    self._task.settle()
                self._task.write(writes, key=key)
            except LeaseLost:
                break
            except Unavailable as error:
                if not told:
                    self._tell(f"line {line.number} is not written yet: {error.message}")
                    told = True
                # In order or not at all: what was printed later must not stand without this.
                self._given_up = not self._may_try_again()
            except BatonError as error:
                self._refuse(line, error.message)
                return
            else:
                reach("line.written")
                self.tally = replace(self.tally, written=self.tally.written + 1)
                return
        self.tally = replace(self.tally, unwritten=self.tally.unwritten + 1)

    def _may_try_again(self) -> bool:
        """Pause, and return whether the server may be waited for any longer."""
        if not self._ended.wait(AGAIN_S):
            return True
        if self._until_s is None:
            self._until_s = time.monotonic() + AFTER_END_S_MAX
        time.sleep(AGAIN_S)
        return time.monotonic() < self._until_s

    def _refuse(self, line: Line, why: str) -> None:
        self.tally = replace(self.tally, refused=self.tally.refused + 1)
        self._tell(f"line {line.number} is not written: {why}")
