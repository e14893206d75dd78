"""Run records on disk: one folder for each run, readable by its owner only.

    $BATON_HOME/runs/<run id>/
        run.json     the record: what was launched, how it ended, what that did to the graph
        spool.json   the final report, from the moment it is known until the record is settled
        report.md    where the child may write its report ($BATON_REPORT)
        final.md     what an agent program's agent said last, as far as it is no error
        output.log   the child's standard output, byte for byte
        errors.log   its standard error
        home/        the child's $BATON_HOME
        *.damaged    one of the first two that couldn't be read any more, set aside
        lock         held by whoever runs or settles the run

**Who decides what.** Whoever holds the lock; the kernel gives it up with its
process. The record is changed by compare-and-swap on (state, attempt): what
was based on an older record is refused, so a settlement that was overtaken
can't undo the one that overtook it.

**What a crash leaves.** Every file is written beside its place, flushed, and
renamed into it: a reader sees the old one or the new one. A run's folder
appears with its record already in it. No secret is ever written here.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from batonpass.core import reports
from batonpass.core.ids import AgentId, NodeId, RunId
from batonpass.core.points import reach
from batonpass.worker.errors import FileDamaged, RecordMoved, RunBusy
from batonpass.worker.record import PLAIN, AnyRecord, RunRecord, decoded, encoded

REPORT_BYTES_MAX: Final = 1024 * 1024
"""How much of a final report is taken; of a longer one, its head."""
RETENTION: Final = timedelta(days=14)
"""How long a settled run's folder stays unless the box says otherwise (`dispatch.runRetentionMs`, D43)."""
LEFTOVER_S_MIN: Final = 3600.0
"""How old a half-made folder must be before it counts as left: the making of one takes milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """A report on its way to the graph: whose it is, and the only place it may be delivered to (D20)."""

    server: str
    incarnation: str | None
    run_id: RunId
    agent: AgentId
    node: NodeId
    epoch: int | None
    spooled_at: str
    text: str


class Journal:
    """The run folders under one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "runs"

    @contextmanager
    def create(self, record: RunRecord) -> Iterator[HeldRun]:
        """Make a run's folder with its record in it, and hold it while the block lasts; an `OSError` leaves nothing.

        The lock is taken before the folder can be seen: nobody finds a run
        that looks as if it had been left.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        coming, path = self.folder / f".{record.run_id}.new", self.folder / record.run_id
        coming.mkdir(mode=0o700)
        with ExitStack() as stack:
            try:
                run = stack.enter_context(RunFolder(coming).locked())
                run.home.mkdir(mode=0o700)
                run.write(record)
                coming.rename(path)
                _flush(self.folder)
            except OSError:
                shutil.rmtree(coming, ignore_errors=True)
                raise
            reach("record.written")
            yield HeldRun(path, run.lock)

    def runs(self) -> tuple[RunFolder, ...]:
        """Return every run's folder, the oldest first; one whose record can't be read is passed over."""
        return tuple(run for run, _ in self.records())

    def records(self) -> tuple[tuple[RunFolder, RunRecord], ...]:
        """Return every run's folder with its record as it is now, in the same order."""
        known = [(run, record) for run in self._folders() if (record := run.readable()) is not None]
        return tuple(sorted(known, key=lambda pair: (pair[1].created_at, pair[0].path.name)))

    def unsettled(self) -> tuple[RunFolder, ...]:
        """Return the runs that somebody is at work on, or that somebody has to finish."""
        return tuple(run for run, record in self.records() if not record.is_settled)

    def damaged(self) -> tuple[RunFolder, ...]:
        """Return the runs whose record was cut off, emptied or overwritten; `runs` passes over them."""
        return tuple(run for run in self._folders() if run.is_damaged)

    def prune(self, now: datetime, *, retention: timedelta = RETENTION) -> tuple[RunId, ...]:
        """Remove runs that were settled `retention` ago or earlier, and what crashes left half-made; return those runs.

        A run that keeps its worktree stays, whatever its age, and so does one
        whose record the server has not got: this is the only one then.
        """
        gone = []
        for run in self.runs():
            with suppress(OSError, RunBusy, msgspec.MsgspecError, ValueError), run.locked() as held:
                record = held.read()
                if _is_done_with(record, since=now - retention):
                    held.forget()
                    gone.append(record.run_id)
        for rest in self._leftovers():
            with suppress(OSError):
                if now.timestamp() - rest.stat().st_mtime >= LEFTOVER_S_MIN:
                    shutil.rmtree(rest)
        return tuple(gone)

    def _folders(self) -> tuple[RunFolder, ...]:
        with suppress(FileNotFoundError):
            names = sorted(entry.name for entry in os.scandir(self.folder) if not entry.name.startswith("."))
            return tuple(RunFolder(self.folder / name) for name in names)
        return ()

    def _leftovers(self) -> tuple[Path, ...]:
        """Return folders that were being made or removed when their process died."""
        return (*self.folder.glob(".*.new"), *self.folder.glob(".*.old"))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @property
    def record(self) -> Path:
        """The record."""
        return self.path / "run.json"

    @property
    def log(self) -> Path:
        """The child's standard output."""
        return self.path / "output.log"

    @property
    def errors(self) -> Path:
        """The child's standard error."""
        return self.path / "errors.log"

    @property
    def report(self) -> Path:
        """Where the child may leave its report."""
        return self.path / "report.md"

    @property
    def final(self) -> Path:
        """What the run's agent said last, once its program has told that."""
        return self.path / "final.md"

    @property
    def home(self) -> Path:
        """The child's own home for our client: no credentials, no other run."""
        return self.path / "home"

    @contextmanager
    def locked(self) -> Iterator[HeldRun]:
        """Hold the run for as long as the block lasts; `RunBusy` when another process holds it."""
        with self._lock_file("lock") as handle:
            if not _lock(handle):
                raise self._busy()
            yield HeldRun(self.path, handle)

    @contextmanager
    def handed_over(self, lock: int) -> Iterator[HeldRun]:
        """Hold the run by the open file that another process locked and gave to us; it is closed at the end.

        A lock belongs to the open file, not to a process: there is no moment
        at which the run looks left. `RunBusy` when `lock` is not what holds it.
        """
        os.set_inheritable(lock, False)  # noqa: FBT003 — the function has no keyword for it
        try:
            is_the_runs = os.path.samestat(os.fstat(lock), (self.path / "lock").stat())
            if not is_the_runs or not _lock(lock):
                raise self._busy()
            yield HeldRun(self.path, lock)
        finally:
            os.close(lock)

    def _busy(self) -> RunBusy:
        return RunBusy(f"the run {self.path.name} is being run or settled by another process")

    def is_held(self) -> bool | None:
        """Whether some process holds the run now; None where the file system can't tell.

        A shared lock is asked for and given back at once: who wants the run in
        that moment finds it busy, and comes again.
        """
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
        finally:
            os.close(handle)
        return False

    def read(self) -> RunRecord:
        """Return the record as it is now."""
        return decoded(self.record.read_bytes(), RunRecord)

    def readable(self) -> RunRecord | None:
        """Return the record, or None when it is gone or not one that this version can read."""
        with suppress(OSError, msgspec.MsgspecError):
            return self.read()
        return None

    def final_text(self) -> str:
        """Return what the run said last: its report file if that holds anything, else its agent's last message.

        A plain command's last message is its standard output; an agent
        program's is `final.md`, since its output is a stream of events. The
        head of it, when it is longer than 1 MiB. Bytes that are not UTF-8
        become U+FFFD, and no token of ours is left in it.
        """
        record = self.readable()
        is_plain = record is None or record.harness == PLAIN
        places = (self.report, self.final, *((self.log,) if is_plain else ()))
        texts = (reports.storable(_head(place)) for place in places)
        return next(filter(reports.is_usable, texts), "")

    def spooled(self) -> Spooled | None:
        """Return the report that waits here, or None; `FileDamaged` when it can't be read any more."""
        path = self.path / "spool.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Spooled)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise FileDamaged(path) from error

    @property
    def is_damaged(self) -> bool:
        """Whether a record is there that is none: no version writes one that doesn't say which run it is."""
        try:
            decoded(self.record.read_bytes(), AnyRecord)
        except OSError:
            return False
        except msgspec.MsgspecError:
            return True
        return False

    @contextmanager
    def _lock_file(self, name: str) -> Iterator[int]:
        handle = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class HeldRun(RunFolder):
    """A run's folder under its lock; only who holds it may change it.

    Made by `RunFolder.locked`, `RunFolder.handed_over` and `Journal.create`,
    and good inside their blocks. `lock` is the open file that is locked, which
    can be handed to a process that is to hold the run from then on.
    """

    lock: int

    def write(self, record: RunRecord) -> None:
        """Put the record in its place, whatever was there: for a folder nobody knows of yet."""
        _put(self.record, encoded(record))

    def change(self, before: RunRecord, **changes: Any) -> RunRecord:  # noqa: ANN401 — checked by `replace`, field by field
        """Return the record with `changes`, written; `RecordMoved` when it is not `before`'s any more."""
        with self._lock_file("record.lock") as handle:
            # Held for one read and one write, so waiting for it is short.
            fcntl.flock(handle, fcntl.LOCK_EX)
            now = self.read()
            if (now.state, now.attempt) != (before.state, before.attempt):
                raise RecordMoved(
                    f"the record of run {before.run_id} is at {now.state}, attempt {now.attempt};"
                    f" the change was based on {before.state}, attempt {before.attempt}"
                )
            after = replace(now, **changes)
            self.write(after)
            return after

    def keep_final(self, text: str) -> None:
        """Keep what the run's agent said last, so that whoever settles the run finds it."""
        _put(self.final, text.encode(errors="replace"))

    def spool(self, entry: Spooled) -> None:
        """Keep a report until it is filed; when this returns, a crash can't lose it."""
        coming = self.path / "spool.json.new"
        _write_flushed(coming, msgspec.json.encode(entry))
        reach("spool.tmp")
        coming.rename(self.path / "spool.json")
        _flush(self.path)
        reach("spool.renamed")

    def set_aside(self, path: Path) -> Path:
        """Give a damaged file of this run another name, for a person to look at, and return that."""
        aside = path.with_name(path.name + ".damaged")
        path.rename(aside)
        _flush(self.path)
        return aside

    def forget(self) -> None:
        """Remove the folder of a run that never was: nothing was taken and nothing started for it."""
        going = self.path.with_name(f".{self.path.name}.old")
        self.path.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def _is_done_with(record: RunRecord, *, since: datetime) -> bool:
    """Whether the run has been settled since then at the latest, and nobody needs this very record any more."""
    settled = record.contract_settled_at
    if not record.is_settled or settled is None or datetime.fromisoformat(settled) > since:
        return False
    is_elsewhere = record.mirrored_at is not None or record.node_id is None
    return is_elsewhere and not record.worktree_kept


def read_regular(path: Path, *, size: int, offset: int = 0) -> bytes:
    """Return at most `size` bytes of a file that a child may have written; nothing where no regular file is.

    The child chooses what stands there, so a pipe that nobody writes to must
    not stop us.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b""
    with os.fdopen(handle, "rb") as file:
        file.seek(offset)
        return file.read(size)


def _head(path: Path) -> str:
    """Return the beginning of a regular file as text; nothing when there is none."""
    data = read_regular(path, size=REPORT_BYTES_MAX + 1)
    # Not final: half a character at the cut is dropped, not shown as damage.
    is_whole = len(data) <= REPORT_BYTES_MAX
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data[:REPORT_BYTES_MAX], final=is_whole)


def _lock(handle: int) -> bool:
    """Lock the open file, and return whether that went; it does at once for a file that is locked by itself."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _put(path: Path, data: bytes) -> None:
    coming = path.with_name(path.name + ".new")
    _write_flushed(coming, data)
    coming.rename(path)
    _flush(path.parent)


def _write_flushed(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)


def _flush(folder: Path) -> None:
    """Make a rename in `folder` outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
