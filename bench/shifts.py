"""Workers that go on by themselves: what one takes that waits, and how soon what becomes ready is at work there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from batonpass.core.ids import NodeId
from batonpass.worker.journal import Journal
from batonpass.worker.record import RunRecord
from bench.box import Box, until
from bench.percentiles import percentile
from bench.served import cpu_s

PAUSE_S: Final = 1.2
"""Between one set of items and the next: a worker that has just looked at the queue lets a second pass (`GAP_S`)."""
CHILD: Final = (
    *(sys.executable, "-I", "-S", "-c"),
    "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))",
)
"""A program that says when it was at work, in nanoseconds, and ends."""
NS_PER_MS: Final = 1_000_000


class Shift(msgspec.Struct):
    """From items that are made ready together to their children at work, by a worker that waits with so many slots."""

    slots: int
    items: int
    p50_ms: float
    p99_ms: float
    worker_ms: float
    """The worker's processor time for each item."""


def shift(here: Box, slots: int, items: int) -> Shift:
    """Make so many items ready, `slots` at a time, for a worker that waits; return how soon they ran."""
    project = f"shift-{slots}"
    with here.waiting(project, slots, CHILD) as worker:
        time.sleep(PAUSE_S)
        before_s = cpu_s(worker)
        delays = [delay for turn in range(items // slots) for delay in _turn(here, project, slots, turn)]
        spent_s = cpu_s(worker) - before_s
    return Shift(slots, len(delays), median(delays), percentile(delays, 99), spent_s / len(delays) * 1_000)


def _turn(here: Box, project: str, slots: int, turn: int) -> Iterator[float]:
    nodes = [here.put_item(f"{project}-{turn}-{slot}", project=project) for slot in range(slots)]
    ready_at = {}
    for node in nodes:
        here.admin.set_readiness(node, "agent")
        ready_at[node] = time.monotonic_ns()
    for node in nodes:
        run = until(partial(_settled, here, node))
        assert run.log_path is not None, run
        yield (int(Path(run.log_path).read_text()) - ready_at[node]) / NS_PER_MS
        here.admin.set_readiness(node, None)
    time.sleep(PAUSE_S)


def _settled(here: Box, node: NodeId) -> RunRecord | None:
    records = (record for _, record in Journal(here.home).records())
    return next((each for each in records if each.node_id == node and each.is_settled), None)
