"""The processes of a run: who they are, and how all of them are found and stopped.

What makes a run's processes *its*:

* every one inherits `BATON_RUN_MARK` in its environment, so it can be found
  in the process table though it has left the group, the session and the
  family (agent programs start their tools in new sessions);
* whatever was once seen below the child stays known, by pid *and* kernel start
  time: a number alone may be somebody else's by now, and is never signalled;
* where the caller has become a reaper of orphans, what the kernel hands it is
  the run's as well.

Nothing is started here: that is `worker/proc.py`'s.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

MARK: Final = "BATON_RUN_MARK"
"""The runs a process belongs to, outermost first, separated by colons."""
POLL_S: Final = 0.05
"""How often the process table is looked at while something is being stopped."""
_PROC: Final = Path("/proc")
_PR_SET_CHILD_SUBREAPER: Final = 36
_STATE, _PARENT, _USER, _SYSTEM, _STARTED, _STACK = 0, 1, 11, 12, 19, 25
_BOUNDS: Final = slice(45, 49)
"""Places in /proc/<pid>/stat, counted after the command's closing bracket; the last are where a program's arguments and
environment lie."""
_STAT_BYTES_MAX: Final = 4096
_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good: its number, when the kernel started it, and in which boot.

    `started` counts clock ticks since boot, which no change of the clock moves.
    """

    pid: int
    started: int
    boot: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: by its own exit code, or by a signal's name."""

    code: int | None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Graces:
    """Seconds a run's processes get after each signal, the politest first."""

    interrupt_s: float = 5.0
    terminate_s: float = 5.0
    kill_s: float = 5.0


def identify(pid: int) -> Identity | None:
    """Return who `pid` is, or None when no such process lives; one that only waits to be reaped does not."""
    process = _look_at(pid)
    return None if process is None or process.is_zombie else process.identity


def identify_self() -> Identity:
    """Return who this process is."""
    found = identify(os.getpid())
    assert found is not None
    return found


def identify_child(pid: int) -> Identity:
    """Return who `pid` is: a process that we started and have not waited for, whether it lives or has ended."""
    process = _look_at(pid)
    # Until somebody waits for it, even a process that has ended keeps its number.
    assert process is not None
    return process.identity


def is_alive(identity: Identity) -> bool:
    """Whether this very process lives, not another one that has its number now."""
    return identify(identity.pid) == identity


def tell(identity: Identity, number: signal.Signals) -> None:
    """Signal this very process, or nobody: not one that has its number by now, not one of somebody else's, never us."""
    if identity.pid != os.getpid():
        _send(identity, number)


def become_subreaper() -> bool:
    """Ask the kernel to hand orphaned descendants to this process; False where it can't.

    Only for a process that starts everything through `worker/proc.py`: whatever
    it is handed counts as a stray of its run (`proc.start` with ``adopts``).
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class Crew:
    """All processes of one run, as far as they can be proved to be its.

    `child` is the run's own child, where it is known. Looking costs one pass
    over the process table, so looking often finds what hides: a process seen
    once below the child is remembered after its parents are gone. A stranger's
    environment is read once, and again when it executes another program.
    """

    def __init__(self, mark: str, *, child: Identity | None = None, adopts: bool = False) -> None:
        self._mark = mark
        self._child = child
        self._adopts = adopts
        self._seen: set[Identity] = set() if child is None else {child}
        self._strangers: dict[Identity, bytes] = {}
        """The image of each process that was found without our mark."""

    def look(self) -> frozenset[Identity]:
        """Return the run's processes that live now."""
        return frozenset(process.identity for process in self._look())

    def cpu_s(self) -> float:
        """Return the seconds of processor time that the living processes have used so far."""
        return sum(process.cpu_s for process in self._look())

    def _look(self) -> list[_Process]:
        table = _table()
        self._reap(table.values())
        living = {pid: process for pid, process in table.items() if not process.is_zombie}
        kin = _ancestors(table)
        ours = {pid for pid, process in living.items() if pid not in kin and self._is_ours(process)}
        while grown := {pid for pid, process in living.items() if process.parent in ours} - ours - kin:
            ours |= grown
        self._seen = {living[pid].identity for pid in ours}
        # Who has gone is forgotten: the table is all that is remembered of.
        self._strangers = {
            process.identity: self._strangers[process.identity]
            for process in living.values()
            if process.identity in self._strangers
        }
        return [living[pid] for pid in ours]

    def stop(self, graces: Graces | None = None) -> frozenset[Identity]:
        """Stop every process of the run, politely first, and return those that would not die.

        SIGINT goes to the child's group, which is how agent programs are asked
        to wind up; SIGTERM and SIGKILL go to everything.
        """
        graces = graces or Graces()
        if self._child is not None and is_alive(self._child):
            self._signal(signal.SIGINT, graces.interrupt_s, group=self._child.pid)
        self._signal(signal.SIGTERM, graces.terminate_s)
        self._signal(signal.SIGKILL, graces.kill_s)
        return self.look()

    def _signal(self, number: signal.Signals, grace_s: float, *, group: int | None = None) -> None:
        """Signal every process of the run once, or of one group, and wait until all are gone or the grace is over."""
        deadline = time.monotonic() + grace_s
        told: set[Identity] = set()
        while concerned := {one for one in self.look() if group is None or _group(one.pid) == group}:
            # What was forked while we looked is met in the next round: a fork loses this race in the end.
            for identity in concerned - told:
                _send(identity, number)
            told |= concerned
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_S)

    def _is_ours(self, process: _Process) -> bool:
        if process.identity in self._seen:
            return True
        if self._adopts and process.parent == os.getpid():
            return True
        if process.image and self._strangers.get(process.identity) == process.image:
            return False
        # Read after the image: a program that took its place in between counts as not yet looked at.
        if self._mark in _marks(process.identity.pid):
            return True
        self._strangers[process.identity] = process.image
        return False

    def _reap(self, table: Iterable[_Process]) -> None:
        """Bury the orphans we were handed; the child itself is left to whoever waits for it."""
        if not self._adopts:
            return
        for process in table:
            if process.is_zombie and process.parent == os.getpid() and process.identity != self._child:
                with suppress(ChildProcessError):
                    os.waitpid(process.identity.pid, os.WNOHANG)


