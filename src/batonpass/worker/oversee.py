"""One run from its handing over to its verdict: started, followed, settled (D21a).

    launch ─▶ answer: started ─▶ follow ─▶ stop ─▶ tear-down ─▶ settle ─▶ mirror ─▶ end
       └────▶ answer: refused, undone, recorded

**What a crash leaves.** A run whose lock is free. Whoever looks next stops what
still runs of it and settles it from its record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from batonpass.worker.breaker import Breakers
from batonpass.worker.dispatch import child, hooks, supervisor
from batonpass.worker.dispatch.child import Launched, Means
from batonpass.worker.dispatch.ear import Ear
from batonpass.worker.dispatch.launch import Answer, Errand, NotLaunched, NotStarted, Started
from batonpass.worker.journal import HeldRun
from batonpass.worker.mirror import Mirror, Mirroring
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord, Stopped
from batonpass.worker.unclaimed import close


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
    mirror = Mirror(means.graph, now=means.now)
    try:
        launched = child.launch(means, run, errand)
        if isinstance(launched, NotLaunched):
            return _refused(means, run, launched.record, answer)
        answer(Started())
        with Mirroring(mirror, run):
            return _see_through(means, run, launched, errand=errand, clock=clock)
    finally:
        mirror.push(run)


def _refused(means: Means, run: HeldRun, record: RunRecord, answer: Callable[[Answer], None]) -> RunRecord:
    if means.stopping.is_set() or means.called_off():
        record = run.change(record, stopped_for=Stopped.INTERRUPTED)
    answer(NotStarted(record.termination_reason or "it is not known why"))
    return record


def _see_through(
    means: Means, run: HeldRun, launched: Launched, *, errand: Errand, clock: Callable[[], float]
) -> RunRecord:
    settings, fence = errand.settings, None if errand.taken is None else errand.taken.fence
    try:
        with Ear(run, launched.command, launched.harness) as ear:
            watched = supervisor.Watched(
                launched.child,
                launched.heart,
                means.stopping,
                ear,
                session_id=launched.command.session_id,
                bind=lambda session: means.bind(launched.token, fence, session),
            )
            over = supervisor.supervise(run, launched.record, watched, settings=settings, now=means.now, clock=clock)
        with suppress(OSError):
            Breakers(settings.home).note(over, means.now())
        if errand.order.tear_down and launched.site is not None:
            launched.child.stop(settings.graces)  # nobody else is in the worktree while it is cleared up
            hooks.tear_down(errand.order.tear_down, launched.site)
        if errand.taken is None:
            return close(means.graph, settings, means.now, run=run, crew=launched.child.crew)
        return settle(Settler(means.graph, settings, means.now), run, launched.child.crew)
    except BaseException:
        launched.child.stop(settings.graces)
        raise
    finally:
        launched.heart.stop()
