"""Following one run's child from its start to its end.

    running ──child exits──────────────────────────────▶ judged: done │ failed │ failed, class environment
       ├──said its last word and stays──▶ stopped ─────▶ judged as if it had exited well (case 42)
       ├──its key is refused, and it tries again──▶ stopped ──▶ failed, class environment
       ├──lease lost──▶ stopped ──▶ failed (stopped_for lease_lost)
       ├──no sign of life for run_idle_s──▶ stopped ──▶ failed, class idle
       ├──running for run_max_s, or STEPS_MAX steps──▶ stopped ──▶ failed (stopped_for max)
       └──we are told to end──▶ stopped ──▶ failed (stopped_for interrupted)

**Who decides what.** The heartbeat says whether the lease may still be acted
on; the adapter says what the program's own signs mean; this module says
whether the child may go on. None of them says what the run did to the graph:
that is read there, by the settlement that follows.

**Signs of life** (D21) are events that are no mere retry, an open tool call,
and processor time of the run's processes, whichever it is: a long build is
silent, a waiting agent is idle, and neither is stopped for the lack of the
other's sign. Of a plain command, output that grows stands for events.

**What a crash leaves.** The child, in a session of its own, and a record that
says who it was. The next worker to start stops it and settles the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from batonpass.core.errors import BatonError, Unavailable
from batonpass.core.points import reach
from batonpass.core.runs import Ended, State
from batonpass.worker.crew import Exit
from batonpass.worker.dispatch.ear import Ear
from batonpass.worker.graph import Heart
from batonpass.worker.harness.base import Failure, Heard, Trouble
from batonpass.worker.journal import HeldRun
from batonpass.worker.proc import Child
from batonpass.worker.record import RunRecord, Stopped, timestamp
from batonpass.worker.settings import Settings

TICK_S: Final = 0.25
"""How soon a lost lease or an interruption stops the child."""
LOOK_S: Final = 2.0
"""How often the run's processes are looked at, so that none is unknown when its parents are gone."""
CPU_SHARE_MIN: Final = 0.02
"""Of one processor, between two looks: below it a process only waits."""
LAST_WORD_S: Final = 20.0
"""How long a program may stay after its last word, to put its own things in order."""
STEPS_MAX: Final = 2_000
"""How many steps of its agent a run may take: an endless loop that shows life all the time is one all the same."""
BIND_AGAIN_S: Final = 30.0
"""After how long the session is told again to a server that was not there."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the supervisor keeps an eye on: the child, what it says, its heartbeat, and whether it is told to end.

    `bind` tells the server which session the run is; it raises `BatonError`.
    """

    child: Child
    heart: Heart
    interrupted: threading.Event
    ear: Ear
    session_id: str | None = None
    bind: Callable[[str], None] = lambda _session: None


class Gone(Enum):
    """Why a program is stopped that has come to its own end, or to none it could come to."""

    LAST_WORD = "it had said its last word"
    REFUSED = "its key was refused"


def supervise(
    run: HeldRun,
    record: RunRecord,
    watched: Watched,
    *,
    settings: Settings,
    now: Callable[[], datetime],
    clock: Callable[[], float],
) -> RunRecord:
    """Return the record once the child is over, by itself or stopped, and all that it said has been heard.

    `clock` counts seconds and is never set; `now` is what records show.
    """
    watch = _Watch(run, record, watched, settings=settings, now=now, clock=clock)
    reason: Stopped | Gone | None = None
    while (ended := watched.child.wait(TICK_S)) is None:
        if (reason := watch.look()) is not None:
            watched.child.stop(settings.graces)
            # Killed and not yet gone is as good as gone: what it was is known, and nobody waits for it any more.
            ended = watched.child.wait(settings.graces.kill_s) or Exit(None, "SIGKILL")
            break
    reach("child.exited")
    return watch.over(ended, reason)