@dataclass(frozen=True, slots=True)
class _Process:
    identity: Identity
    parent: int
    is_zombie: bool
    cpu_s: float
    image: bytes = b""
    """Where the program it executes lies in its memory, and so which one it is; empty where that is hidden."""


def _send(identity: Identity, number: signal.Signals) -> None:
    """Signal this very process, or nobody: gone, somebody else's number, or not ours to signal."""
    with suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if is_alive(identity):
                os.kill(identity.pid, number)
            return
        handle = os.pidfd_open(identity.pid)
        try:
            # The handle is bound first and compared after: a number that was passed on in between can't match.
            if is_alive(identity):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _table() -> dict[int, _Process]:
    return {process.identity.pid: process for process in map(_look_at, _pids()) if process is not None}


def _pids() -> list[int]:
    if _PROC.is_dir():
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 — paths are not wanted
    import psutil  # a supervisor that does without it starts sooner

    return psutil.pids()


def _look_at(pid: int) -> _Process | None:
    """Return the process `pid` as the kernel describes it, or None when there is none."""
    if not _PROC.is_dir():
        return _look_without_proc(pid)
    # The command may hold blanks and brackets of its own; the last bracket ends it.
    fields = _read(f"{_PROC}/{pid}/stat", _STAT_BYTES_MAX).rpartition(b")")[2].split()
    if not fields:
        return None
    bounds = fields[_BOUNDS]
    return _Process(
        Identity(pid, int(fields[_STARTED]), _boot()),
        int(fields[_PARENT]),
        is_zombie=fields[_STATE] in {b"Z", b"X"},
        cpu_s=(int(fields[_USER]) + int(fields[_SYSTEM])) / _ticks_per_s(),
        image=b" ".join([fields[_STACK], *bounds]) if any(bound != b"0" for bound in bounds) else b"",
    )


def _look_without_proc(pid: int) -> _Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return _Process(
            Identity(pid, round(process.create_time() * 100), _boot()),
            process.ppid(),
            is_zombie=process.status() == psutil.STATUS_ZOMBIE,
            cpu_s=times.user + times.system,
        )
    except psutil.Error:
        return None


@cache
def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


@cache
def _boot() -> str:
    """Return what tells this boot from others; empty where the kernel has no name for it."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _ancestors(table: Mapping[int, _Process]) -> set[int]:
    """Return ourselves and whoever started us: never a run's to be stopped, marked or not."""
    found: set[int] = set()
    pid = os.getpid()
    while pid not in found and pid in table:
        found.add(pid)
        pid = table[pid].parent
    return found


def _marks(pid: int) -> list[str]:
    if not _PROC.is_dir():
        return _marks_without_proc(pid)
    entries = _read(f"{_PROC}/{pid}/environ").decode(errors="replace").split("\0")
    return [mark for entry in entries if entry.startswith(f"{MARK}=") for mark in entry[len(MARK) + 1 :].split(":")]


def _marks_without_proc(pid: int) -> list[str]:
    import psutil

    try:
        return psutil.Process(pid).environ().get(MARK, "").split(":")
    except (psutil.Error, OSError):
        return []


def _read(path: str, size_max: int | None = None) -> bytes:
    """Return a file of /proc, or nothing where it can't be read: gone, or somebody else's."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if size_max is not None:
            return os.read(handle, size_max)
        return b"".join(iter(lambda: os.read(handle, _CHUNK), b""))
    except OSError:
        return b""
    finally:
        os.close(handle)
