"""One run from its handing over to its verdict: started, followed, settled (D21a).

    launch ─▶ answer: started ─▶ follow ─▶ settle ─▶ end
       └────▶ answer: refused, undone, recorded

**What a crash leaves.** A run whose lock is free. Whoever looks next stops what
still runs of it and settles it from its record.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from batonpass.worker.dispatch import child, supervisor
from batonpass.worker.dispatch.child import Launched, Means
from batonpass.worker.dispatch.launch import Answer, Errand, NotLaunched, NotStarted, Started
from batonpass.worker.journal import HeldRun, RunRecord, Stopped
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.settings import Settings


def oversee(
    means: Means,
    run: HeldRun,
    errand: Errand,
    *,
    answer: Callable[[Answer], None],
    clock: Callable[[], float] = time.monotonic,
) -> RunRecord:
    """See a run through, and return its record. `answer` is told once, as soon as it is known, how the start went.

    `clock` counts seconds and is never set. What ends this early stops the
    child and leaves the rest to whoever looks next.
    """
    launched = child.launch(means, run, errand)
    if isinstance(launched, NotLaunched):
        record = launched.record
        if means.stopping.is_set():
            record = run.change(record, stopped_for=Stopped.INTERRUPTED)
        answer(NotStarted(record.termination_reason or "it is not known why"))
        return record
    answer(Started())
    return _see_through(means, run, launched, settings=errand.settings, clock=clock)


def _see_through(
    means: Means, run: HeldRun, launched: Launched, *, settings: Settings, clock: Callable[[], float]
) -> RunRecord:
    try:
        watched = supervisor.Watched(launched.child, launched.heart, means.stopping)
        supervisor.supervise(run, launched.record, watched, settings=settings, now=means.now, clock=clock)
        return settle(Settler(means.graph, settings, means.now), run, launched.child.crew)
    except BaseException:
        launched.child.stop(settings.graces)
        raise
    finally:
        launched.heart.stop()
