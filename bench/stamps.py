"""When a process reached the named points of a run's start, on the clock that all processes of a machine share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from batonpass.core import points

VARIABLE: Final = "BATON_BENCH_STAMPS"
HERE: Final = Path(__file__).parent
WORKERS: Final = ("claim.nonce_written", "claim.answered")
SUPERVISORS: Final = ("lease.taken", "token.minted", "worktree.added", "child.started")

_here = threading.local()


def environment(path: Path) -> dict[str, str]:
    """Return what has a Python process that is started with it write its stamps to `path`."""
    folders = (str(HERE / "stamping"), str(HERE.parent), os.environ.get("PYTHONPATH", ""))
    return {VARIABLE: str(path), "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def keep(path: str) -> None:
    """Append a line for each of the supervisor's points that this process reaches."""
    for name in SUPERVISORS:
        points.armed[name] = partial(_append, Path(path), name)


def keep_here() -> None:
    """Remember when a thread of this process reaches one of the worker's points: see `taken`."""
    for name in WORKERS:
        points.armed[name] = partial(_remember, name)


def taken() -> dict[str, int]:
    """Return the nanoseconds at which this thread reached its points since it last asked."""
    stamps: dict[str, int] = getattr(_here, "stamps", {})
    _here.stamps = {}
    return stamps


def read(path: Path) -> Mapping[str, int]:
    """Return the nanoseconds at which the process that `keep`s at `path` reached each point."""
    return {name: int(at) for name, at in (line.split() for line in path.read_text().splitlines())}


def _append(path: Path, name: str) -> None:
    at = time.monotonic_ns()
    with path.open("a") as file:
        file.write(f"{name} {at}\n")


def _remember(name: str) -> None:
    stamps = getattr(_here, "stamps", None) or {}
    stamps[name] = time.monotonic_ns()
    _here.stamps = stamps
