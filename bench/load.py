"""A load generator of its own process: keep-alive connections that send the next request when the last is answered.

    python -m bench.load < job.json > result.json

It speaks just enough HTTP/1.1 to count answers, so that it costs a fraction
of what the server does; its own CPU time is in the result, and a figure
taken while it was near one core is not counted (`Result.was_limit`).
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Iterator
from itertools import count, cycle
from typing import cast

import msgspec
import uvloop

from bench.percentiles import percentile


class Job(msgspec.Struct):
    """What to send: `path` with ``{i}`` numbered from `first`, by `connections` at once for `seconds`.

    Request number n is sent under token n modulo their number, so a fleet of
    as many agents shares the work, and each renews what it claimed. There is
    one body for all, or one for each token.
    """

    host: str
    port: int
    tokens: list[str]
    method: str
    path: str
    bodies: list[str]
    connections: int
    seconds: float
    first: int = 0
    cycle: int | None = None
    """Numbers run from `first` to `first + cycle` and begin again; None never begins again."""
    most: int | None = None
    """After so many requests it is over, whatever the time: of few nodes only so many can be taken."""


class Result(msgspec.Struct):
    """What was answered within the time. Latencies are in milliseconds."""

    ops: int
    refused: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    sent: int
    """All requests, also those of the first moments, which are not among `ops`."""

    @property
    def rate(self) -> float:
        """Return answered requests a second."""
        return self.ops / self.seconds

    @property
    def was_limit(self) -> bool:
        """Whether the generator itself was so busy that it may have been what was measured."""
        return self.cpu_seconds > BUSY * self.seconds


BUSY = 0.85
GRACE_S = 0.3
"""What is asked in the first moments is not counted: connections open, tokens are looked up, statements prepared."""


class Connection(asyncio.Protocol):
    """One connection: sends, waits for the answer, sends again."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.buffer = b""
        self.sent_at = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = cast("asyncio.Transport", transport)
        self.send()

    def send(self) -> None:
        """Send the next request, or close when the time is over."""
        assert self.transport is not None
        request = self.load.next_request()
        if request is None:
            self.transport.close()
            return
        self.sent_at = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Count a whole answer and go on."""
        self.buffer += data
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self.buffer[:head_end].lower()
        at = head.find(b"content-length:")
        assert at >= 0, head
        length = int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else None])
        if len(self.buffer) < head_end + 4 + length:
            return
        self.load.answered(self.sent_at, ok=self.buffer[9:12] < b"400")
        self.buffer = b""
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the load that one connection fewer is open."""
        del exc
        self.load.closed()


class Load:
    """All connections of a job, and what they have counted."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.numbers: Iterator[int] = count(job.first)
        self.sent = 0
        self.started = time.perf_counter()
        self.ends = self.started + job.seconds + GRACE_S
        self.latencies: list[float] = []
        self.refused = 0
        self.open = job.connections
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heads = [
            f"Host: {job.host}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            for token, body in zip(job.tokens, cycle(job.bodies), strict=False)
        ]

    def next_request(self) -> bytes | None:
        """Return the next request, or None when the time is over."""
        if time.perf_counter() > self.ends or self.sent == self.job.most:
            return None
        number = next(self.numbers)
        self.sent += 1
        if self.job.cycle is not None:
            number = self.job.first + (number - self.job.first) % self.job.cycle
        head = self.heads[number % len(self.heads)]
        return f"{self.job.method} {self.job.path.replace('{i}', str(number))} HTTP/1.1\r\n{head}".encode()

    def answered(self, sent_at: float, *, ok: bool) -> None:
        """Count one answer, unless it was asked for in the grace at the beginning; of a few requests all count."""
        if sent_at - self.started < GRACE_S and self.job.most is None:
            return
        if ok:
            self.latencies.append(time.perf_counter() - sent_at)
        else:
            self.refused += 1

    def closed(self) -> None:
        """Finish when the last connection has closed."""
        self.open -= 1
        if not self.open and not self.done.done():
            self.done.set_result(None)


async def run(job: Job) -> Result:
    """Send `job` and return what was answered."""
    loop = asyncio.get_running_loop()
    before = resource.getrusage(resource.RUSAGE_SELF)
    load = Load(job)
    for _ in range(job.connections):
        await loop.create_connection(lambda: Connection(load), job.host, job.port)
    await load.done
    after = resource.getrusage(resource.RUSAGE_SELF)
    latencies = load.latencies or [0.0]
    return Result(
        ops=len(load.latencies),
        refused=load.refused,
        seconds=job.seconds,
        p50_ms=percentile(latencies, 50) * 1000,
        p99_ms=percentile(latencies, 99) * 1000,
        cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        sent=load.sent,
    )


def main() -> None:
    """Read a job, run it, print the result."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(job))))


if __name__ == "__main__":
    main()
