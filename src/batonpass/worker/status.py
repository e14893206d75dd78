"""What a worker is at, for whoever asks: one file for each worker under `$BATON_HOME/work` (companion 9.3).

    $BATON_HOME/work/<worker id>.json

A worker writes its own and nobody else's, whole or not at all. A file alone
proves nothing: `workers` holds each against the kernel, and one whose process
is gone without having said so is stale. What is cut off a list is counted.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from batonpass.core.outcome import Terminal
from batonpass.worker.crew import Identity, identify_self, is_alive
from batonpass.worker.record import RunRecord, timestamp
from batonpass.worker.select import Kind, Skipped
from batonpass.worker.shift import Phase, Shift

FOLDER: Final = "work"
RETENTION_S: Final = 7 * 86_400.0
"""How long the file of a worker that is gone stays."""
SKIPPED_MAX: Final = 50
RECENT_MAX: Final = 20
AFRESH_S: Final = 30.0
"""How often the file is written although nothing has changed, so that `updated_at` says something."""
STALE: Final = "stale"
_CHEAP: Final = (Kind.POLICY, Kind.LEASED, Kind.BLOCKED, Kind.ASSIGNED_ELSEWHERE, Kind.HUMAN)
"""Kinds that the next look finds again by itself; they are the first to go where there is no room."""


class Skip(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An item that is left alone; `until` is when it is looked at again, where that is known."""

    id: str
    reason: str
    kind: str
    at: str
    until: str | None = None


