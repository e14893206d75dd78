"""The whole of a run: on which machine, what came out, and a table of it."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator
from importlib.metadata import version

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from batonpass import __version__
from bench.figures import Figure, Memory
from bench.pickup import Pickup
from bench.probes import ME
from bench.scale import Scaled, Seeding
from bench.shapes import Shape
from bench.shifts import Shift
from bench.startup import Startup
from bench.worker import Begin, Keep, Overhead


class Machine(msgspec.Struct):
    """What figures depend on besides the code."""

    cores: int
    system: str
    processor: str
    python: str
    sqlite: str
    libraries: dict[str, str]
    postgres: str | None = None


class Report(msgspec.Struct):
    """A run."""

    batonpass: str
    command: str
    machine: Machine
    figures: list[Figure]
    memory: list[Memory]
    startups: list[Startup]
    skipped: list[str]
    seedings: list[Seeding]
    scaled: list[Scaled]
    pickups: list[Pickup]
    shapes: list[Shape]
    overheads: list[Overhead]


def machine() -> Machine:
    """Return the facts of this machine, none of which names it."""
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        processor=platform.machine(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        libraries={name: version(name) for name in ("starlette", "uvicorn", "uvloop", "msgspec", "psycopg")},
    )


def begin(command: str) -> Report:
    """Return a report with nothing in it yet."""
    return Report(__version__, command, machine(), *([] for _ in range(9)))


def show(report: Report) -> None:
    """Print `report` for a person."""
    console = Console(width=140)
    console.print(_about(report))
    if report.figures:
        console.print(_figures(report.figures))
    for database in dict.fromkeys(scaled.database for scaled in report.scaled):
        console.print(_scaled([scaled for scaled in report.scaled if scaled.database == database]))
    if report.pickups:
        console.print(_pickups(report.pickups))
    if report.shapes:
        console.print(_shapes(report.shapes))
    for overhead in report.overheads:
        console.print(_keeps(overhead.keeps))
        console.print(_begins(overhead.begins))
        console.print(_shifts(overhead.shifts))
    for seeding in report.seedings:
        console.print(f"{seeding.database}: filled with {seeding.nodes:,} nodes in {seeding.seconds:,.0f} s")
    for startup in report.startups:
        console.print(
            f"{startup.command}: {startup.seconds:.2f} s (aim {startup.aim_s:.2f}{_mark(ok=startup.ok)};"
            f" an interpreter alone {startup.python_s:.2f} s)"
        )
    for memory in report.memory:
        console.print(
            f"{memory.database}: the server's memory {memory.started_mib:.0f} MiB when started,"
            f" {memory.after_mib:.0f} MiB after all of the above"
        )
    for reason in report.skipped:
        console.print(f"skipped: {reason}")


def _about(report: Report) -> str:
    facts = report.machine
    postgres = f", PostgreSQL {facts.postgres}" if facts.postgres else ""
    return (
        f"batonpass {report.batonpass} on {facts.cores} cores, {facts.system} {facts.processor},"
        f" Python {facts.python}, SQLite {facts.sqlite}{postgres}"
    )


def _figures(figures: list[Figure]) -> Table:
    table = _table("asked", "conns", "per s", "p50 ms", "p99 ms", "server µs", "beside", "per s", "ratio", "aim")
    for before, figure in zip([None, *figures], figures, strict=False):
        if before is None or before.database != figure.database:
            table.add_section()
            table.add_row(f"[bold]{figure.database}[/]")
        table.add_row(*_row(figure))
    return table


def _row(figure: Figure) -> Iterator[str]:
    yield figure.what if figure.counts else f"[dim]{figure.what}: the generator was the limit[/]"
    yield str(figure.connections)
    yield f"{figure.rate:,.0f}"
    yield f"{figure.p50_ms:.1f}"
    aimed = figure.p99_ms_aim
    yield f"{figure.p99_ms:.1f}" + (f" <{aimed:.0f}{_mark(ok=figure.p99_ms < aimed)}" if aimed is not None else "")
    yield f"{figure.server_us:,.0f}"
    yield "\n".join(beside.limit if beside.limit == ME else f"{beside.by} {beside.limit}" for beside in figure.beside)
    yield "\n".join(f"{beside.rate:,.0f}" for beside in figure.beside)
    yield "\n".join(f"{beside.ratio:.2f}" for beside in figure.beside)
    yield "\n".join("" if b.aim is None else f"{b.aim:.2f}{_mark(ok=b.ok)}" for b in figure.beside)


def _scaled(rows: list[Scaled]) -> Table:
    """Return the table of one database: for each size the time of half the requests, and of all but a hundredth."""
    sizes = [f"{size.nodes:,}" for size in rows[0].sizes]
    table = _table(rows[0].database, "conns", *(f"{size} p50 p99 ms" for size in sizes), "server ms", "p99 ×", "aim")
    for row in rows:
        times = (f"{size.p50_ms:.1f} {size.p99_ms:6.1f}" for size in row.sizes)
        growth = "" if row.growth is None else f"{row.growth:.1f}"
        table.add_row(
            row.what, str(row.connections), *times, f"{row.sizes[-1].server_us / 1000:.1f}", growth, _scaled_aim(row)
        )
    return table


def _scaled_aim(row: Scaled) -> str:
    aims = []
    if row.growth_aim is not None:
        aims.append(f"×{row.growth_aim:.0f}, <{row.p99_ms_aim:.0f} ms")
    if row.beside is not None and row.beside_aim is not None:
        aims.append(f"{row.beside:.2f} of claims, {row.beside_aim:.2f}")
    return "; ".join(aims) + _mark(ok=row.ok)


def _pickups(rows: list[Pickup]) -> Table:
    table = _table(
        "picked up", "workers", "p50 ms", "p99 ms", "aim", "with the write", "server ms", "MiB before", "meanwhile"
    )
    for row in rows:
        table.add_row(
            f"{row.database}: {row.what}",
            f"{row.workers:,}",
            f"{row.delays.p50_ms:.1f}",
            f"{row.delays.p99_ms:.1f}",
            ("all" if row.p99_ms_aim is None else f"<{row.p99_ms_aim:.0f}") + _mark(ok=row.ok),
            f"{row.delays.whole_p50_ms:.1f} {row.delays.whole_p99_ms:6.1f}",
            f"{row.server_ms:.1f}",
            f"{row.before_mib:.0f}",
            f"{row.memory_mib:.0f}",
        )
    return table


def _shapes(rows: list[Shape]) -> Table:
    table = _table("written", "call ms", "slowest", "page ms", "slowest")
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or before.database != row.database:
            table.add_section()
            table.add_row(f"[bold]{row.database}[/]")
        table.add_row(row.what, *(f"{ms:.1f}" for ms in (row.call_ms, row.call_ms_max, row.page_ms, row.page_ms_max)))
    return table


def _keeps(rows: list[Keep]) -> Table:
    table = _table("while a run goes on", "ms a min", "PSS MiB", "USS MiB", "python's", "×", "table", "events")
    for row in rows:
        table.add_row(
            f"{row.processes} × {row.what}",
            f"{row.cpu_ms_per_minute:,.0f}",
            *(f"{mib:.1f}" for mib in (row.pss_mib, row.uss_mib, row.python_uss_mib)),
            f"{row.uss_mib / row.python_uss_mib:.1f}",
            str(row.table),
            _events(row),
        )
    return table


def _events(row: Keep) -> str:
    if row.events_per_s is None or row.event_us is None or row.decode_us is None:
        return ""
    return f"{row.events_per_s:,.0f}/s, {row.event_us:.1f} µs each, its JSON {row.decode_us:.1f}"


def _begins(rows: list[Begin]) -> Table:
    """Return the table of starts: each concurrency has a column, with medians and 99th hundredths."""
    table = _table("from ready to the child at work", *(f"{row.concurrency} at once, p50 p99 ms" for row in rows))
    table.add_row("all", *(f"{row.p50_ms:.0f} {row.p99_ms:6.0f}" for row in rows))
    for parts in zip(*(row.parts for row in rows), strict=True):
        table.add_row(f"  {parts[0].what}", *(f"{part.p50_ms:.1f} {part.p99_ms:6.1f}" for part in parts))
    table.add_row("beside git worktree add", *(f"{row.worktree_ms:.1f}" for row in rows))
    table.add_row("beside python -c pass", *(f"{row.python_ms:.1f}" for row in rows))
    table.add_row("beside true", *(f"{row.true_ms:.1f}" for row in rows))
    table.add_row("all × (git worktree add + python)", *(f"{row.ratio:.1f}" for row in rows))
    return table


def _shifts(rows: list[Shift]) -> Table:
    table = _table(
        "from ready to the child, by a worker that waits", "items", "p50 ms", "p99 ms", "worker's ms an item"
    )
    for row in rows:
        figures = (f"{ms:.0f}" for ms in (row.p50_ms, row.p99_ms, row.worker_ms))
        table.add_row(f"{row.slots} made ready together, for as many slots", str(row.items), *figures)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _mark(*, ok: bool | None) -> str:
    return "" if ok is None else " ✓" if ok else " ✗"
