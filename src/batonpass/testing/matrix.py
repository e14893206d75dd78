"""Every agent program in every case, live, and the table of what was seen (`just harness-all`).

    python -m batonpass.testing.matrix docs/reference/harnesses-tried.md

Takes some ten minutes: several programs repeat a failed request for more than
one of them, and can't be told not to. Ends with 1 when something was not as
it should be; the table is written all the same, and says so.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from batonpass.testing import agents, live
from batonpass.testing.live import Seen, Stop
from batonpass.testing.model.script import Fault, Run, Say
from batonpass.testing.modelserver import ModelServer, Script
from batonpass.worker.harness.base import Trouble

SECONDS_MAX: Final = 180.0
"""Longer than any of these programs goes on trying; one that does is stopped, and the table says so."""
HANG_S: Final = 5.0
"""How long a program waits for a model that has stopped answering before it is stopped."""
SAID_CHARS_MAX: Final = 110
DONE: Final = "It is made; nothing else was touched."
TURNS: Final = (Run(live.WORK), Say(DONE))


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the matrix. `trouble` is the verdict it must come to, None where it is stopped, or does well."""

    name: str
    script: Script
    trouble: Trouble | None = None
    stop: Callable[[], Stop] | None = None

    def faults_in(self, seen: Seen) -> Iterator[str]:
        """Give what was not as it should be; nothing when all was."""
        if seen.leftover:
            yield f"{seen.leftover} processes left"
        if self.name == "good":
            if seen.failure is not None:
                yield f"took it for a failure: {seen.failure.message}"
            if seen.heard.final_text != DONE:
                yield "lost the final message"
            if seen.commits != (f"{live.MESSAGE}, by {live.AGENT}",):
                yield f"left {len(seen.commits)} commits"
            return
        if seen.failure is None:
            yield "took it for a success"
        elif self.trouble is not None and seen.failure.trouble is not self.trouble:
            yield f"took it for {seen.failure.trouble}, not {self.trouble}"
        if seen.heard.final_text is not None:
            yield "took the words of a failure for a report"
        if seen.was_stopped != (self.stop is not None):
            yield "had to be stopped" if seen.was_stopped else "ended by itself"


def _after_hanging() -> Stop:
    asked_at: list[float] = []

    def stop(_folder: Path, model: ModelServer) -> bool:
        if model.questions and not asked_at:
            asked_at.append(time.monotonic())
        return bool(asked_at) and time.monotonic() > asked_at[0] + HANG_S

    return stop


CASES: Final = (
    Case("good", Script(TURNS)),
    Case("rate limit", Script(TURNS, Fault.RATE_LIMIT), Trouble.RATE_LIMIT),
    Case("bad key", Script(TURNS, Fault.BAD_KEY), Trouble.AUTH),
    Case("no credit", Script(TURNS, Fault.NO_CREDIT), Trouble.CREDIT),
    Case("server error", Script(TURNS, Fault.SERVER_ERROR), Trouble.OVERLOADED),
    Case("hang", Script(TURNS, Fault.HANG_BEFORE), stop=_after_hanging),
    Case("kill", Script((Run(live.STUCK),)), stop=lambda: live.is_stuck),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was seen, or why nothing could be."""

    harness: str
    case: Case
    seen: Seen | None
    why_not: str = ""

    @property
    def is_right(self) -> bool:
        """Whether all was as it should be."""
        return self.seen is not None and not list(self.case.faults_in(self.seen))

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the line, from the case to what the program said."""
        if self.seen is None:
            return (self.case.name, "not tried", "", "", "", _shown(self.why_not))
        seen, wrong = self.seen, "; ".join(self.case.faults_in(self.seen))
        verdict = "no failure" if seen.failure is None else str(seen.failure.trouble)
        if self.case.stop is not None and seen.was_stopped:
            verdict = "stopped by us, nothing left"
        said = seen.heard.final_text if seen.failure is None else seen.failure.message
        return (
            self.case.name,
            f"**{wrong}**" if wrong else verdict,
            _exit(seen),
            f"{seen.seconds:.1f}",
            str(len(seen.questions)),
            _shown(said or ""),
        )


def tried(name: str, case: Case) -> Row:
    """Return what harness `name` does in `case`."""
    with tempfile.TemporaryDirectory(prefix="batonpass-live-") as folder:
        try:
            stop = None if case.stop is None else case.stop()
            seen = live.drive(name, Path(folder), case.script, seconds_max=SECONDS_MAX, stop=stop)
        except agents.NotInstalled as reason:
            return Row(name, case, None, str(reason))
    return Row(name, case, seen)


def table(rows: list[Row], *, now: datetime) -> str:
    """Return the page: what was tried when, and a table for each program."""
    node = shutil.which("node")
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout if node else ""
    lines = [
        "# What each harness was tried against",
        "",
        "Written by `just harness-all`: the real programs, offline, each with a scripted model on 127.0.0.1 that has",
        "it write a file and commit it, or that fails in the way the first column says. The verdict is the adapter's;",
        "how to set a harness up, and what to do on a failure, is in [harnesses](../howto/harnesses.md).",
        "",
        f"A hang was stopped after {HANG_S:g} s, a kill came in the middle of a tool call.",
        f"Seen on {now:%Y-%m-%d}, {platform.system()} {platform.machine()}, node {asked.strip() or 'none'}.",
    ]
    for name in dict.fromkeys(row.harness for row in rows):
        lines += ["", f"## {name} {agents.PACKAGES[name].version}", ""]
        lines += ["| Case | Verdict | Ended with | Seconds | Model calls | It said |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(row.cells())} |" for row in rows if row.harness == name]
    return "\n".join(lines) + "\n"


def _exit(seen: Seen) -> str:
    if seen.exit is None:
        return "not seen"
    return seen.exit.signal or str(seen.exit.code)


def _shown(text: str) -> str:
    """Return `text` as a cell: on one line, without what differs from day to day."""
    steady = re.sub(r"(?:https?://)?127\.0\.0\.1:\d+", "the model", " ".join(text.split()))
    short = steady if len(steady) <= SAID_CHARS_MAX else f"{steady[: SAID_CHARS_MAX - 1]}…"
    return short.replace("|", "\\|").replace("<", "&lt;")


def _main(page: Path) -> int:
    rows = []
    for name in agents.PACKAGES:
        for case in CASES:
            row = tried(name, case)
            print(name, *row.cells(), sep="\t", flush=True)  # noqa: T201
            rows.append(row)
    page.write_text(table(rows, now=datetime.now(UTC)))
    return 0 if all(row.is_right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
