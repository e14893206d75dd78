"""One round of a worker: finish what was left, take one item, follow its run to the end.

    reap ─▶ survey ─▶ page ─▶ choose ─▶ record ─▶ next ─▶ begin ─▶ wait for its supervisor
             pure guards first                    claim

`tick` does one round and says what came of it; whoever calls it decides when to
call it again. From the claim on the run is its supervisor's, which outlives us.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, assert_never

from batonpass.core.errors import BatonError, Unknown
from batonpass.core.ids import AgentId, RunId
from batonpass.core.points import reach
from batonpass.worker import proc
from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.launch import Begun, Ground, Launcher, NotLaunched, Order, Starter
from batonpass.worker.errors import RunBusy, WorkerError
from batonpass.worker.graph import Caller, Graph, Taken
from batonpass.worker.journal import HeldRun, Journal, RunFolder, RunRecord, State
from batonpass.worker.mirror import Mirror
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.proc import Crew
from batonpass.worker.select import Choice, choose
from batonpass.worker.settings import Settings

PAGE: Final = 25
"""How many items the first look takes; it doubles while nothing on the page may be taken."""
PAGE_MAX: Final = 100
"""The server's own ceiling for a page."""
LOOK_S: Final = 0.1
"""How soon a signal to the worker reaches the supervisor of its run."""
LOST_RACES_MAX: Final = 5
"""How many pages of candidates may be taken by others before this round gives up."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker works with.

    `now` is the time that records show. `starter` starts the supervisors of
    its runs. `stopping` says that nothing more is to be taken, `interrupted` ends the
    run that is followed as well. `say` gets a line for a person at every turn.
    """

    graph: Graph
    settings: Settings
    order: Order
    now: Callable[[], datetime]
    interrupted: threading.Event
    say: Callable[[str], None]
    starter: Starter
    stopping: threading.Event = field(default_factory=threading.Event)
    unmirrored: set[RunId] = field(default_factory=set)
    """Runs that the server will have no copy of, so that it is not asked each round."""

    @property
    def journal(self) -> Journal:
        """The records of this box's runs."""
        return Journal(self.settings.home)


def tick(worker: Worker) -> RunRecord | None:
    """Do one round, and return the record of the run it made, or None when there was nothing to take.

    A worker that is told to stop before its run's child has started takes
    nothing, or hands back what it took: `KeyboardInterrupt` in the first case,
    and in the second a record that says so.
    """
    reap(worker)
    _require_going(worker)
    ground = launch.survey(worker.order, worker.settings)
    caller = worker.graph.caller()
    agent = launch.require_agent(caller)
    for _ in range(LOST_RACES_MAX):
        choice = look(worker, agent)
        if not choice.candidates:
            _tell_skipped(worker, choice)
            return None
        _require_going(worker)
        record = _try(worker, choice, ground=ground, caller=caller)
        if record is not None:
            return record
    worker.say("others were faster each time")
    return None


def reap(worker: Worker) -> tuple[RunRecord, ...]:
    """Settle every run whose worker is gone, drop old records, and return those that were taken up.

    What the server has not got of runs that are over is sent to it, in a few
    seconds or not at all (`worker.mirror`).
    """
    worker.journal.prune(worker.now())
    for damaged in worker.journal.damaged():
        _set_aside(worker, damaged)
    taken_up = [_take_up(worker, run) for run in worker.journal.unsettled()]
    Mirror(worker.graph, worker.now, refused=worker.unmirrored).catch_up(worker.journal)
    return tuple(record for record in taken_up if record is not None)


def look(worker: Worker, agent: AgentId) -> Choice:
    """Return what may be taken, from a page that widens until something on it is, or the queue ends."""
    limit = PAGE
    while True:
        page = worker.graph.page(project=worker.order.project, limit=limit)
        choice = choose(page.items, accept=worker.settings.accept, agent=agent)
        if choice.candidates or not page.more or limit >= PAGE_MAX:
            return choice
        limit = min(2 * limit, PAGE_MAX)


def _require_going(worker: Worker) -> None:
    if worker.stopping.is_set():
        worker.say("told to stop: nothing is taken")
        raise KeyboardInterrupt


def _take_up(worker: Worker, run: RunFolder) -> RunRecord | None:
    """Settle one run that was left; None when it is somebody's, settled by now, or can't be settled here."""
    try:
        with run.locked() as held:
            record = held.read()
            if record.is_settled or _is_followed(record):
                return None
            worker.say(f"{record.name or record.run_id}: settling the run {record.run_id}, which was left")
            crew = Crew(record.run_id, child=record.child)
            settled = settle(_settler(worker), held, crew)
            worker.say(told(settled))
            return settled
    except RunBusy:
        return None
    except (WorkerError, OSError) as error:
        # One run that can't be settled keeps neither the others nor new work waiting.
        worker.say(f"{run.path.name}: not settled: {error}")
        return None


