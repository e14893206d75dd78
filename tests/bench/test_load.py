"""The load generator sends what its job says, and counts what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bench.load import Job, run

pytestmark = pytest.mark.anyio

TOKENS = ["one", "two", "three"]
BODIES = ['{"n": 1}', '{"n": 2}', '{"n": 3}']


@dataclass
class Seen:
    """The requests a server has been sent: path, token and body of each."""

    port: int = 0
    requests: list[tuple[str, str, str]] = field(default_factory=list)


@asynccontextmanager
async def answering(status: str) -> AsyncIterator[Seen]:
    seen = Seen()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await read_head(reader)):
            lines = head.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            body = await reader.readexactly(int(headers["Content-Length"]))
            seen.requests.append((lines[0].split()[1], headers["Authorization"], body.decode()))
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    async with server:
        yield seen


async def read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def job(port: int, *, cycle: int | None = None) -> Job:
    return Job(
        host="127.0.0.1",
        port=port,
        tokens=TOKENS,
        method="POST",
        path="/n/{i}",
        bodies=BODIES,
        connections=2,
        seconds=0.1,
        cycle=cycle,
    )


async def test_request_n_has_path_token_and_body_n() -> None:
    async with answering("200 OK") as seen:
        result = await run(job(seen.port))

    assert seen.requests == [(f"/n/{n}", f"Bearer {TOKENS[n % 3]}", BODIES[n % 3]) for n in range(len(seen.requests))]
    assert result.sent == len(seen.requests)
    assert 0 < result.ops < result.sent, "what is asked in the first moments is sent and not timed"
    assert result.refused == 0
    assert 0 < result.p50_ms <= result.p99_ms


async def test_a_cycle_begins_again_at_its_first_number() -> None:
    async with answering("200 OK") as seen:
        await run(job(seen.port, cycle=4))

    assert [path for path, _, _ in seen.requests[:6]] == ["/n/0", "/n/1", "/n/2", "/n/3", "/n/0", "/n/1"]


async def test_a_refusal_is_counted_and_is_no_answer() -> None:
    async with answering("409 Conflict") as seen:
        result = await run(job(seen.port))

    assert result.ops == 0
    assert result.refused > 0
