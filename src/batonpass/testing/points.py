"""Arm the named points of `core.points`: hold an arrival there, fail it, stop or kill the process.

In this process, for the length of a block:

    async with held("lease.locked") as door:      # the first arrival waits; later ones pass
        late = asyncio.create_task(write())
        await door.reached()
        ...                                       # what must happen in between
        door.open()
    with failing("group.committing", OSError()):  # the first arrival raises
        ...

In the processes a test starts, through one environment variable that only this
package reads. Any Python process below is armed, whatever starts it:

    subprocess.Popen(argv, env=environment("settle.read:kill, commit.sent@3:pause=/tmp/x/paused"))

    kill        SIGKILL                     stop        SIGSTOP, until somebody sends SIGCONT
    fail        raise PointFailed           pause=PATH  make PATH, and go on when it is gone
    @3          at the third arrival of this process; at the first otherwise, and once
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from batonpass.core import points
from batonpass.core.points import POINTS, Action

VARIABLE: Final = "BATON_TEST_POINTS"
ARMING: Final = Path(__file__).parent / "arming"
"""A folder whose `sitecustomize` arms whichever Python process has it on its path."""
WAIT_S_MAX: Final = 30.0
"""How long a test waits for an arrival, and an arrival for being let go."""
POLL_S: Final = 0.002
_SPEC: Final = re.compile(
    r"(?P<name>[a-z_]+(?:\.[a-z_]+)?)(?:@(?P<nth>[1-9]\d*))?:(?P<action>kill|stop|fail|pause=(?P<path>.+))"
)


class PointFailed(Exception):
    """What an arrival at a point armed with `fail` gets."""


# --- in this process -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Door:
    """Where the first arrival at a point, or the `nth`, waits until the test opens."""

    name: str
    nth: int = 1
    arrivals: int = 0
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self) -> None:
        """Wait until somebody waits at the point."""
        await asyncio.wait_for(self._arrived.wait(), WAIT_S_MAX)

    def open(self) -> None:
        """Let the one who waits go on; safe twice."""
        self._opened.set()

    async def arrive(self) -> None:
        """Wait here if just so many came before."""
        self.arrivals += 1
        if self.arrivals == self.nth:
            self._arrived.set()
            await asyncio.wait_for(self._opened.wait(), WAIT_S_MAX)


@asynccontextmanager
async def held(name: str, *, nth: int = 1) -> AsyncIterator[Door]:
    """Hold the `nth` arrival at the asynchronous point `name`; the end of the block opens it."""
    _require(name)
    door = Door(name, nth)
    points.armed_async[name] = door.arrive
    try:
        yield door
    finally:
        door.open()
        del points.armed_async[name]


@contextmanager
def failing(name: str, error: BaseException, *, nth: int = 1) -> Iterator[None]:
    """Raise `error` at the `nth` arrival at `name`."""

    def fail() -> None:
        raise error

    with calling(name, fail, nth=nth):
        yield


@contextmanager
def calling(name: str, action: Action, *, nth: int = 1) -> Iterator[None]:
    """Call `action` at the `nth` arrival at `name`."""
    _require(name)
    points.armed[name] = _Nth(nth, action)
    try:
        yield
    finally:
        del points.armed[name]


@dataclass(slots=True)
class _Nth:
    """An action for one arrival of many."""

    left: int
    action: Action

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.action()


# --- in the processes a test starts ----------------------------------------------------------------------------------


def environment(spec: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `base`, this process's environment by default, for a process whose points are armed as `spec` says."""
    _parsed(spec)
    env = dict(os.environ if base is None else base)
    env[VARIABLE] = spec
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ARMING), env.get("PYTHONPATH")]))
    return env


def arm(spec: str) -> None:
    """Arm this process as `spec` says; it stays armed."""
    points.armed.update(_parsed(spec))


def wait_paused(path: Path) -> None:
    """Wait until a process armed with ``pause=path`` is at its point."""
    _wait_until_exists(path, wanted=True)


def _parsed(spec: str) -> dict[str, Action]:
    armed: dict[str, Action] = {}
    for one in filter(None, (part.strip() for part in spec.split(","))):
        match = _SPEC.fullmatch(one)
        assert match is not None, f"{one!r} is not <point>[@n]:kill|stop|fail|pause=<path>"
        _require(match["name"])
        armed[match["name"]] = _Nth(int(match["nth"] or 1), _action(match["action"], match["path"]))
    return armed


def _action(word: str, path: str | None) -> Action:
    match word:
        case "kill":
            return lambda: os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            return lambda: os.kill(os.getpid(), signal.SIGSTOP)
        case "fail":
            return _fail
        case _:
            assert path is not None, word
            return lambda: _pause(Path(path))


def _fail() -> None:
    raise PointFailed("a test failed this point")


def _pause(path: Path) -> None:
    path.touch()
    _wait_until_exists(path, wanted=False)


def _wait_until_exists(path: Path, *, wanted: bool) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while path.exists() is not wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} {'never came' if wanted else 'is still there'} after {WAIT_S_MAX:.0f} s")
        time.sleep(POLL_S)


def _require(name: str) -> None:
    assert name in POINTS, f"{name} is no point; core/points.py has the list"