def _set_aside(worker: Worker, run: RunFolder) -> None:
    """Take a run that nobody can settle out of the way: end what still runs of it, and say where its files are."""
    try:
        with run.locked() as held:
            Crew(RunId(run.path.name)).stop(worker.settings.graces)
            aside = held.set_aside(run.record)
    except RunBusy:
        return
    except OSError as error:
        worker.say(f"{run.record} can't be read, and can't be set aside either: {error}")
        return
    worker.say(
        f"{run.path.name}: not settled: its record can't be read, and was set aside as {aside};"
        " its lease lapses by itself, and what it said is beside the record"
    )


def _is_followed(record: RunRecord) -> bool:
    """Whether the run's supervisor still lives; the lock says so too, where locks work."""
    runner = record.runner
    return runner is not None and runner.pid != os.getpid() and proc.is_alive(runner)


def _try(worker: Worker, choice: Choice, *, ground: Ground, caller: Caller) -> RunRecord | None:
    """Claim one of the candidates and see its run through; None when all of them were taken by others."""
    record = launch.new_record(worker.order, ground, server=worker.graph.server, caller=caller, now=worker.now())
    with worker.journal.create(record) as run:
        taken = _claim(worker, run, choice)
        if taken is None:
            return None
        launcher = Launcher(worker.graph, worker.settings, worker.now, worker.starter, worker.stopping)
        begun = launch.begin(launcher, run, taken, order=worker.order, ground=ground)
    # The run's lock is its supervisor's alone from here on.
    match begun:
        case NotLaunched(record):
            worker.say(told(record))
            return record
        case Begun():
            return _follow(worker, RunFolder(run.path), begun)
        case unknown:
            assert_never(unknown)


def _claim(worker: Worker, run: HeldRun, choice: Choice) -> Taken | None:
    """Return what the claim brought, or None; a record stays only where a claim may stand behind it."""
    reach("claim.nonce_written")
    try:
        taken = worker.graph.next(
            project=worker.order.project,
            accept=worker.settings.accept,
            candidates=choice.candidates,
            dispatch=run.read().dispatch,
        )
    except Unknown:
        # It may have been granted. The next round closes the record; nobody renews the lease.
        raise
    except BatonError:
        run.forget()
        raise
    if taken is None:
        run.forget()
    return taken


def _follow(worker: Worker, run: RunFolder, begun: Begun) -> RunRecord:
    """Wait for a run's supervisor, and finish the run if that died before it had; return the record."""
    worker.say(f"{begun.record.name}: at work in {begun.record.cwd} (run {begun.record.run_id})")
    notice, told_to_end = _Notice(worker), False
    while not begun.supervisor.wait(LOOK_S):
        notice.look()
        if worker.interrupted.is_set() and not told_to_end:
            begun.supervisor.terminate()
            told_to_end = True
    notice.look()
    record = run.read()
    died = not record.is_settled and record.pending_for is None
    if died and (taken_up := _take_up(worker, run)) is not None:
        return taken_up
    worker.say(told(record))
    return record


class _Notice:
    """What a person hears of the signals that came while a run is followed, each once.

    The signal may have come in the middle of a line that was being printed, so
    the one who heard it only leaves a mark, and this speaks of it in its turn.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._told_first = self._told_second = False

    def look(self) -> None:
        """Say what is new."""
        if self._worker.interrupted.is_set():
            if not self._told_second:
                self._told_first = self._told_second = True
                self._worker.say("stopping the run and settling it; once more to leave it to the next start")
        elif self._worker.stopping.is_set() and not self._told_first:
            self._told_first = True
            self._worker.say("the run is finished first; once more to stop it")


def _settler(worker: Worker) -> Settler:
    return Settler(worker.graph, worker.settings, worker.now)


def _tell_skipped(worker: Worker, choice: Choice) -> None:
    for skipped in choice.skipped:
        worker.say(f"{skipped.item}: left alone, {skipped.reason}")
    worker.say("there is nothing to take")


def told(record: RunRecord) -> str:
    """Return in one line for a person how a run ended, and where to look next."""
    name = record.name or record.run_id
    if record.state is State.FAILED_LAUNCH:
        return f"{name}: not started: {record.termination_reason}"
    parts = [f"{name}: {record.terminal_state or 'not settled'}", *_details(record)]
    if record.contract_pending:
        parts.append("to be settled by the next start")
    if record.worktree_kept:
        parts.append(f"the worktree {record.worktree} stays ({'; '.join(record.worktree_kept)})")
    return ", ".join(parts)


def _details(record: RunRecord) -> list[str]:
    by = f"by {record.resolved_by}" if record.resolved_by else None
    filed = record.report_node_id or record.finding_node_id
    found = [by, f"filed as {filed}" if filed else None, record.terminal_note]
    return [detail for detail in found if detail]
