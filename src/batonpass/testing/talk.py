"""A client that costs next to nothing, so that one process can be hundreds of callers of real servers.

    line = Line(port, token)
    reply = await line.ask("POST", "/v1/queue/next", {"wait": 20})
    line.cut()                                    # as a machine does that is gone from one moment to the next

It speaks as much HTTP/1.1 as the server does, over one connection that is kept
and made anew when it has ended. `stream` reads server-sent events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

HOST: Final = "127.0.0.1"
HEAD_BYTES_MAX: Final = 1 << 24
"""How much of an answer is read at once, in bytes: a page of events is a long line."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of whatever status; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: Any  # JSON

    @property
    def ok(self) -> bool:
        """Whether it was carried out."""
        return self.status < 300  # noqa: PLR2004  # HTTP's boundary


@dataclass(slots=True)
class Line:
    """One caller's connection to the server on `port` of this machine, opened by the first request."""

    port: int
    token: str
    _streams: Streams | None = None

    async def ask(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request and return its answer; `OSError` or `EOFError` when the connection breaks before it."""
        if self._streams is None or self._streams[0].at_eof():  # servers hang up on who is silent
            await self.close()
            self._streams = await asyncio.open_connection(HOST, self.port, limit=HEAD_BYTES_MAX)
        reader, writer = self._streams
        try:
            writer.write(_request(method, path, self.token, body=body, headers=headers or {}))
            await writer.drain()
            status, named = await _head(reader)
            content = await reader.readexactly(int(named.get("content-length", "0")))
        except BaseException:  # whatever it was, what comes next on this connection is no answer to what is asked next
            self.cut()
            raise
        if named.get("connection") == "close":
            await self.close()
        return Reply(status, named, json.loads(content) if content else None)

    async def close(self) -> None:
        """Close the connection properly: the server reads its end. Safe twice."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with suppress(OSError):
                await streams[1].wait_closed()

    def cut(self) -> None:
        """Drop the connection at once: whatever is sent from now on, either way, is refused. Safe twice."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def fall_silent(self) -> Streams | None:
        """Leave the connection open and never look at it again, as if its cable were pulled; return it, to be kept.

        The server is told nothing: what it sends is taken by the system, and read by nobody.
        """
        streams, self._streams = self._streams, None
        return streams


async def stream(port: int, token: str, path: str) -> AsyncIterator[Any]:
    """Yield what server-sent events tell, as JSON, until the server ends the stream or the caller this iterator."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=HEAD_BYTES_MAX)
    try:
        writer.write(_request("GET", path, token, headers={"Accept": "text/event-stream"}))
        status, named = await _head(reader)
        assert (status, named.get("transfer-encoding")) == (200, "chunked"), (status, named)
        text = b""
        while size := int(await reader.readline(), 16):
            text += await reader.readexactly(size)
            await reader.readexactly(2)
            *events, text = text.split(b"\n\n")
            for event in events:
                for line in event.splitlines():
                    if line.startswith(b"data: "):
                        yield json.loads(line.removeprefix(b"data: "))
    finally:
        writer.close()


def _request(method: str, path: str, token: str, *, body: object = None, headers: Mapping[str, str]) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    named = {"Host": HOST, "Authorization": f"Bearer {token}", "Content-Length": str(len(content)), **headers}
    if content:
        named["Content-Type"] = "application/json"
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.rstrip().split("\r\n")
    named = dict(line.split(": ", 1) for line in rest)
    return int(first.split()[1]), {name.lower(): value for name, value in named.items()}
