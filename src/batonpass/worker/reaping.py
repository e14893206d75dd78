"""Finishing what others left: runs whose supervisor is gone are stopped and settled from their records."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from batonpass.client.config import ConfigError
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, RunId
from batonpass.core.runs import State
from batonpass.worker import boxfile
from batonpass.worker.config import disposable_in
from batonpass.worker.crew import Crew, is_alive
from batonpass.worker.errors import LaunchRefused, RunBusy, WorkerError
from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Harness
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.mirror import Mirror
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord
from batonpass.worker.worker import Worker


def reap(worker: Worker) -> tuple[RunRecord, ...]:
    """Settle every run whose worker is gone, drop old records, and return those that were taken up.

    What the server has not got of runs that are over is sent to it, in a few
    seconds or not at all (`worker.mirror`).
    """
    worker.journal.prune(worker.now(), retention=worker.settings.retention)
    for damaged in worker.journal.damaged():
        _set_aside(worker, damaged)
    taken_up = [take_up(worker, run) for run in worker.journal.unsettled()]
    Mirror(worker.graph, worker.now, refused=worker.unmirrored).catch_up(worker.journal)
    return tuple(record for record in taken_up if record is not None)


def take_up(worker: Worker, run: RunFolder) -> RunRecord | None:
    """Settle one run that was left; None when it is somebody's, settled by now, or can't be settled here."""
    return finish(Settler(worker.graph, worker.settings, worker.now), run, worker.say)


def take_up_item(settler: Settler, node: NodeId, *, say: Callable[[str], None]) -> None:
    """Settle what was left of runs on one item, so that what they hold is free and what they said is filed."""
    for run in Journal(settler.settings.home).unsettled():
        record = run.readable()
        if record is not None and record.node_id == node and record.server == settler.graph.server:
            finish(settler, run, say)


def finish(settler: Settler, run: RunFolder, say: Callable[[str], None]) -> RunRecord | None:
    """Settle one run that was left, as `take_up` does."""
    try:
        with run.locked() as held:
            record = held.read()
            if record.is_settled or _is_followed(record):
                return None
            say(f"{record.name or record.run_id}: settling the run {record.run_id}, which was left")
            knowing = _knowing(settler, record)
            settled = settle(knowing, held, Crew(record.run_id, child=record.child))
            say(told(settled))
            return settled
    except RunBusy:
        return None
    except (WorkerError, OSError) as error:
        # One run that can't be settled keeps neither the others nor new work waiting.
        say(f"{run.path.name}: not settled: {error}")
        return None


def _knowing(settler: Settler, record: RunRecord) -> Settler:
    """Return what settles a run that another worker may have begun: by that run's harness and repository."""
    home = settler.settings.home
    disposable = disposable_in(home, Path(record.repository))
    return replace(settler, settings=replace(settler.settings, disposable=disposable), adapter=partial(_adapter, home))


def _adapter(home: Path, name: str) -> Harness:
    """Return what reads the output of `name`, which may be a harness that only the home describes."""
    try:
        return registry.harness(name, boxfile.read(home, {}).declared.get(name))
    except (Invalid, ConfigError) as error:
        raise LaunchRefused(str(error)) from error


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
    return runner is not None and runner.pid != os.getpid() and is_alive(runner)


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
