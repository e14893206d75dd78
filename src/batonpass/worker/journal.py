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
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from batonpass.core import reports
from batonpass.core.ids import AgentId, NodeId, PersonId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.points import reach
from batonpass.worker.crew import Identity
from batonpass.worker.errors import FileDamaged, RecordMoved, RunBusy
from batonpass.worker.git import Sha

REPORT_BYTES_MAX: Final = 1024 * 1024
"""How much of a final report is taken; of a longer one, its head."""
RETENTION: Final = timedelta(days=14)
"""How long a settled run's folder stays unless the box says otherwise (`dispatch.runRetentionMs`, D43)."""
PLAIN: Final = "command"
"""The harness of a plain command: all that it prints is its last word, as far as it leaves no report."""
LEFTOVER_S_MIN: Final = 3600.0
"""How old a half-made folder must be before it counts as left: the making of one takes milliseconds."""


T = TypeVar("T")


class State(StrEnum):
    """How far the process of a run is; the last four are final."""

    LAUNCHING = "launching"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    FAILED_LAUNCH = "failed_launch"
    VANISHED = "vanished"

    @property
    def is_final(self) -> bool:
        """Whether the process is over."""
        return self not in {State.LAUNCHING, State.RUNNING}


class Ended(StrEnum):
    """Why a process ended, in broad classes; readers must expect others."""

    COMPLETED = "completed"
    ENVIRONMENT = "environment"
    LAUNCH = "launch"
    FAILED = "failed"
    IDLE = "idle"
    UNKNOWN = "unknown"


class Stopped(StrEnum):
    """Why a worker itself stopped a run's process."""

    IDLE = "idle"
    MAX = "max"
    LEASE_LOST = "lease_lost"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything known of one run. Moments are ISO 8601 with an offset; paths are absolute.

    The first group is the process: `failure` is a `Trouble` of its harness,
    `usage` counts tokens, `cost_usd` is the program's own figure. The second is
    what is needed to take the run up again after a crash: `worker` is the
    process that dispatched it, `runner` the supervisor that owns it,
    `borrowed_epoch` the tenure that stood on the item before this run was sent
    for, `mirrored_at` when the server last got all of this. The third is its outcome,
    which is absent until the run was settled.
    """

    run_id: RunId
    node_id: NodeId | None
    name: str | None
    harness: str
    launch_mode: str = "supervised-jsonl"
    state: State = State.LAUNCHING
    cwd: str
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    termination_class: Ended | None = None
    termination_reason: str | None = None
    session_id: str | None = None
    log_path: str | None = None
    report_path: str | None = None
    stopped_for: Stopped | None = None
    failure: str | None = None
    retry_at: str | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    denied: int | None = None
    profile: str | None = None
    read_only: bool | None = None
    instructions: str | None = None

    host: str | None = None
    worker_id: str | None = None
    worker: Identity | None = None
    mirrored_at: str | None = None
    attempt: int = 0
    server: str
    incarnation: str | None = None
    project: str | None = None
    title: str | None = None
    node_type: str | None = None
    agent: AgentId
    owner: PersonId | None = None
    dispatch: str
    epoch: int | None = None
    borrowed_epoch: int | None = None
    lease_lost: bool = False
    token_prefix: str | None = None
    repository: str
    worktree: str | None = None
    branch: str | None = None
    base: Sha
    runner: Identity | None = None
    child: Identity | None = None

    terminal_state: Terminal | None = None
    terminal_enforced: bool | None = None
    terminal_note: str | None = None
    terminal_unreachable: bool | None = None
    resolved_by: NodeId | None = None
    resolved_edge: str | None = None
    report_node_id: NodeId | None = None
    finding_node_id: NodeId | None = None
    declined_reason: str | None = None
    readiness_cleared: bool | None = None
    lease_released: bool | None = None
    commits: int | None = None
    worktree_kept: tuple[str, ...] | None = None
    contract_pending: bool = True
    pending_for: str | None = None
    contract_settled_at: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for this run."""
        return not self.contract_pending


_NULLABLE: Final = frozenset("node_id name exit_code signal session_id".split())
"""Keys that are null rather than absent while they have no value."""


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


class _AnyRecord(msgspec.Struct):
    """What a record of any version has."""

    run_id: RunId


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
        dated = [(record.created_at, run) for run in self._folders() if (record := run.readable()) is not None]
        return tuple(run for _, run in sorted(dated, key=lambda pair: (pair[0], pair[1].path.name)))

    def unsettled(self) -> tuple[RunFolder, ...]:
        """Return the runs that somebody is at work on, or that somebody has to finish."""
        return tuple(run for run in self.runs() if (record := run.readable()) is not None and not record.is_settled)

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
        return _decoded(self.record.read_bytes(), RunRecord)

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
            _decoded(self.record.read_bytes(), _AnyRecord)
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
        _put(self.record, _encode_record(record))

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


def timestamp(now: datetime) -> str:
    """Return `now` as records have it: ISO 8601 with milliseconds, in UTC."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds")


def as_json(record: RunRecord) -> dict[str, Any]:
    """Return the record as programs read it; what has no value yet is left out, or null where the contract says so.

    What is no text in it, a byte of a path say, is shown as U+FFFD: no reader of JSON has to take a lone surrogate.
    """
    text = json.dumps(_builtins(record), ensure_ascii=False).encode("utf-16", "surrogatepass")
    told: dict[str, Any] = json.loads(text.decode("utf-16", "replace"))
    return told


def _builtins(record: RunRecord) -> dict[str, Any]:
    return {
        field.name: msgspec.to_builtins(value)
        for field in fields(record)
        if (value := getattr(record, field.name)) is not None or field.name in _NULLABLE
    }


def _encode_record(record: RunRecord) -> bytes:
    """Return the record as a file: every string comes back as it was, also a path that is not UTF-8."""
    told = _builtins(record)
    try:
        data = json.dumps(told, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        data = json.dumps(told, indent=2).encode()
    return data + b"\n"


def _decoded(data: bytes, kind: type[T]) -> T:
    """Return what a file holds; `msgspec.DecodeError` when that is no `kind`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError:
        # Python's own reader takes the lone surrogates that stand for what was no text.
        try:
            return msgspec.convert(json.loads(data), type=kind)
        except (ValueError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from error


def _is_done_with(record: RunRecord, *, since: datetime) -> bool:
    """Whether the run has been settled since then at the latest, and nobody needs this very record any more."""
    settled = record.contract_settled_at
    if not record.is_settled or settled is None or datetime.fromisoformat(settled) > since:
        return False
    is_elsewhere = record.mirrored_at is not None or record.node_id is None
    return is_elsewhere and not record.worktree_kept


def _head(path: Path) -> str:
    """Return the beginning of a regular file as text; nothing when there is none.

    The child chooses what stands there, so a pipe that nobody writes to must
    not stop us.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return ""
    with os.fdopen(handle, "rb") as file:
        data = file.read(REPORT_BYTES_MAX + 1)
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
