"""A shim that makes every flush take a millisecond at least, compiled when there is a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("slowdisk.c")
FSYNC_MS: Final = 1


class NoSlowDisk(Exception):
    """Why there is no slowed disk to measure on."""


def environment(folder: Path) -> Mapping[str, str]:
    """Return the variables under which a process finds its disk slow; the shim is built in `folder`."""
    if sys.platform != "linux":
        raise NoSlowDisk("the shim is loaded as Linux does it")
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoSlowDisk("there is no C compiler (cc)")
    shim = folder / "slowdisk.so"
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(shim), str(SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise NoSlowDisk(f"cc: {built.stderr.strip()}")
    return {**os.environ, "LD_PRELOAD": str(shim), "FSYNC_MS": str(FSYNC_MS)}
