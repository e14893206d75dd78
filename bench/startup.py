"""How long a command takes from being typed to being done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from bench.served import BATON


class Startup(msgspec.Struct):
    """The median time of a command, in seconds, beside an interpreter's that does nothing."""

    command: str
    seconds: float
    python_s: float
    aim_s: float
    ok: bool


def startups(folder: Path, *, times: int) -> list[Startup]:
    """Measure `times` over the commands of which a time is promised (D37); local mode is set up in `folder` first."""
    environ = {**os.environ, "BATON_HOME": str(folder)}
    environ.pop("BATON_SERVER", None)
    environ.pop("BATON_TOKEN", None)
    return [
        _startup(environ, ["--version"], times, aim_s=0.15),
        _startup(environ, ["queue"], times, aim_s=0.6),
    ]


def _startup(environ: dict[str, str], args: Sequence[str], times: int, *, aim_s: float) -> Startup:
    command, nothing = [str(BATON), *args], [sys.executable, "-c", ""]
    _run_s(command, environ)
    pairs = [(_run_s(command, environ), _run_s(nothing, environ)) for _ in range(times)]
    seconds = median(pair[0] for pair in pairs)
    return Startup(f"baton {' '.join(args)}", seconds, median(pair[1] for pair in pairs), aim_s, seconds <= aim_s)


def _run_s(argv: Sequence[str], environ: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, env=environ, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started
