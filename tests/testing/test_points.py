from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from batonpass.core import points as named
from batonpass.testing import points

REACHES = "from batonpass.core import points\nfor _ in range(3): points.reach('settle.read')\nprint('went on')"


def armed(spec: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", REACHES],
        env=points.environment(spec),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_is_killed_at_its_point() -> None:
    with armed("settle.read:kill") as process:
        assert process.communicate(timeout=30) == ("", "")

    assert process.returncode == -signal.SIGKILL


def test_a_process_fails_at_the_arrival_that_was_named() -> None:
    with armed("settle.read@3:fail") as process:
        _, err = process.communicate(timeout=30)
    with armed("settle.read@4:fail") as spared:
        out, _ = spared.communicate(timeout=30)

    assert "PointFailed" in err
    assert out == "went on\n"


def test_a_process_pauses_until_its_file_is_removed(tmp_path: Path) -> None:
    paused = tmp_path / "paused"
    with armed(f"settle.read:pause={paused}, settle.locked:kill") as process:
        points.wait_paused(paused)
        assert process.poll() is None
        paused.unlink()
        out, _ = process.communicate(timeout=30)

    assert out == "went on\n"


def test_a_process_stops_until_it_is_continued() -> None:
    with armed("settle.read:stop") as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)

    assert out == "went on\n"


@pytest.mark.parametrize("spec", ["settle.red:kill", "settle.read:explode", "settle.read", "settle.read@0:kill"])
def test_a_misspelt_point_or_action_is_refused_before_anything_starts(spec: str) -> None:
    with pytest.raises(AssertionError):
        points.environment(spec)


@pytest.mark.anyio
async def test_the_first_arrival_is_held_and_the_second_passes() -> None:
    order = []

    async def walk(name: str) -> None:
        await named.areach("lease.locked")
        order.append(name)

    async with points.held("lease.locked") as door:
        first = asyncio.create_task(walk("first"))
        await door.reached()
        await walk("second")
        door.open()
        await first

    assert order == ["second", "first"]
    assert not named.armed_async


@pytest.mark.anyio
async def test_leaving_the_block_lets_everybody_go() -> None:
    async with points.held("lease.locked") as door:
        task = asyncio.create_task(named.areach("lease.locked"))
        await door.reached()
    await task


def test_a_failing_point_raises_once_and_is_disarmed_after_the_block() -> None:
    with points.failing("group.committing", OSError("disk")):
        with pytest.raises(OSError, match="disk"):
            named.reach("group.committing")
        named.reach("group.committing")

    assert not named.armed


def test_an_action_is_called_at_its_arrival_only() -> None:
    called: list[int] = []
    with points.calling("batch.taken", lambda: called.append(1), nth=2):
        for _ in range(3):
            named.reach("batch.taken")

    assert called == [1]


def test_every_named_point_is_reached_by_some_code() -> None:
    code = "\n".join(
        path.read_text() for path in Path(named.__file__).parents[1].rglob("*.py") if path.name != "points.py"
    )

    unreached = sorted(name for name in named.POINTS if f'reach("{name}")' not in code)

    assert unreached == []
