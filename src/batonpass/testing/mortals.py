"""Pollers that die at random, each in its own way, while others live: what becomes of what they were just given (H5).

    async with mortals(crowd, many=200, herds=8) as doomed:
        await doomed.reap(seconds=60, each_s=0.2)        # the dead are replaced, so that there are always as many

A poller's process is killed with -9, its connection is closed, or cut, or
falls silent with nothing said, as when a machine is suspended or a cable
pulled. ``python -m batonpass.testing.mortals`` is such a process: a herd of
pollers, for a process each would be more than a small machine bears.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from batonpass.testing.crowd import Crowd, Diary, People, Poller
from batonpass.testing.talk import Streams

DIE_S_MAX: Final = 10.0
FIRST: Final = 1_000
"""Mortals are numbered from here on, none twice: a launch of a dead one is never taken up by another."""


@dataclass(slots=True)
class Mortals:
    """Those who are to die, in this process one by one and in others by the herd."""

    crowd: Crowd
    herd_size: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST))
    deaths: Counter[str] = field(default_factory=Counter)
    """How many died in which way."""
    _chance: random.Random = field(default_factory=lambda: random.Random("mortals"))  # noqa: S311  # the same each time
    _single: list[tuple[Poller, asyncio.Task[None]]] = field(default_factory=list)
    _herds: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _silent: list[Streams] = field(default_factory=list)

    def be_born(self) -> None:
        """Add one."""
        poller = _releasing(self.crowd, next(self.numbers))
        self._single.append((poller, asyncio.create_task(poller.run(asyncio.Event()), name="mortal")))

    def gather(self) -> None:
        """Add a herd."""
        crowd = self.crowd
        numbers = list(itertools.islice(self.numbers, self.herd_size))
        job = {"ports": list(crowd.ports), "people": asdict(crowd.people), "wait_s": crowd.wait_s, "numbers": numbers}
        argv = [sys.executable, "-m", "batonpass.testing.mortals"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        self._herds.append(process)

    async def reap(self, *, seconds: float, each_s: float) -> None:
        """Let somebody die every so often for so long, and another take its place."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    await asyncio.sleep(each_s)
                    await self.one_dies()

    async def one_dies(self) -> None:
        """Let one die, or a herd, and replace it; whoever has failed by itself raises here."""
        for _, task in self._single:
            if task.done():
                task.result()
        way = self._chance.choice(["killed", "closed", "cut", "silent", "silent"])
        self.deaths[way] += self.herd_size if way == "killed" else 1
        if way == "killed":
            self._kill(self._herds.pop(self._chance.randrange(len(self._herds))))
            self.gather()
            return
        await self._end(way, *self._single.pop(self._chance.randrange(len(self._single))))
        self.be_born()

    async def die_out(self) -> None:
        """Let all of them die, in this process silently; safe twice."""
        while self._single:
            await self._end("silent", *self._single.pop())
        while self._herds:
            self._kill(self._herds.pop())

    async def close(self) -> None:
        """Let all of them die, and close what was left open."""
        await self.die_out()
        for _, writer in self._silent:
            writer.transport.abort()

    async def _end(self, way: str, poller: Poller, task: asyncio.Task[None]) -> None:
        match way:
            case "silent" if (streams := poller.line.fall_silent()) is not None:
                self._silent.append(streams)
            case "closed":
                await poller.line.close()
            case _:
                poller.line.cut()
        task.cancel()
        with suppress(asyncio.CancelledError, OSError, EOFError):
            await task

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, f"a herd ended by itself with status {process.returncode}"
        process.kill()
        process.wait(DIE_S_MAX)


@asynccontextmanager
async def mortals(crowd: Crowd, *, many: int, herds: int) -> AsyncIterator[Mortals]:
    """Give `many` pollers, half of them in `herds` processes; at the end of the block all of them are dead."""
    doomed = Mortals(crowd, herd_size=many // (2 * herds))
    try:
        for _ in range(herds):
            doomed.gather()
        for _ in range(many - herds * doomed.herd_size):
            doomed.be_born()
        yield doomed
    finally:
        await doomed.close()


def _releasing(crowd: Crowd, number: int) -> Poller:
    """Return a poller that hands back whatever it takes."""
    poller = crowd.poller(number)
    poller.resolves_of_ten = poller.abandons_of_ten = 0
    return poller


async def main() -> None:
    """Be a herd, as standard input says, until killed."""
    job = json.load(sys.stdin)
    people = People(tuple(job["people"]["persons"]), tuple(job["people"]["agents"]))
    crowd = Crowd(Diary(), job["ports"], people, job["wait_s"])
    never = asyncio.Event()
    await asyncio.gather(*(_releasing(crowd, number).run(never) for number in job["numbers"]))


if __name__ == "__main__":
    asyncio.run(main())
