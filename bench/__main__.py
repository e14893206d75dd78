"""`python -m bench`: measure, print a table, and with `--json` keep it whole.

The groups of `LONG` take their time, most of them since they fill databases first, with
up to a million nodes: with `--quick` they are left out unless `--only` names them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from batonpass.testing.databases import PostgresCluster, postgres_cluster
from bench import slowdisk
from bench.figures import Effort, Rounds
from bench.pickup import PICKUP_SIZE, pickups
from bench.probes import POSTGRES, RECORDS, SLOW_DISK, SQLITE, Probe
from bench.records import postgres_records, readers, sqlite_records
from bench.report import Report, begin, show
from bench.scale import NEXT_SIZE, SIZES, Sizes
from bench.served import Database, seeded_postgres, seeded_sqlite, sqlite_url
from bench.shapes import BACKLOG, shapes
from bench.startup import startups
from bench.worker import QUICK_CARE, WHOLE_CARE, overhead
from bench.worlds import postgres_world, sqlite_world

WHOLE: Final = Effort(rounds=5, seconds=2.0)
QUICK: Final = Effort(rounds=1, seconds=1.0)
STARTS: Final = 3
"""How often a command is started in each round."""
SHORT: Final = ("claims", "renewals", "bulk", "next", "startup", "slow-disk")
RECORDS_GROUP: Final = "records"
WORKER: Final = "worker"
LONG: Final = ("scale", "pickup", "shapes", RECORDS_GROUP, WORKER)
DATABASES: Final = ("sqlite", "postgres")
SETTINGS: Final = """
# As installed, that is with fsync: a commit is on the disk before it is answered.
log_checkpoints = off
"""


def main() -> None:
    """Measure what the arguments ask for."""
    asked = _arguments()
    effort = Effort(asked.rounds or (QUICK if asked.quick else WHOLE).rounds, (QUICK if asked.quick else WHOLE).seconds)
    report = begin(" ".join(["python -m bench", *sys.argv[1:]]))
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as folder:
        if "startup" in asked.only:
            report.startups += startups(Path(folder) / "home", times=STARTS * effort.rounds)
        if WORKER in asked.only:
            report.overheads.append(overhead(Path(folder), QUICK_CARE if asked.quick else WHOLE_CARE))
        if "sqlite" in asked.databases:
            _sqlite(report, Path(folder), asked.only, effort)
            _large_sqlite(report, Path(folder), asked, effort)
        if "postgres" in asked.databases:
            _postgres(report, asked.only, effort)
            _large_postgres(report, asked, effort)
    show(report)
    if asked.json is not None:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: whether it works, not how fast it is")
    parser.add_argument("--rounds", type=int, help=f"how often everything is measured; {WHOLE.rounds} by default")
    parser.add_argument("--only", nargs="+", choices=(*SHORT, *LONG), help="measure only these")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="NODES", help="of the group `scale`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    asked = parser.parse_args()
    asked.only = asked.only or (SHORT if asked.quick else (*SHORT, *LONG))
    return asked


def _sqlite(report: Report, folder: Path, groups: Sequence[str], effort: Effort) -> None:
    probes = _of(SQLITE, groups)
    if not probes and "slow-disk" not in groups:
        return
    database = seeded_sqlite(folder)
    slow = _copied(database, folder)
    _measure(report, Rounds(database, "SQLite"), probes, effort)
    if "slow-disk" in groups:
        try:
            rounds = Rounds(slow, "SQLite, 1 ms a flush", environ=slowdisk.environment(folder))
        except slowdisk.NoSlowDisk as reason:
            report.skipped.append(f"the slow disk: {reason}")
        else:
            _measure(report, rounds, SLOW_DISK, effort)


def _postgres(report: Report, groups: Sequence[str], effort: Effort) -> None:
    probes = _of(POSTGRES, groups)
    if not probes:
        return
    with postgres_cluster(SETTINGS) as cluster:
        report.machine.postgres = _version(cluster)
        _measure(report, Rounds(seeded_postgres(cluster), "PostgreSQL"), probes, effort)


def _large_sqlite(report: Report, folder: Path, asked: argparse.Namespace, effort: Effort) -> None:
    label = "SQLite"
    if "scale" in asked.only:
        sizes = [sqlite_world(folder, size, twin=size == NEXT_SIZE) for size in asked.sizes]
        _scale(report, Sizes(label, sizes), effort)
    if "pickup" in asked.only:
        report.pickups += pickups(sqlite_world(folder / "pickup", PICKUP_SIZE).database, label)
    if "shapes" in asked.only:
        report.shapes += shapes(sqlite_world(folder / "shapes", BACKLOG, shapes=True), label)
    if RECORDS_GROUP in asked.only:
        _records(report, sqlite_records(folder), label, effort)


def _large_postgres(report: Report, asked: argparse.Namespace, effort: Effort) -> None:
    label = "PostgreSQL"
    if not set(asked.only) & (set(LONG) - {WORKER}):
        return
    with postgres_cluster(SETTINGS) as cluster:
        report.machine.postgres = _version(cluster)
        if "scale" in asked.only:
            with ExitStack() as stack:
                worlds = (postgres_world(cluster, size, twin=size == NEXT_SIZE) for size in asked.sizes)
                _scale(report, Sizes(label, [stack.enter_context(world) for world in worlds]), effort)
        if "pickup" in asked.only:
            with postgres_world(cluster, PICKUP_SIZE) as world:
                report.pickups += pickups(world.database, label)
        if "shapes" in asked.only:
            with postgres_world(cluster, BACKLOG, shapes=True) as world:
                report.shapes += shapes(world, label)
        if RECORDS_GROUP in asked.only:
            _records(report, postgres_records(cluster), label, effort)


def _records(report: Report, database: Database, label: str, effort: Effort) -> None:
    _measure(report, Rounds(database, f"{label}, records"), RECORDS, effort)
    report.pickups.append(readers(database, label))


def _scale(report: Report, sizes: Sizes, effort: Effort) -> None:
    report.seedings += sizes.seedings()
    report.memory += sizes.measure(effort)
    report.scaled += sizes.figures()


def _measure(report: Report, rounds: Rounds, probes: Sequence[Probe], effort: Effort) -> None:
    if probes:
        report.memory.append(rounds.measure(probes, effort))
        report.figures += rounds.figures()


def _of(probes: Sequence[Probe], groups: Sequence[str]) -> list[Probe]:
    return [probe for probe in probes if probe.group in groups]


def _copied(database: Database, folder: Path) -> Database:
    """Return a second pair of the same database, still as it was seeded."""
    file, twin = folder / "slow.db", folder / "slow-twin.db"
    for copy in (file, twin):
        shutil.copyfile(database.twin, copy)
    return replace(database, url=sqlite_url(file), twin=str(twin))


def _version(cluster: PostgresCluster) -> str:
    with psycopg.connect(cluster.url()) as connection:
        ((found,),) = connection.execute("SHOW server_version").fetchall()
    return str(found).split()[0]


if __name__ == "__main__":
    main()
