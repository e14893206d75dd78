"""How much a worker does at a time, how often it asks, and when it leaves a disk or an item alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Final

from batonpass.core.outcome import Terminal
from batonpass.core.runs import Ended, State
from batonpass.worker.record import RunRecord
from batonpass.worker.select import Kind
from batonpass.worker.settings import Settings

CONCURRENCY_MAX: Final = 1_000
INTERVAL_S: Final = 30.0
MAX_INTERVAL_S: Final = 300.0
INTERVAL_S_MAX: Final = 86_400.0
GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much a worker does at a time and in all, and how often it asks; `max_runs` 0 is no limit."""

    concurrency: int = 1
    interval_s: float = INTERVAL_S
    max_interval_s: float = MAX_INTERVAL_S
    max_runs: int = 0
    once: bool = False

    def backoff_s(self, misses: int) -> float:
        """Return how long to leave a server alone that did not answer `misses` times in a row, at least once."""
        doublings = min(max(misses - 1, 0), 32)
        return min(self.max_interval_s, self.interval_s * 2.0**doublings)


def disk_full(settings: Settings) -> str | None:
    """Return in words that the disk under the home folder is too full for another run, or None when it is not."""
    there = next(folder for folder in (settings.home, *settings.home.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free >= settings.disk_free_min:
        return None
    return (
        f"only {free / GB:.1f} GB are free under {settings.home}, and a run wants {settings.disk_free_min / GB:.1f} GB"
        " (work.diskFreeMin); see baton worktrees gc"
    )


def left_undone(record: RunRecord) -> tuple[Kind, str] | None:
    """Return why this worker leaves the item of a run alone for a while, or None when it need not.

    An end that says nothing of the item, as that the service was away, costs
    it nothing; an item that is done or declined is no candidate anyway.
    """
    if record.termination_class is Ended.ENVIRONMENT:
        return None
    if record.state is State.FAILED_LAUNCH:
        return Kind.REFUSAL, f"its run was not started: {record.termination_reason}"
    if record.terminal_state in {Terminal.REPORTED, Terminal.FAILED}:
        return Kind.OUTCOME, f"a run of this worker left it {record.terminal_state}"
    return None
