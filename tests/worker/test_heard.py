"""A child that is listened to: its input a file, its output a pipe that holds it up."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from batonpass.worker import proc
from batonpass.worker.crew import MARK, Exit
from batonpass.worker.errors import NotStarted
from batonpass.worker.printed import Printed


def start(argv: list[str], folder: Path, *, stdin: bytes = b"", **environ: str) -> tuple[proc.Child, int]:
    with tempfile.TemporaryFile() as stderr:
        return proc.start_heard(
            argv, mark="m1", cwd=folder, environment={**os.environ, **environ}, stdin=stdin, stderr=stderr
        )


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="counts this process's descriptors where they are listed"
)
def test_a_command_that_cannot_start_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_files()

    with pytest.raises(NotStarted):
        start(["no-such-command-here"], tmp_path)

    assert open_files() == before


def test_a_child_reads_its_input_whole_and_is_marked_within_its_runs(tmp_path: Path) -> None:
    script = f"import os, sys; sys.stdout.write(os.environ[{MARK!r}] + sys.stdin.read())"

    child, heard = start([sys.executable, "-c", script], tmp_path, stdin=b"x" * 200_000, **{MARK: "outer"})
    ended = threading.Event()
    lines = Printed(heard, ended).lines()

    def wait() -> None:
        child.wait(30)
        ended.set()

    threading.Thread(target=wait).start()

    assert [line.text for line in lines] == [b"outer:m1" + b"x" * 200_000]


def test_a_child_that_is_faster_than_its_reader_waits_and_loses_nothing(tmp_path: Path) -> None:
    """Far more than a pipe holds: it can only end once somebody has read most of it."""
    script = "for n in range(200_000): print(n)"
    child, heard = start([sys.executable, "-c", script], tmp_path)
    ended = threading.Event()
    lines = Printed(heard, ended).lines()

    first = next(lines)
    assert child.wait(0) is None, "it is held up: nobody has read on"
    rest = []
    for line in lines:
        rest.append(line.text)
        if line.text == b"199999":
            ended.set()

    assert first.text == b"0"
    assert rest == [b"%d" % n for n in range(1, 200_000)]
    assert child.wait(30) == Exit(0)
