"""A worker's shift: from its start until it is told to end, with as many runs at a time as it has slots.

    step:  what ended ─▶ what others left ─▶ look, claim, begin ─▶ how long until the next step
    pause: until then, or until there is news: a run ended, the queue changed, a signal came

**Who decides what.** The queue's order is the server's, and so is who gets an
item. This module decides when to look again: at once when a run of its own has
ended, when the server says that the queue has changed (it is asked to wait, and
at most once in `GAP_S`), when an item has cooled off, and every `max_interval_s`
in any case. A server that is away, or can't wait, is asked again after
min(`max_interval_s`, `interval_s` * 2^misses).

**What a crash leaves.** Runs with their supervisors. The next worker of this
home takes them for its own until they are over: they count to its slots.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from signal import SIGTERM
from typing import Final

from batonpass.core.errors import BatonError, Forbidden, Unauthorized
from batonpass.worker.crew import is_alive, tell
from batonpass.worker.dispatch import launch
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.journal import RunFolder
from batonpass.worker.loop import lines_of, look, take
from batonpass.worker.pace import Pace, disk_full, left_undone
from batonpass.worker.reaping import reap, told
from batonpass.worker.record import RunRecord
from batonpass.worker.select import Choice, Kind
from batonpass.worker.slot import Slot
from batonpass.worker.watch import Notice, Watch
from batonpass.worker.worker import Worker

LOST_RACES_MAX: Final = 5
"""How many pages of candidates may be taken by others before a round gives up."""
GAP_S: Final = 1.0
"""How long after a look the next one comes at the earliest, when it is only the queue that has changed."""
REAP_S: Final = 60.0
"""How often runs that somebody left are looked for."""
ADOPTED_LOOK_S: Final = 1.0
"""How often runs of dead workers are looked at."""
END_LOOK_S: Final = 0.25


class Phase(StrEnum):
    """What a worker is at."""

    WORKING = "working"
    IDLE = "idle"
    """There is nothing to take."""
    WAITING = "waiting"
    """It takes nothing now, and says why."""
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Adopted:
    """A run whose worker is dead, and whose supervisor goes on."""

    folder: RunFolder
    record: RunRecord


class Shift:
    """One worker at work. `records` are the runs that it saw the end of, the latest last, `own` those that it began."""

    def __init__(self, worker: Worker, pace: Pace, *, noticed: Callable[[Shift], None] = lambda _: None) -> None:
        self.worker = worker
        self.pace = pace
        self.phase = Phase.IDLE
        self.why = ""
        self.slots: list[Slot] = []
        self.adopted: list[Adopted] = []
        self.records: list[RunRecord] = []
        self.own: list[RunRecord] = []
        self.taken = 0
        self.choice = Choice((), ())
        self.error: Exception | None = None
        self.next_look_s = worker.clock()
        self._noticed = noticed
        self._looked_s = float("-inf")
        self._reap_at_s = worker.clock()
        self._adopted_at_s = worker.clock()
        self._misses = 0
        self._watch: Watch | None = None
        self._said: list[str] = []
        self._told_to_end: set[str] = set()
        self._notice = Notice(worker)

    def run(self) -> None:
        """Work until the shift is over; raises what kept the worker from doing anything at all."""
        while (pause_s := self.step()) is not None:
            with suppress(queue.Empty):
                self.worker.news.get(timeout=pause_s)
        if self.error is not None:
            raise self.error

    def step(self) -> float | None:
        """Do what is due, and return how many seconds there is nothing to do; None when the shift is over."""
        worker = self.worker
        now_s = worker.clock()
        self._heed_watch()
        self._close_slots()
        self._look_at_adopted(now_s)
        if now_s >= self._reap_at_s and not worker.leaving.is_set():
            self._reap(now_s)
        if self._is_ending():
            return self._end()
        if self._free() > 0 and now_s >= self.next_look_s:
            self._look()
        if self._is_ending():
            return self._end()
        self._set_phase()
        return self._pause_s()

    # --- runs that are on their way --------------------------------------------------------------------------------

    def _close_slots(self) -> None:
        """Let go of what has ended; a slot that is free again is a reason to look at once."""
        for slot in [slot for slot in self.slots if slot.over.is_set()]:
            self.slots.remove(slot)
            self.next_look_s = self.worker.clock()
            self._retract(slot)
            self.worker.cooling.busy.discard(slot.item.id)
            if slot.error is None:
                self.worker.say(slot.told())
                self.own.append(slot.record)
                self._over(slot.record)
            else:
                self.worker.say(f"{slot.item.id}: {slot.error}")
                if self.pace.once:
                    self._give_up(slot.error)
                self.worker.cooling.cool(slot.item.id, kind=Kind.REFUSAL, reason=str(slot.error))

    def _retract(self, slot: Slot) -> None:
        """Let another run try a harness, in case this was to and came to nothing."""
        with suppress(OSError):
            self.worker.breakers.retract(slot.record.harness, slot.record.run_id)

    def _over(self, record: RunRecord) -> None:
        self.records.append(record)
        if record.node_id is None:
            return
        if (left := left_undone(record)) is not None:
            kind, reason = left
            self.worker.cooling.cool(record.node_id, kind=kind, reason=reason)

    def _look_at_adopted(self, now_s: float) -> None:
        """See which runs of dead workers are over; one whose supervisor died is settled at once."""
        if not self.adopted or now_s < self._adopted_at_s:
            return
        self._adopted_at_s = now_s + ADOPTED_LOOK_S
        for one in list(self.adopted):
            runner = one.record.runner
            if runner is not None and is_alive(runner):
                if self.worker.interrupted.is_set() and one.record.run_id not in self._told_to_end:
                    self._told_to_end.add(one.record.run_id)
                    tell(runner, SIGTERM)
                continue
            self.adopted.remove(one)
            if one.record.node_id is not None:
                self.worker.cooling.busy.discard(one.record.node_id)
            self.next_look_s = now_s
            record = one.folder.readable()
            if record is not None and record.is_settled:
                self.worker.say(told(record))
                self._over(record)
            else:
                self._reap_at_s = now_s

    def _reap(self, now_s: float) -> None:
        self._reap_at_s = now_s + REAP_S
        try:
            self.records.extend(reap(self.worker))
        except (BatonError, WorkerError, OSError) as error:
            self.worker.say(f"what was left could not be looked at: {error}")
        self._adopt()

    def _adopt(self) -> None:
        """Take the runs of dead workers of this home, at this server, for ours.

        A run that a person dispatched had no worker: it takes no slot, and is not ours to stop.
        """
        ours = {slot.record.run_id for slot in self.slots} | {one.record.run_id for one in self.adopted}
        for folder in self.worker.journal.unsettled():
            record = folder.readable()
            if record is None or record.run_id in ours or record.server != self.worker.graph.server:
                continue
            if record.worker_id is None or record.worker is None or is_alive(record.worker):
                continue
            if record.runner is not None and is_alive(record.runner):
                self.adopted.append(Adopted(folder, record))
                if record.node_id is not None:
                    self.worker.cooling.busy.add(record.node_id)
                self.worker.say(f"{record.name}: at work since before this worker (run {record.run_id})")

    # --- taking ------------------------------------------------------------------------------------------------------

    def _free(self) -> int:
        """Return how many more runs may be begun."""
        free = self.pace.concurrency - len(self.slots) - len(self.adopted)
        return free if not self.pace.max_runs else min(free, self.pace.max_runs - self.taken)

    def _look(self) -> None:
        """Look at the queue and fill the free slots; what is in the way is said once, and tried again later."""
        first = not self._has_looked()
        self._looked_s = self.worker.clock()
        if (full := disk_full(self.worker.settings)) is not None:
            self._hold_back(full)
            return
        try:
            waits_for = self._fill()
        except (Unauthorized, Forbidden) as error:
            self._give_up(error)
        except LaunchRefused as error:
            if first:
                self._give_up(error)
            else:
                self._away(error)
        except (BatonError, WorkerError, OSError) as error:
            if self.pace.once:
                self._give_up(error)
            else:
                self._away(error)
        else:
            if waits_for is not None:
                self._wait_for_queue(waits_for)

    def _has_looked(self) -> bool:
        return math.isfinite(self._looked_s)

    def _fill(self) -> str | None:
        """Begin runs until no slot is free or nothing is left to take; in that case return the position looked at."""
        worker = self.worker
        ground = launch.survey(worker.order, worker.settings)
        caller = worker.graph.caller()
        agent = launch.require_agent(caller)
        races = 0
        choice = Choice((), ())
        while self._free() > 0 and not worker.stopping.is_set():
            if not choice.candidates:
                choice = self.choice = look(worker, agent)
            if not choice.candidates:
                self._tell_skipped(choice)
                return choice.seq
            if worker.stopping.is_set():
                return None
            slot = take(worker, choice, ground=ground, caller=caller)
            if slot is None:
                races += 1
                if races >= LOST_RACES_MAX:
                    worker.say("others were faster each time")
                    self.next_look_s = worker.clock() + GAP_S
                    return None
                choice = Choice((), ())
                continue
            self.slots.append(slot)
            worker.cooling.busy.add(slot.item.id)
            self.taken += 1
            self._misses = 0
            choice = choice.after(slot.item.id)
        return None

    def _tell_skipped(self, choice: Choice) -> None:
        """Say why what was seen is left alone, as far as that is new."""
        lines = lines_of(choice)
        if lines != self._said:
            known = frozenset(self._said[:-1])
            for line in lines:
                if line not in known:
                    self.worker.say(line)
            self._said = lines

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _wait_for_queue(self, seq: str) -> None:
        """Have the server say when the queue has changed; until then look only when something here gives reason to."""
        now_s = self.worker.clock()
        self.why = ""
        self.next_look_s = now_s + self.pace.max_interval_s
        again = [skipped.until_s for skipped in self.choice.skipped if skipped.until_s is not None]
        again += filter(None, [self.worker.cooling.soonest_s()])
        self.next_look_s = min([self.next_look_s, *(max(one_s, now_s + GAP_S) for one_s in again)])
        if not self.pace.once and self._watch is None:
            # One that still waits from an earlier position hears of everything that this one would.
            self._watch = Watch(self.worker, seq)
            self._watch.start()

    def _heed_watch(self) -> None:
        watch = self._watch
        if watch is None or not watch.answered.is_set():
            return
        self._watch = None
        now_s = self.worker.clock()
        if watch.error is None:
            self._misses = 0
            self.next_look_s = min(self.next_look_s, max(now_s, self._looked_s + GAP_S))
        else:
            # What else gives reason to look does so in any case.
            due_s = self.next_look_s
            self._away(watch.error)
            self.next_look_s = min(self.next_look_s, due_s)

    def _hold_back(self, why: str) -> None:
        """Take nothing for a while, and say why, when that is something else than the last time."""
        self.why = why
        self.next_look_s = self.worker.clock() + self.pace.interval_s
        if self._said != [why]:
            self.worker.say(f"takes nothing: {why}")
        self._said = [why]

    def _away(self, error: Exception) -> None:
        """Leave the server alone for a while that doubles."""
        self._misses += 1
        self.why = f"unknown because {error}"
        self.next_look_s = self.worker.clock() + self.pace.backoff_s(self._misses)
        if self._said != [self.why]:
            self.worker.say(f"what there is to take is {self.why}")
        self._said = [self.why]

    def _give_up(self, error: Exception) -> None:
        """Take nothing more, for nothing that passes by itself is in the way."""
        self.error = error
        if self.slots or self.adopted:
            self.worker.say(f"takes nothing more: {error}")

    def _pause_s(self) -> float:
        now_s = self.worker.clock()
        due = [self._reap_at_s]
        if self._free() > 0:
            due.append(self.next_look_s)
        if self.adopted:
            due.append(self._adopted_at_s)
        return max(min(due) - now_s, 0.0)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _is_ending(self) -> bool:
        return self._takes_no_more() or self.worker.stopping.is_set() or self.worker.leaving.is_set()

    def _takes_no_more(self) -> bool:
        """Whether it has done what it was to do, or something keeps it from that for good."""
        if self.pace.max_runs and self.taken >= self.pace.max_runs:
            return True
        return self.error is not None or (self.pace.once and self._has_looked())

    def _end(self) -> float | None:
        """Wait for what is on its way; None once nothing is, or the rest is left to its supervisors."""
        worker = self.worker
        rest = [slot for slot in self.slots if slot.launching] if worker.leaving.is_set() else self.slots
        adopted = self.adopted if worker.stopping.is_set() and not worker.leaving.is_set() else []
        if rest or adopted:
            self.phase = Phase.DRAINING
            self._notice.look(len(rest) + len(adopted))
            self._noticed(self)
            return END_LOOK_S
        self.phase = Phase.STOPPED
        if self._watch is not None:
            self._watch.forget()
        self._noticed(self)
        return None

    @property
    def stop_reason(self) -> str:
        """Why it is over, once it is."""
        if self.error is not None:
            return str(self.error)
        if self.worker.leaving.is_set():
            return "the terminal went away"
        if self.worker.interrupted.is_set():
            return "told to stop its runs"
        if self.worker.stopping.is_set():
            return "told to stop"
        if self.pace.once:
            return "one round"
        return "one run" if self.taken == 1 else f"{self.taken} runs"

    def _set_phase(self) -> None:
        if self.slots or self.adopted:
            self.phase = Phase.WORKING
        else:
            self.phase = Phase.WAITING if self.why else Phase.IDLE
        self._noticed(self)


def once(worker: Worker) -> RunRecord | None:
    """Look once, see what was taken through, and return its record; None when there was nothing to take.

    Told to stop before anything was taken it raises `KeyboardInterrupt`.
    """
    shift = Shift(worker, Pace(once=True))
    shift.run()
    if not shift.taken and worker.stopping.is_set():
        worker.say("told to stop: nothing is taken")
        raise KeyboardInterrupt
    return shift.own[-1] if shift.own else None