class _Watch:
    """The eye on one run."""

    def __init__(
        self,
        run: HeldRun,
        record: RunRecord,
        watched: Watched,
        *,
        settings: Settings,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        self._run = run
        self._record = record
        self._watched = watched
        self._settings = settings
        self._now = now
        self._clock = clock
        self._life = _Life(watched, clock=clock)
        self._began_s = clock()
        self._last_word_s: float | None = None
        self._bind_at_s: float | None = self._began_s

    def look(self) -> Stopped | Gone | None:
        """Listen, and return why the child is to be stopped, or None while it may go on."""
        heard = self._watched.ear.listen()
        self._bind(heard)
        now_s = self._clock()
        idle_s = self._life.idle_s(heard)
        return self._stopped(heard, age_s=now_s - self._began_s, idle_s=idle_s) or self._gone(heard, now_s)

    def over(self, ended: Exit, reason: Stopped | Gone | None) -> RunRecord:
        """Return the record of a child that is over."""
        watched = self._watched
        # A stray may still write to the log; it is not waited for, and the settlement stops it.
        heard = watched.ear.drain()
        reach("pipe.drained")
        self._bind_at_s = self._clock() if self._bind_at_s is not None else None
        self._bind(heard)
        failure = watched.ear.judge(Exit(0) if reason is Gone.LAST_WORD else ended)
        if reason is Gone.REFUSED:
            failure = heard.failure or heard.retrying or failure
        watched.ear.keep_final(failed=failure is not None)
        return self._run.change(self._record, **self._facts(ended, reason, failure, heard))

    def _stopped(self, heard: Heard, *, age_s: float, idle_s: float) -> Stopped | None:
        if self._watched.heart.lost() is not None:
            return Stopped.LEASE_LOST
        if self._watched.interrupted.is_set():
            return Stopped.INTERRUPTED
        if age_s >= self._settings.run_max_s or heard.steps > STEPS_MAX:
            return Stopped.MAX
        if self._settings.run_idle_s and idle_s >= self._settings.run_idle_s:
            return Stopped.IDLE
        return None

    def _gone(self, heard: Heard, now_s: float) -> Gone | None:
        if heard.retrying is not None and heard.retrying.trouble is Trouble.AUTH:
            return Gone.REFUSED
        if not heard.is_over:
            self._last_word_s = None
            return None
        if self._last_word_s is None:
            self._last_word_s = now_s
        return Gone.LAST_WORD if now_s - self._last_word_s >= LAST_WORD_S else None

    def _bind(self, heard: Heard) -> None:
        """Tell the server, once it is known, which session this is: write-once, so it is said until it is heard."""
        session = heard.session_id or self._watched.session_id
        if session is None or self._bind_at_s is None or self._clock() < self._bind_at_s:
            return
        if self._record.session_id != session:
            self._record = self._run.change(self._record, session_id=session)
        try:
            self._watched.bind(session)
            self._bind_at_s = None
            reach("session.bound")
        except Unavailable:
            self._bind_at_s = self._clock() + BIND_AGAIN_S
        except BatonError:
            self._bind_at_s = None  # refused: the run goes on under no session's name

    def _facts(
        self, ended: Exit, reason: Stopped | Gone | None, failure: Failure | None, heard: Heard
    ) -> dict[str, object]:
        is_good = failure is None and (reason is Gone.LAST_WORD or (reason is None and ended == Exit(0)))
        return {
            "state": State.DONE if is_good else State.FAILED,
            "finished_at": timestamp(self._now()),
            "exit_code": ended.code,
            "signal": ended.signal,
            "stopped_for": reason if isinstance(reason, Stopped) else None,
            "lease_lost": self._watched.heart.lost() is not None,
            "termination_class": Ended.COMPLETED if is_good else _class_of(reason, failure),
            "termination_reason": self._words(ended, reason, failure, heard),
            **({} if self._watched.ear.is_deaf else _told(heard, None if isinstance(reason, Stopped) else failure)),
        }

    def _words(self, ended: Exit, reason: Stopped | Gone | None, failure: Failure | None, heard: Heard) -> str:
        """Return in one line how the child came to its end."""
        match reason:
            case Stopped.LEASE_LOST:
                return f"the lease was lost, so the child was stopped: {self._watched.heart.lost()}"
            case Stopped.IDLE:
                return f"the run gave no sign of life for {self._settings.run_idle_s:g} s and was stopped"
            case Stopped.MAX if heard.steps > STEPS_MAX:
                return f"the agent took more than {STEPS_MAX} steps and was stopped"
            case Stopped.MAX:
                return f"the run reached its limit of {self._settings.run_max_s:g} s and was stopped"
            case Stopped.INTERRUPTED:
                return "the supervisor was told to end, so the child was stopped"
            case Gone() | None if failure is not None:
                return f"{failure.trouble.replace('_', ' ')}: {failure.message}"
            case Gone.LAST_WORD:
                return "the program had said its last word and did not end, so it was stopped"
            case _:
                how = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
                return f"the command ended with {how}"


def _class_of(reason: Stopped | Gone | None, failure: Failure | None) -> Ended:
    """Return the class of a run that did not end well: what we stopped ourselves is never put down to its harness."""
    if reason is Stopped.IDLE:
        return Ended.IDLE
    if isinstance(reason, Stopped) or failure is None:
        return Ended.FAILED
    return Ended.ENVIRONMENT if failure.trouble.is_environment else Ended.FAILED


def _told(heard: Heard, failure: Failure | None) -> dict[str, object]:
    """Return what the record keeps of a program's own words."""
    return {
        "failure": None if failure is None else failure.trouble.value,
        "retry_at": None if failure is None or failure.retry_at is None else timestamp(failure.retry_at),
        "usage": None if heard.usage is None else asdict(heard.usage),
        "cost_usd": heard.cost_usd,
        "steps": heard.steps,
        "denied": heard.denied,
    }


class _Life:
    """How long a run has given no sign of life, looked at every other second."""

    def __init__(self, watched: Watched, *, clock: Callable[[], float]) -> None:
        self._ear = watched.ear
        self._child = watched.child
        self._clock = clock
        self._alive_at_s = self._looked_at_s = clock()
        self._signs = self._ear.signs()
        self._cpu_s = 0.0

    def idle_s(self, heard: Heard) -> float:
        """Return the seconds since the last sign of life that was seen."""
        now_s = self._clock()
        if now_s - self._looked_at_s >= LOOK_S:
            self._look(now_s, heard)
        return now_s - self._alive_at_s

    def _look(self, now_s: float, heard: Heard) -> None:
        signs, cpu_s = self._ear.signs(), self._child.crew.cpu_s()
        share = (cpu_s - self._cpu_s) / (now_s - self._looked_at_s)
        # Less processor time than before means that a process ended: something happened.
        if signs != self._signs or share >= CPU_SHARE_MIN or cpu_s < self._cpu_s or heard.has_open_tool:
            self._alive_at_s = now_s
        self._signs, self._cpu_s, self._looked_at_s = signs, cpu_s, now_s
