"""What a run costs the box it is made on: processor time and memory while it goes on, and how soon it has begun."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import psutil

from batonpass.client.client import Client
from batonpass.worker.app import run_once
from batonpass.worker.dispatch.handover import ByProcess
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings
from bench import stamps
from bench.box import Box, box
from bench.percentiles import percentile
from bench.served import MIB, cpu_s
from bench.shifts import CHILD, NS_PER_MS, Shift, shift

IDLE_RUNS: Final = 4
SETTLED_S: Final = 3.0
"""How long after its start a run is left alone before anything of it is measured."""
EVENTS_PER_S: Final = 1_000
CONCURRENCIES: Final = (1, 4)
MS: Final = 1_000
PARTS: Final = (
    ("look and choose", "claim.nonce_written"),
    ("claim", "claim.answered"),
    ("supervisor starts", "lease.taken"),
    ("token", "token.minted"),
    ("worktree", "worktree.added"),
    ("prompt, and the child is forked", "child.started"),
    ("child's interpreter", "child"),
)
"""The parts of a start in their order, each with the point that ends it."""
PROGRAM: Final = """\
#!{python} -S
import json, os, sys, time

def line(number):
    use = {{"type": "tool_use", "id": f"tool_{{number}}", "input": {{"text": "x" * 120}}}}
    message = {{"id": "msg_1", "content": [use]}}
    said = {{"type": "assistant", "session_id": "5e551011-0000-4000-8000-000000000000", "message": message}}
    if number % 2:
        result = {{"type": "tool_result", "tool_use_id": f"tool_{{number - 1}}", "content": "y" * 120}}
        said = {{**said, "type": "user", "message": {{"content": [result]}}}}
    return json.dumps(said) + "\\n"

number, began = 0, time.monotonic()
while not os.path.exists({stop!r}):
    due = int((time.monotonic() - began) * {rate})
    sys.stdout.write("".join(map(line, range(number, due))))
    sys.stdout.flush()
    number = due
    time.sleep(0.01)
sys.stdout.write(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "Done."}}) + "\\n")
"""
"""An agent program that calls tools, `rate` events a second, until the file `stop` is there."""


@dataclass(frozen=True, slots=True)
class Care:
    """How long a run is watched that goes on, and how many items are begun at each concurrency."""

    seconds: float
    items: int


WHOLE_CARE: Final = Care(seconds=32.0, items=32)
"""Longer than the longest pause of a supervisor, but for renewals."""
QUICK_CARE: Final = Care(seconds=4.0, items=4)


class Keep(msgspec.Struct):
    """What one process takes while a run goes on, beside an interpreter that only sleeps.

    `events_per_s` is None for a run that says nothing; `event_us` is what the
    process took for one event, and `decode_us` what parsing its JSON takes alone.
    """

    what: str
    processes: int
    """How many processes were measured; the figures are medians of them."""
    cpu_ms_per_minute: float
    pss_mib: float
    uss_mib: float
    python_uss_mib: float
    table: int
    """How many processes the machine ran: they are looked at."""
    events_per_s: float | None = None
    event_us: float | None = None
    decode_us: float | None = None


class Part(msgspec.Struct):
    """One step of a start."""

    what: str
    p50_ms: float
    p99_ms: float


class Begin(msgspec.Struct):
    """From an item that is made ready to its run's child at work, beside what git and the kernel take for theirs."""

    concurrency: int
    items: int
    p50_ms: float
    p99_ms: float
    parts: list[Part]
    worktree_ms: float
    """`git worktree add` in a clone of the repository, meanwhile; then the starts of processes that do nothing."""
    python_ms: float
    true_ms: float
    ratio: float
    """The median over `git worktree add` and the start of one interpreter together, each of the same moment."""


class Overhead(msgspec.Struct):
    """All of the group."""

    keeps: list[Keep]
    begins: list[Begin]
    shifts: list[Shift]


@dataclass(frozen=True, slots=True)
class Bare:
    """What git and the kernel took, in milliseconds, right before an item was made ready."""

    worktree_ms: float
    python_ms: float
    true_ms: float


