"""The runs of this box as they really are: their records, held against the locks and processes that are there.

A record alone says what was true when it was written. Whether somebody has a
run in hand now is asked of the kernel: of the lock on the run's folder, which
goes with its process, and of the supervisor's identity, which is its number,
the moment it started, and the boot. A number alone proves nothing, and is
never signalled.

Nothing here changes a record. `end` stops a run, and leaves what it did to be
read off the graph by the settlement it is given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from signal import SIGKILL, SIGTERM
from typing import Final

from batonpass.core.errors import Invalid, NotFound
from batonpass.core.ids import NodeId
from batonpass.core.runs import Ended, State
from batonpass.worker.crew import Crew, Graces, Identity, is_alive, tell
from batonpass.worker.errors import RunBusy
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.record import RunRecord

POLL_S: Final = 0.1
"""How often a run that was asked to end is looked at."""
KILLED_S_MAX: Final = 5.0
"""How long a killed supervisor may take to be gone."""
AMBIGUOUS_SHOWN_MAX: Final = 5


class Hands(StrEnum):
    """Who has a run in hand, when somebody has."""

    WORKER = "worker"
    """Being launched: no supervisor has taken over yet."""
    SUPERVISOR = "supervisor"
    SETTLEMENT = "settlement"
    """Its supervisor is gone, and another process is settling it."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is now. `record` never says that a process runs which does not; `hands` None is nobody's.

    `is_sure` is False where the file system could not say whether the run is
    locked: then only the supervisor's identity speaks.
    """

    folder: RunFolder
    record: RunRecord
    hands: Hands | None
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """The newest runs of those that were asked for, `total` of which there are; `damaged` can't be read at all."""

    runs: tuple[Run, ...]
    total: int
    damaged: tuple[RunFolder, ...]

    @property
    def is_reconciled(self) -> bool:
        """Whether every run that is shown was held against what is there."""
        return all(run.is_sure for run in self.runs)


def look(folder: RunFolder) -> Run | None:
    """Return the run as it is now, or None when it is gone or can't be read."""
    record = folder.readable()
    if record is None:
        return None
    is_held = folder.is_held()
    hands = None if record.is_settled else _hands(record, is_held=is_held)
    return Run(folder, _as_it_is(record, hands), hands, is_sure=is_held is not None)


def listing(journal: Journal, *, limit: int, prefix: str = "", node: NodeId | None = None) -> Listing:
    """Return the newest runs whose id begins with `prefix`, and that are about `node`."""
    folders = [
        folder
        for folder, record in reversed(journal.records())
        if folder.path.name.startswith(prefix) and (node is None or record.node_id == node)
    ]
    looked = (look(folder) for folder in folders[:limit])
    return Listing(tuple(run for run in looked if run is not None), len(folders), journal.damaged())


def find(journal: Journal, prefix: str) -> RunFolder:
    """Return the one run whose id begins with `prefix`; `NotFound` for none, `Invalid` for several."""
    found = [folder for folder in journal.runs() if folder.path.name.startswith(prefix)]
    match found:
        case [one]:
            return one
        case []:
            raise NotFound(f"no run on this machine has an id that begins with {prefix!r}", field="run")
        case _:
            names = [folder.path.name for folder in found[:AMBIGUOUS_SHOWN_MAX]]
            more = "" if len(found) == len(names) else f" and {len(found) - len(names)} more"
            raise Invalid(f"{len(found)} runs begin with {prefix!r}: {', '.join(names)}{more}", field="run")


def end(
    folder: RunFolder, settle: Callable[[HeldRun, Crew], RunRecord], *, patience_s: float, graces: Graces
) -> RunRecord:
    """Stop a run, see that it is settled, and return its record; one that is settled already is left as it is.

    The supervisor is asked by SIGTERM, so that it stops its child and settles
    by itself; once it is gone, or after `patience_s` killed, what is left of
    the run is stopped here and handed to `settle`. `RunBusy` when somebody
    else has the run in hand and does not let go of it.
    """
    _wait_for_supervisor(folder, patience_s)
    record = folder.read()
    if record.is_settled:
        # Whoever settled it may still hold it, and tell the server of it.
        return record
    with folder.locked() as held:
        record = held.read()
        if record.is_settled:
            return record
        crew = Crew(record.run_id, child=record.child)
        crew.stop(graces)
        return settle(held, crew)


def _wait_for_supervisor(folder: RunFolder, patience_s: float) -> None:
    deadline, asked = time.monotonic() + patience_s, None
    while (run := look(folder)) is not None and run.hands is not None:
        supervisor = run.record.runner if run.hands is Hands.SUPERVISOR else None
        if time.monotonic() >= deadline:
            _kill(folder, supervisor)
            return
        if supervisor is not None and supervisor != asked:
            tell(supervisor, SIGTERM)
            asked = supervisor
        time.sleep(POLL_S)


def _kill(folder: RunFolder, supervisor: Identity | None) -> None:
    """Kill a supervisor that did not end when it was asked to, and wait until the run is free."""
    if supervisor is None or supervisor.pid == os.getpid():
        raise RunBusy(f"the run {folder.path.name} is being launched or settled by another process; try again")
    tell(supervisor, SIGKILL)
    deadline = time.monotonic() + KILLED_S_MAX
    while is_alive(supervisor) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _hands(record: RunRecord, *, is_held: bool | None) -> Hands | None:
    runner = record.runner
    if is_held is False and record.state.is_final:
        return None
    if runner is not None and is_alive(runner):
        return Hands.SUPERVISOR
    if is_held:
        return Hands.WORKER if runner is None else Hands.SETTLEMENT
    return None


def _as_it_is(record: RunRecord, hands: Hands | None) -> RunRecord:
    """Return the record, vanished when it tells of a process that nobody follows any more."""
    if record.state.is_final or hands in {Hands.SUPERVISOR, Hands.WORKER}:
        return record
    return replace(
        record,
        state=State.VANISHED,
        termination_class=Ended.UNKNOWN if record.state is State.RUNNING else Ended.LAUNCH,
        termination_reason="the process that followed this run is gone; the next start, or baton runs kill, settles it",
    )
