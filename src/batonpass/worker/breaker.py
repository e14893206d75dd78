"""A breaker for each harness: who was told that a service takes no work does not ask again at once (D22).

    closed ──a run ends for its environment──▶ open for 1 min, 2 min, … 1 h ──time passes──▶ half open
      ▲                                          ▲──────the trial ends for its environment──────┤
      └───────────────────────────── the trial comes to a good end ─────────────────────────────┘

Half open lets one run through, whose end decides. When the service itself said
when to come again, that is waited for if it is later.

**Who decides what.** The supervisor of a run notes how it ended (`note`), and
so for runs of every command; a worker asks before it takes anything (`admit`).
Both go through one file, `$BATON_HOME/breakers.json`, under a lock that the
kernel gives up with its process.

**What a crash leaves.** The old file or the new one. A trial whose worker died
is nobody's, and the next may try. A file that can't be read counts as none: the
price is one more run that fails for its environment, and costs its item nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from batonpass.core.ids import RunId
from batonpass.core.runs import Ended
from batonpass.worker.crew import Identity, identify_self, is_alive
from batonpass.worker.record import RunRecord, timestamp

FIRST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(hours=1)
RETRY_AT_MAX: Final = timedelta(days=7)
"""How far off a service's own word may be: beyond, it is taken for a slip."""
FILE: Final = "breakers.json"
LOCK: Final = "breakers.lock"


@dataclass(frozen=True, slots=True)
class Trial:
    """The run that is let through, and the worker that makes it."""

    run: RunId
    worker: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One harness's. It has opened `trips` times in a row, last at `opened_at`, and lets nothing through `until`.

    `trial` is the run that is let through to see whether it is over.
    """

    trips: int
    opened_at: datetime
    until: datetime
    why: str
    trial: Trial | None = None

    def is_open(self, now: datetime) -> bool:
        """Whether nothing is let through at all."""
        return now < self.until


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a harness takes no work now, and until when as far as that is known."""

    harness: str
    why: str
    until: datetime | None

    def __str__(self) -> str:
        """Return it for a person."""
        if self.until is None:
            return f"{self.harness}: {self.why}; one run is trying whether that is over"
        return f"{self.harness}: {self.why}; it is tried again at {timestamp(self.until)}"


def tripped(
    before: Breaker | None, *, now: datetime, began_at: datetime, why: str, retry_at: datetime | None
) -> Breaker:
    """Return the breaker after a run that `began_at` then has ended for its environment.

    A run that was on its way when the breaker opened says nothing new: many
    that fail together count once, though the latest word on when to come
    again counts for all.
    """
    asked = min(retry_at, now + RETRY_AT_MAX) if retry_at is not None else now
    if before is not None and began_at < before.opened_at:
        return replace(before, until=max(before.until, asked))
    trips = 1 if before is None else before.trips + 1
    return Breaker(trips=trips, opened_at=now, until=max(now + span(trips), asked), why=why)


def span(trips: int) -> timedelta:
    """Return how long a breaker stays open that has opened `trips` times in a row."""
    doublings = min(trips - 1, 10)  # 2^10 minutes are beyond the longest already
    return min(FIRST * (1 << doublings), LONGEST)


class Breakers:
    """The breakers of the box whose home this is."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def all(self) -> dict[str, Breaker]:
        """Return every harness's breaker that has opened, and not closed since."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self._home / FILE).read_bytes(), type=dict[str, Breaker])
        return {}

    def waiting(self, harness: str, now: datetime) -> Waiting | None:
        """Return why a harness is not to be asked for work now, or None when it may be; changes nothing."""
        return _waiting(harness, self.all().get(harness), now)

    def admit(self, harness: str, run: RunId, now: datetime) -> Waiting | None:
        """Return the same; when the breaker is half open, `run` is the trial from now on, unless it is retracted."""
        if harness not in self.all():
            return None
        with self._changing() as all_:
            breaker = all_.get(harness)
            if (waiting := _waiting(harness, breaker, now)) is not None or breaker is None:
                return waiting
            all_[harness] = replace(breaker, trial=Trial(run, identify_self()))
        return None

    def retract(self, harness: str, run: RunId) -> None:
        """Give up a trial that came to nothing."""
        if _tries(self.all().get(harness), run):
            with self._changing() as all_:
                breaker = all_.get(harness)
                if breaker is not None and _tries(breaker, run):
                    all_[harness] = replace(breaker, trial=None)

    def note(self, record: RunRecord, now: datetime) -> None:
        """Let the breaker of a run's harness know how the run's process ended; an `OSError` leaves all as it was."""
        failed = record.termination_class is Ended.ENVIRONMENT
        if not failed and record.harness not in self.all():
            return
        with self._changing() as all_:
            before = all_.get(record.harness)
            if failed:
                all_[record.harness] = tripped(
                    before,
                    now=now,
                    began_at=datetime.fromisoformat(record.created_at),
                    why=record.termination_reason or "a run ended for its environment",
                    retry_at=_moment(record.retry_at),
                )
            elif record.termination_class is Ended.COMPLETED:
                all_.pop(record.harness, None)
            elif before is not None and _tries(before, record.run_id):
                # It says nothing of the service: another may try.
                all_[record.harness] = replace(before, trial=None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Breaker]]:
        """Hold the file while the block lasts, and write what it made of it."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for one read and one write
            all_ = self.all()
            before = dict(all_)
            yield all_
            if all_ != before:
                coming = self._home / f"{FILE}.new"
                coming.write_bytes(msgspec.json.encode(all_))
                coming.rename(self._home / FILE)
        finally:
            os.close(lock)


def _waiting(harness: str, breaker: Breaker | None, now: datetime) -> Waiting | None:
    if breaker is None:
        return None
    if breaker.is_open(now):
        return Waiting(harness, breaker.why, breaker.until)
    if breaker.trial is not None and is_alive(breaker.trial.worker):
        return Waiting(harness, breaker.why, None)
    return None


def _tries(breaker: Breaker | None, run: RunId) -> bool:
    return breaker is not None and breaker.trial is not None and breaker.trial.run == run


def _moment(text: str | None) -> datetime | None:
    """Return a record's moment; one without an offset, or that is none, is no word at all."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(text) if text is not None else None
        return moment if moment is not None and moment.tzinfo is not None else None
    return None