class Active(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run on its way; `adopted` was begun by a worker that is gone."""

    run_id: str
    node_id: str | None
    harness: str
    since: str
    adopted: bool = False


class Recent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run that is over."""

    run_id: str
    node_id: str | None
    state: str
    terminal_state: str | None = None
    finished_at: str | None = None


class Status(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One worker. `why` says what it waits for, or why it doesn't know what there is to do."""

    worker_id: str
    pid: int
    started_ticks: int
    boot: str
    server: str
    state: str
    accept: str
    concurrency: int
    interval_ms: int
    max_interval_ms: int
    max: int
    once: bool
    started_at: str
    updated_at: str
    project: str | None = None
    harness: str | None = None
    folder: str | None = None
    why: str = ""
    dispatched: int = 0
    outcomes: dict[str, int] = {}
    active: list[Active] = []
    recent: list[Recent] = []
    recent_total: int = 0
    skipped: list[Skip] = []
    skipped_total: int = 0
    queue_goes_on: bool = False
    next_poll_at: str | None = None
    stopped_at: str | None = None
    stop_reason: str | None = None

    @property
    def identity(self) -> Identity:
        """Which process it is, or was."""
        return Identity(self.pid, self.started_ticks, self.boot)


@dataclass(slots=True)
class Board:
    """Writes one worker's status whenever it is told that something may have changed; it never raises."""

    home: Path
    started_at: datetime
    _last: bytes = b""
    _written_s: float = float("-inf")
    _identity: Identity = field(default_factory=identify_self)

    def note(self, shift: Shift) -> None:
        """Write what the shift is at, unless it is what stands there already."""
        status = status_of(shift, identity=self._identity, started_at=self.started_at)
        now_s = shift.worker.clock()
        told = msgspec.json.encode(msgspec.structs.replace(status, updated_at="", next_poll_at=None))
        if told == self._last and now_s < self._written_s + AFRESH_S:
            return
        with suppress(OSError):
            _put(self.home / FOLDER / f"{status.worker_id}.json", msgspec.json.encode(status))
            self._last, self._written_s = told, now_s


def status_of(shift: Shift, *, identity: Identity, started_at: datetime) -> Status:
    """Return what a shift is at."""
    worker, pace = shift.worker, shift.pace
    now, now_s = worker.now(), worker.clock()

    def moment(at_s: float) -> str:
        return timestamp(now + timedelta(seconds=at_s - now_s))

    stopped = shift.phase is Phase.STOPPED
    return Status(
        worker_id=worker.id,
        pid=identity.pid,
        started_ticks=identity.started,
        boot=identity.boot,
        server=worker.graph.server,
        state=shift.phase,
        accept=worker.settings.accept,
        concurrency=pace.concurrency,
        interval_ms=round(pace.interval_s * 1000),
        max_interval_ms=round(pace.max_interval_s * 1000),
        max=pace.max_runs,
        once=pace.once,
        started_at=timestamp(started_at),
        updated_at=timestamp(now),
        project=worker.order.project,
        harness=worker.order.harness,
        folder=str(worker.order.folder),
        why=shift.why,
        dispatched=shift.taken,
        outcomes=_outcomes(shift.records),
        active=[_active(slot.record, adopted=False) for slot in shift.slots]
        + [_active(one.record, adopted=True) for one in shift.adopted],
        recent=[_recent(record) for record in reversed(shift.records[-RECENT_MAX:])],
        recent_total=len(shift.records),
        skipped=[
            Skip(
                id=one.item,
                reason=one.reason,
                kind=one.kind,
                at=timestamp(now),
                until=None if one.until_s is None else moment(one.until_s),
            )
            for one in shown(shift.choice.skipped)
        ],
        skipped_total=len(shift.choice.skipped),
        queue_goes_on=shift.choice.more,
        next_poll_at=None if stopped else moment(shift.next_look_s),
        stopped_at=timestamp(now) if stopped else None,
        stop_reason=shift.stop_reason if stopped else None,
    )


def shown(skipped: Sequence[Skipped]) -> list[Skipped]:
    """Return at most `SKIPPED_MAX` of them in their order; those that are found again by themselves go first."""
    if len(skipped) <= SKIPPED_MAX:
        return list(skipped)
    dear = [one for one in skipped if one.kind not in _CHEAP][:SKIPPED_MAX]
    room = SKIPPED_MAX - len(dear)
    cheap = [one for one in skipped if one.kind in _CHEAP][:room]
    kept = {id(one) for one in (*dear, *cheap)}
    return [one for one in skipped if id(one) in kept]


def workers(home: Path) -> list[Status]:
    """Return the workers of this box that are known of, the latest first; a dead one that said no farewell is stale."""
    found = [status for path in sorted((home / FOLDER).glob("*.json")) if (status := _read(path)) is not None]
    return sorted(map(as_it_is, found), key=lambda status: status.started_at, reverse=True)


def as_it_is(status: Status) -> Status:
    """Return the status, stale when its process is gone, or another has its number, and it did not say that it ends."""
    if status.stopped_at is not None or is_alive(status.identity):
        return status
    return msgspec.structs.replace(
        status, state=STALE, why="its process is gone; the next worker to start settles what it left"
    )


def prune(home: Path) -> None:
    """Remove the files of workers that are long gone, and what a crash left half-written."""
    for path in (*(home / FOLDER).glob("*.json"), *(home / FOLDER).glob(".*.new")):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < RETENTION_S:
                continue
            status = _read(path)
            if status is None or not is_alive(status.identity):
                path.unlink()


def as_document(status: Status) -> dict[str, Any]:
    """Return a status as programs read it."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    return document


def _read(path: Path) -> Status | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Status)
    return None


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    coming = path.with_name(f".{path.name}.new")
    handle = os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    coming.rename(path)


def _outcomes(records: Sequence[RunRecord]) -> dict[str, int]:
    counts: Mapping[str, int] = Counter(
        str(record.terminal_state) if record.terminal_enforced is not False else "unenforced"
        for record in records
        if record.terminal_state is not None
    )
    return {name: counts.get(name, 0) for name in (*Terminal, "unenforced")}


def _active(record: RunRecord, *, adopted: bool) -> Active:
    return Active(
        run_id=record.run_id,
        node_id=record.node_id,
        harness=record.harness,
        since=record.created_at,
        adopted=adopted,
    )


def _recent(record: RunRecord) -> Recent:
    return Recent(
        run_id=record.run_id,
        node_id=record.node_id,
        state=record.state,
        terminal_state=record.terminal_state,
        finished_at=record.finished_at,
    )
