"""What a child finds in the folder of its run: the command `baton`, and the files of its agent program."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from batonpass.worker.dispatch.launch import Order
from batonpass.worker.harness.base import Command, Harness, Wish
from batonpass.worker.journal import RunFolder

_WRAPPER: Final = """\
#!/bin/sh
exec {python} -P -m batonpass "$@"
"""


def equip(run: RunFolder, order: Order, harness: Harness | None, *, cwd: Path) -> Command:
    """Put into the run's folder what its child needs, and return how the child is started.

    `harness` None is a plain command. `LaunchRefused` when the harness can't do what is wished for.
    """
    _write(programs(run) / "baton", _WRAPPER.format(python=shlex.quote(sys.executable)).encode(), mode=0o700)
    if harness is None or order.program is None:
        return Command(argv=order.command)
    folder = run.path / "harness"
    folder.mkdir(mode=0o700, exist_ok=True)
    command = harness.command(
        Wish(
            program=order.program,
            cwd=cwd,
            folder=folder,
            session=run.path.name,
            model=order.model,
            read_only=order.read_only,
            mcp=order.mcp,
        )
    )
    for path, content in command.files.items():
        _write(path, content, mode=0o600)
    return command


def programs(run: RunFolder) -> Path:
    """Return the folder that stands first on the child's PATH."""
    return run.path / "bin"


def _write(path: Path, content: bytes, *, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