@dataclass(frozen=True, slots=True)
class Start:
    """One item: at which nanosecond it was ready, and each part was over; and the bare costs of that moment."""

    ready_at: int
    stamps: dict[str, int]
    bare: Bare

    def part_ms(self) -> list[float]:
        """Return how long each part took."""
        ends = [self.ready_at, *(self.stamps[point] for _, point in PARTS)]
        return [(end - begin) / NS_PER_MS for begin, end in pairwise(ends)]

    @property
    def whole_ms(self) -> float:
        """Return how long it took from ready to the child's first step."""
        return (self.stamps["child"] - self.ready_at) / NS_PER_MS


def overhead(folder: Path, care: Care) -> Overhead:
    """Measure all of it on a box in `folder`."""
    with box(folder / "worker") as here:
        keeps = [*_idle(here, care.seconds), *_busy(here, care.seconds)]
        begins = [_begins(here, concurrency, care.items) for concurrency in CONCURRENCIES]
        shifts = [shift(here, slots, max(care.items // 2, slots)) for slots in CONCURRENCIES]
    return Overhead(keeps, begins, shifts)


def begin_of(concurrency: int, starts: Sequence[Start]) -> Begin:
    """Return the figure of what was begun."""
    whole = [start.whole_ms for start in starts]
    parts = zip(*(start.part_ms() for start in starts), strict=True)
    return Begin(
        concurrency=concurrency,
        items=len(starts),
        p50_ms=median(whole),
        p99_ms=percentile(whole, 99),
        parts=[Part(what, median(took), percentile(took, 99)) for (what, _), took in zip(PARTS, parts, strict=True)],
        worktree_ms=median(start.bare.worktree_ms for start in starts),
        python_ms=median(start.bare.python_ms for start in starts),
        true_ms=median(start.bare.true_ms for start in starts),
        ratio=median(start.whole_ms / (start.bare.worktree_ms + start.bare.python_ms) for start in starts),
    )


# What goes on


def _idle(here: Box, seconds: float) -> Iterator[Keep]:
    """Measure workers and supervisors of runs whose children wait for a pipe that nobody opens until the end."""
    pipe = here.folder / "pipe"
    os.mkfifo(pipe)
    with ExitStack() as stack:
        names = [f"idle-{number}" for number in range(IDLE_RUNS)]
        command = ("--", "cat", str(pipe))
        waiting = stack.enter_context(here.waiting("waiting", IDLE_RUNS, ("true",)))
        workers = [stack.enter_context(here.working(name, command)) for name in names]
        stack.callback(_let_go, pipe)
        for name in names:
            here.running(name)
        supervisors = [child for worker in workers for child in worker.children()]
        groups = {"worker that waits": [waiting], "worker, a run each": workers, "supervisor, idle run": supervisors}
        yield from _watched(groups, seconds)


def _busy(here: Box, seconds: float) -> Iterator[Keep]:
    """Measure the supervisor of a run whose agent program says a thousand things a second."""
    stop = here.folder / "stop"
    program = here.folder / "claude"
    program.write_text(PROGRAM.format(python=sys.executable, stop=str(stop), rate=EVENTS_PER_S))
    program.chmod(0o700)
    with ExitStack() as stack:
        args = ("--harness", "claude-code")
        worker = stack.enter_context(here.working("busy", args, BATON_CLAUDE_CMD=str(program)))
        stack.callback(stop.touch)
        log = here.running("busy").log
        supervisors = worker.children()
        lines_before, began_s = _lines(log), time.monotonic()
        (keep,) = _watched({"supervisor, busy run": supervisors}, seconds, settle_s=0.0)
        lines, took_s = _lines(log) - lines_before, time.monotonic() - began_s
        keep.events_per_s = lines / took_s
        keep.event_us = keep.cpu_ms_per_minute / 60 / keep.events_per_s * MS
        keep.decode_us = _decode_us(log)
        yield keep


def _let_go(pipe: Path) -> None:
    """Let those go on who wait for somebody to open the pipe."""
    os.close(os.open(pipe, os.O_RDWR))


def _watched(groups: dict[str, list[psutil.Process]], seconds: float, *, settle_s: float = SETTLED_S) -> Iterator[Keep]:
    """Return what each process of each group took in `seconds`, in the median."""
    time.sleep(settle_s)
    began_s = time.monotonic()
    before = {what: [cpu_s(process) for process in processes] for what, processes in groups.items()}
    time.sleep(seconds)
    minutes = (time.monotonic() - began_s) / 60
    after = {what: [cpu_s(process) for process in processes] for what, processes in groups.items()}
    alone_mib = _python_uss_mib()
    for what, processes in groups.items():
        memory = [process.memory_full_info() for process in processes]
        yield Keep(
            what=what,
            processes=len(processes),
            cpu_ms_per_minute=median(
                (end - begin) / minutes * MS for begin, end in zip(before[what], after[what], strict=True)
            ),
            pss_mib=median(each.pss for each in memory) / MIB,
            uss_mib=median(each.uss for each in memory) / MIB,
            python_uss_mib=alone_mib,
            table=len(psutil.pids()),
        )


def _python_uss_mib() -> float:
    """Return the memory that is an interpreter's own which has done nothing."""
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        uss = psutil.Process(process.pid).memory_full_info().uss
        process.communicate(b"\n")
    return uss / MIB


def _lines(log: Path) -> int:
    with log.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(MIB), b""))


def _decode_us(log: Path) -> float:
    """Return the microseconds that parsing a line of the log takes, and nothing else."""
    lines = log.read_bytes().splitlines()[:EVENTS_PER_S]
    began_s = time.process_time()
    for line in lines:
        msgspec.json.decode(line)
    return (time.process_time() - began_s) / len(lines) * 1_000_000


# What begins


def _begins(here: Box, concurrency: int, items: int) -> Begin:
    """Begin so many items, `concurrency` at a time, each by a worker that is up already."""
    stamps.keep_here()
    each = -(-items // concurrency)
    with ThreadPoolExecutor(concurrency) as slots:
        done = slots.map(lambda slot: _slot(here, f"begin-{concurrency}-{slot}", each), range(concurrency))
        return begin_of(concurrency, [start for starts in done for start in starts])


def _slot(here: Box, name: str, items: int) -> list[Start]:
    token = here.token(name)
    with Client(here.server.url, here.admin_token) as admin, Client(here.server.url, token) as agent:
        mine = replace(here, admin=admin)
        # Of two `git worktree add` in one repository, one may fail over what the other has half made.
        twin = here.folder / f"{name}-twin"
        here.repo.git("clone", "--quiet", ".", str(twin))
        return [_started(mine, agent, token, f"{name}-{item}", twin=twin) for item in range(items)]


def _started(here: Box, agent: Client, token: str, name: str, *, twin: Path) -> Start:
    node = here.put_item(name)
    order = Order(CHILD, here.repo.folder, project=name)
    stamped = here.folder / f"{name}.stamps"
    starter = ByProcess(server=here.server.url, token=token, extra=stamps.environment(stamped))
    settings = Settings(home=here.home, inherited=here.environ)
    bare = _bare(here, twin, name)
    stamps.taken()
    here.admin.set_readiness(node, "agent")
    ready_at = time.monotonic_ns()
    record = run_once(ServerGraph(agent), settings, order, starter=starter, say=lambda _line: None)
    assert record is not None, name
    assert record.log_path is not None, name
    printed = int(Path(record.log_path).read_text())
    return Start(ready_at, {**stamps.taken(), **stamps.read(stamped), "child": printed}, bare)


def _bare(here: Box, twin: Path, name: str) -> Bare:
    add = ["git", "-C", str(twin), "worktree", "add", "--quiet", "-b", name, str(here.folder / "bare" / name), "main"]
    return Bare(_took_ms(here, add), _took_ms(here, [sys.executable, "-c", "pass"]), _took_ms(here, ["true"]))


def _took_ms(here: Box, argv: Sequence[str]) -> float:
    began_s = time.perf_counter()
    subprocess.run(argv, cwd=here.folder, env=here.environ, check=True)
    return (time.perf_counter() - began_s) * MS
