"""Workers that wait for an item, and how long after its commit one of them has it.

    python -m bench.waiting < job.json > result.json

Each worker sends `queue/next` with a wait on a connection of its own, and asks
again when it is answered, as workers do. Then items are written one after
another, each fed to exactly one of them. Its *delay* runs from the moment the
writer had its answer, which is a little after the commit, to the moment the
worker had its claim; `whole` runs from the moment the write was sent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import StreamReader
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import uvloop

from batonpass.wire import paths
from bench.percentiles import percentile

PROJECT: Final = "waiting"
WAIT_S: Final = 60
"""As long as a server lets them; then each asks again."""
JOINED_AT_ONCE: Final = 16
"""How many workers ask for the first time at once: a fleet does not start in one instant."""
PAUSE_S: Final = 0.02
"""Between two writes; the worker that was fed is back in line by then."""
FED_S_MAX: Final = 10.0


class WaitingJob(msgspec.Struct):
    """So many `workers` at one server, `writes` items written at another, or at the same one."""

    host: str
    tokens: list[str]
    writer: str
    workers: int
    writes: int
    first: int = 0
    """The number of the first item that is written."""
    ports: list[int] = []
    """Where workers wait, in turn."""
    writer_port: int = 0


class WaitingResult(msgspec.Struct):
    """Delays in milliseconds; `joined_s` is how long it took until all waited."""

    p50_ms: float
    p99_ms: float
    whole_p50_ms: float
    whole_p99_ms: float
    joined_s: float
    missed: int
    """Writes that fed nobody within `FED_S_MAX`, or readers that were told of none."""


@dataclass(slots=True)
class Fleet:
    """The workers, and when each item was had."""

    job: WaitingJob
    claimed: dict[str, asyncio.Future[float]] = field(default_factory=dict)

    def had(self, item: str) -> asyncio.Future[float]:
        """Return when an item was claimed, as soon as it is."""
        return self.claimed.setdefault(item, asyncio.get_running_loop().create_future())

    async def work(self, number: int) -> None:
        """Wait for items for ever."""
        reader, writer = await asyncio.open_connection(self.job.host, self.job.ports[number % len(self.job.ports)])
        body = msgspec.json.encode({"project": PROJECT, "wait": WAIT_S, "session": f"w{number}"})
        request = request_of("POST", paths.QUEUE_NEXT, self.job.tokens[number % len(self.job.tokens)], body)
        while True:
            writer.write(request)
            answer = await answer_to(reader)
            now = time.perf_counter()
            if answer.get("status") == "claimed":
                item = answer["item"]
                assert isinstance(item, dict), answer
                had = self.had(item["id"])
                if not had.done():
                    had.set_result(now)
            elif answer.get("status") != "empty":
                raise RuntimeError(answer)


async def run(job: WaitingJob) -> WaitingResult:
    """Let everybody wait, then write items and time who has them."""
    fleet = Fleet(job)
    started = time.perf_counter()
    workers = [asyncio.create_task(fleet.work(0))]
    for first in range(1, job.workers, JOINED_AT_ONCE):
        workers += [
            asyncio.create_task(fleet.work(number)) for number in range(first, min(first + JOINED_AT_ONCE, job.workers))
        ]
        await _answered(job)
    joined_s = time.perf_counter() - started
    reader, writer = await asyncio.open_connection(job.host, job.writer_port)
    delays, whole, missed = [], [], 0
    for number in range(job.first, job.first + job.writes):
        had = fleet.had(f"task-waiting-{number}")
        sent_at = time.perf_counter()
        writer.write(_write(job, number))
        answer = await answer_to(reader)
        answered_at = time.perf_counter()
        assert answer.get("ok", True) is True, answer
        try:
            at = await asyncio.wait_for(had, FED_S_MAX)
        except TimeoutError:
            missed += 1
            continue
        delays.append(max(0.0, at - answered_at))
        whole.append(at - sent_at)
        await asyncio.sleep(PAUSE_S)
    for worker in workers:
        worker.cancel()
    failures = [one for one in await asyncio.gather(*workers, return_exceptions=True) if isinstance(one, Exception)]
    if failures:
        raise failures[0]
    return delays_of(delays, whole, joined_s=joined_s, missed=missed)


async def _answered(job: WaitingJob) -> None:
    """Return once each server has answered something that was sent after all before it."""
    for port in job.ports:
        reader, writer = await asyncio.open_connection(job.host, port)
        writer.write(request_of("GET", f"{paths.QUEUE}?project={PROJECT}", job.writer, b""))
        await answer_to(reader)
        writer.close()


def _write(job: WaitingJob, number: int) -> bytes:
    node = {
        "id": f"task-waiting-{number}",
        "type": "task",
        "title": f"Item {number} that somebody waits for",
        "summary": "Written while they wait",
        "project": PROJECT,
        "readiness": "agent",
    }
    return request_of("POST", paths.NODES, job.writer, msgspec.json.encode({"nodes": [node]}))


def request_of(method: str, path: str, token: str, body: bytes) -> bytes:
    """Return a request as bytes."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer_to(reader: StreamReader) -> dict[str, object]:
    """Return the next answer's JSON."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 : head.find(b"\r\n", at)])
    return msgspec.json.decode(await reader.readexactly(length), type=dict[str, object])


def delays_of(delays: Sequence[float], whole: Sequence[float], *, joined_s: float, missed: int) -> WaitingResult:
    """Return how long everybody waited, of the delays in seconds."""
    return WaitingResult(
        *(_ms(delays, 50), _ms(delays, 99), _ms(whole, 50), _ms(whole, 99)), joined_s=joined_s, missed=missed
    )


def _ms(seconds: Sequence[float], percent: int) -> float:
    return percentile(seconds or [0.0], percent) * 1000


def main() -> None:
    """Read a job, run it, print the result."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=WaitingJob)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(job))))


if __name__ == "__main__":
    main()
