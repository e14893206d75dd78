"""The worker's settings: each with its default, its unit and its limits (companion 9.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from batonpass.core.digest_text import Mode
from batonpass.core.errors import Invalid
from batonpass.core.queue import Accept
from batonpass.worker import worktree
from batonpass.worker.crew import Graces
from batonpass.worker.journal import RETENTION

RUN_S_MAX: Final = 168 * 3600.0
"""A run's token lives seven days at most, and nothing of a run outlives it (D2a)."""
DEFAULT_RUN_MAX_S: Final = 24 * 3600.0
DEFAULT_RUN_IDLE_S: Final = 45 * 60.0
DISK_FREE_MIN: Final = 1024**3
"""How many bytes are to be free on the disk before another run is begun."""
QUEUE_WAIT_S: Final = 50
"""How long one question to the server waits for the queue to change (D15)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How this worker works.

    `home` holds runs and worktrees. `inherited` is the environment the worker
    was started with, from which those of its children are built (D23).
    A run is stopped after `run_max_s`, and after `run_idle_s` without any sign
    of life; 0 turns the latter off. `briefing` is how much of what is known
    around an item its run is told; None is nothing.
    """

    home: Path
    inherited: Mapping[str, str]
    accept: Accept = Accept.READY
    run_max_s: float = DEFAULT_RUN_MAX_S
    run_idle_s: float = DEFAULT_RUN_IDLE_S
    graces: Graces = field(default_factory=Graces)
    disposable: tuple[str, ...] = worktree.DISPOSABLE
    retention: timedelta = RETENTION
    queue_wait_s: int = QUEUE_WAIT_S
    disk_free_min: int = DISK_FREE_MIN
    briefing: Mode | None = Mode.DIGEST

    def __post_init__(self) -> None:
        """Refuse what would mean something else than it says: a worker must not start on a typo."""
        _require("run_max_s", self.run_max_s, low=1)
        _require("run_idle_s", self.run_idle_s, low=0)


def _require(name: str, value: float, *, low: float) -> None:
    if not math.isfinite(value) or not low <= value <= RUN_S_MAX:
        raise Invalid(f"{name}: {value} s is not between {low:g} s and {RUN_S_MAX:g} s (168 h)", field=name)
