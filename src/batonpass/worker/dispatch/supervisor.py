"""Following one run's child from its start to its end.

    running ──child exits──────────────────────▶ done (exit 0) │ failed
       ├──lease lost──▶ stopped ──▶ failed (stopped_for lease_lost)
       ├──no sign of life for run_idle_s──▶ stopped ──▶ failed, class idle
       ├──running for run_max_s──▶ stopped ──▶ failed (stopped_for max)
       └──we are told to end──▶ stopped ──▶ failed (stopped_for interrupted)

**Who decides what.** The heartbeat says whether the lease may still be acted
on; this module says whether the child may go on. Neither says what the run did
to the graph: that is read there, by the settlement that follows.

**Signs of life** (D21) are output that grows and processor time of the run's
processes, whichever it is: a long build is silent, a waiting agent is idle, and
neither is stopped for the lack of the other's sign.

**What a crash leaves.** The child, in a session of its own, and a record that
says who it was. The next worker to start stops it and settles the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from batonpass.core.points import reach
from batonpass.worker.graph import Heart
from batonpass.worker.journal import Ended, HeldRun, RunRecord, State, Stopped, timestamp
from batonpass.worker.proc import Child, Exit
from batonpass.worker.settings import Settings

TICK_S: Final = 0.25
"""How soon a lost lease or an interruption stops the child."""
LOOK_S: Final = 2.0
"""How often the run's processes are looked at, so that none is unknown when its parents are gone."""
CPU_SHARE_MIN: Final = 0.02
"""Of one processor, between two looks: below it a process only waits."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the supervisor keeps an eye on: the child, its heartbeat, and whether it is itself told to end."""

    child: Child
    heart: Heart
    interrupted: threading.Event


def supervise(
    run: HeldRun,
    record: RunRecord,
    watched: Watched,
    *,
    settings: Settings,
    now: Callable[[], datetime],
    clock: Callable[[], float],
) -> RunRecord:
    """Return the record once the child is over, by itself or stopped; strays may live on until the settlement.

    `clock` counts seconds and is never set; `now` is what records show.
    """
    life = _Life(run, watched.child, clock=clock)
    began_s = clock()
    while (ended := watched.child.wait(TICK_S)) is None:
        reason = _stop_reason(watched, settings=settings, age_s=clock() - began_s, idle_s=life.idle_s())
        if reason is not None:
            return run.change(record, **_stopped(watched, reason, settings=settings, now=now()))
    reach("child.exited")
    return run.change(record, **_over(ended, now=now()))


def _stop_reason(watched: Watched, *, settings: Settings, age_s: float, idle_s: float) -> Stopped | None:
    if watched.heart.lost() is not None:
        return Stopped.LEASE_LOST
    if watched.interrupted.is_set():
        return Stopped.INTERRUPTED
    if age_s >= settings.run_max_s:
        return Stopped.MAX
    if settings.run_idle_s and idle_s >= settings.run_idle_s:
        return Stopped.IDLE
    return None


def _stopped(watched: Watched, reason: Stopped, *, settings: Settings, now: datetime) -> dict[str, object]:
    """Stop the child, and return what its record says about that."""
    watched.child.stop(settings.graces)
    # Killed and not yet gone is as good as gone: what it was is known, and nobody waits for it any more.
    ended = watched.child.wait(settings.graces.kill_s) or Exit(None, "SIGKILL")
    reach("child.exited")
    return {
        "state": State.FAILED,
        "finished_at": timestamp(now),
        "exit_code": ended.code,
        "signal": ended.signal,
        "stopped_for": reason,
        "lease_lost": watched.heart.lost() is not None,
        "termination_class": Ended.IDLE if reason is Stopped.IDLE else Ended.FAILED,
        "termination_reason": _stop_words(reason, watched, settings),
    }


def _over(ended: Exit, *, now: datetime) -> dict[str, object]:
    """Return what the record says of a child that ended by itself."""
    is_good = ended == Exit(0)
    how = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
    return {
        "state": State.DONE if is_good else State.FAILED,
        "finished_at": timestamp(now),
        "exit_code": ended.code,
        "signal": ended.signal,
        "termination_class": Ended.COMPLETED if is_good else Ended.FAILED,
        "termination_reason": f"the command ended with {how}",
    }


def _stop_words(reason: Stopped, watched: Watched, settings: Settings) -> str:
    """Return in one line why the child was stopped."""
    match reason:
        case Stopped.LEASE_LOST:
            return f"the lease was lost, so the child was stopped: {watched.heart.lost()}"
        case Stopped.IDLE:
            return f"the run gave no sign of life for {settings.run_idle_s:g} s and was stopped"
        case Stopped.MAX:
            return f"the run reached its limit of {settings.run_max_s:g} s and was stopped"
        case Stopped.INTERRUPTED:
            return "the supervisor was told to end, so the child was stopped"


class _Life:
    """How long a run has given no sign of life, looked at every other second."""

    def __init__(self, run: HeldRun, child: Child, *, clock: Callable[[], float]) -> None:
        self._files = (run.log, run.errors, run.report)
        self._child = child
        self._clock = clock
        self._alive_at_s = self._looked_at_s = clock()
        self._sizes = self._measure()
        self._cpu_s = 0.0

    def idle_s(self) -> float:
        """Return the seconds since the last sign of life that was seen."""
        now_s = self._clock()
        if now_s - self._looked_at_s >= LOOK_S:
            self._look(now_s)
        return now_s - self._alive_at_s

    def _look(self, now_s: float) -> None:
        sizes, cpu_s = self._measure(), self._child.crew.cpu_s()
        share = (cpu_s - self._cpu_s) / (now_s - self._looked_at_s)
        # Less processor time than before means that a process ended: something happened.
        if sizes != self._sizes or share >= CPU_SHARE_MIN or cpu_s < self._cpu_s:
            self._alive_at_s = now_s
        self._sizes, self._cpu_s, self._looked_at_s = sizes, cpu_s, now_s

    def _measure(self) -> tuple[int, ...]:
        return tuple(map(_size, self._files))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
