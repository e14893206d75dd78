"""Readers that wait for a field of a record, and how long after a write each of them has it.

    python -m bench.readers < job.json > result.json

Each reader waits on a connection of its own for one of a few records, and asks
again with the version that it was answered. Then the records are written one
after another, each read by as many as its share. A reader's *delay* runs from
the moment the writer had its answer to the moment the reader had its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import StreamReader
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import uvloop

from bench.waiting import FED_S_MAX, JOINED_AT_ONCE, PAUSE_S, WaitingResult, answer_to, delays_of, request_of

WAIT_S: Final = 60
VALUE: Final = "as it is after write number {}"


class ReadersJob(msgspec.Struct):
    """So many `readers` of `paths` at one server, each written `rounds` times in turn."""

    host: str
    port: int
    tokens: list[str]
    readers: int
    paths: list[str]
    rounds: int = 1


@dataclass(slots=True)
class Written:
    """One write: when each of its readers had it."""

    readers: int
    had: list[float] = field(default_factory=list)
    all_had: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self, at: float) -> None:
        """Note that one more has it."""
        self.had.append(at)
        if len(self.had) == self.readers:
            self.all_had.set()


@dataclass(frozen=True, slots=True)
class Told:
    """When one write was sent, when it was answered, and when its readers had it; `missed` have not."""

    sent: float
    answered: float
    had: list[float]
    missed: int


@dataclass(slots=True)
class Crowd:
    """The readers, and what has been written."""

    job: ReadersJob
    written: dict[str, Written] = field(default_factory=dict)

    async def read(self, number: int) -> None:
        """Wait for one field for ever."""
        reader, writer = await asyncio.open_connection(self.job.host, self.job.port)
        path, token = self.job.paths[number % len(self.job.paths)], self.job.tokens[number % len(self.job.tokens)]
        version: object = 0
        while True:
            writer.write(request_of("GET", f"{path}?wait={WAIT_S}&version={version}", token, b""))
            answer = await _answer(reader)
            if version and answer["version"] != version:
                self.written[str(answer["value"])].read(time.perf_counter())
            version = answer["version"]

    async def write(self, path: str, number: int) -> Told:
        """Write a field that is waited for, and return once all of its readers have it, or too much time is over."""
        value = VALUE.format(number)
        share = len(range(self.job.paths.index(path), self.job.readers, len(self.job.paths)))
        written = self.written[value] = Written(share)
        reader, writer = await asyncio.open_connection(self.job.host, self.job.port)
        sent = time.perf_counter()
        writer.write(request_of("PUT", path, self.job.tokens[0], msgspec.json.encode({"value": value})))
        await _answer(reader)
        answered = time.perf_counter()
        writer.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(written.all_had.wait(), FED_S_MAX)
        return Told(sent, answered, written.had, share - len(written.had))


async def run(job: ReadersJob) -> WaitingResult:
    """Let everybody wait, then write the fields in turn and time who has them."""
    crowd = Crowd(job)
    started = time.perf_counter()
    readers: list[asyncio.Task[None]] = []
    for first in range(0, job.readers, JOINED_AT_ONCE):
        readers += [
            asyncio.create_task(crowd.read(number)) for number in range(first, min(first + JOINED_AT_ONCE, job.readers))
        ]
        await _answered(job)
    joined_s = time.perf_counter() - started
    told = []
    for number in range(job.rounds * len(job.paths)):
        told.append(await crowd.write(job.paths[number % len(job.paths)], number))
        await asyncio.sleep(PAUSE_S)
    for each in readers:
        each.cancel()
    failures = [one for one in await asyncio.gather(*readers, return_exceptions=True) if isinstance(one, Exception)]
    if failures:
        raise failures[0]
    return delays_of(
        [max(0.0, at - one.answered) for one in told for at in one.had],
        [at - one.sent for one in told for at in one.had],
        joined_s=joined_s,
        missed=sum(one.missed for one in told),
    )


async def _answered(job: ReadersJob) -> None:
    """Return once the server has answered something that was sent after all before it."""
    reader, writer = await asyncio.open_connection(job.host, job.port)
    writer.write(request_of("GET", job.paths[0], job.tokens[0], b""))
    await _answer(reader)
    writer.close()


async def _answer(reader: StreamReader) -> dict[str, object]:
    answer = await answer_to(reader)
    if "error" in answer:
        raise RuntimeError(answer)
    return answer


def main() -> None:
    """Read a job, run it, print the result."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=ReadersJob)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(job))))


if __name__ == "__main__":
    main()
