"""A client of the application that can hang up in the middle, which no transport of an HTTP library does.

async with calling(server, "GET", "/v1/events?after=now", accept="text/event-stream") as caller:
    head = await caller.message()
    caller.hang_up()
    await caller.answered()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from batonpass.testing.server import InProcessServer

WAIT_S_MAX: Final = 10.0

Message = MutableMapping[str, Any]


@dataclass(slots=True)
class Caller:
    """One request, told what the application sends, message by message. The end of the block hangs up."""

    body: bytes
    answering: asyncio.Task[None] | None = None
    _sent: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: bool = False

    async def receive(self) -> Message:
        """Give the application the request, and then nothing until the client hangs up."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take what the application sends."""
        await self._sent.put(message)

    async def message(self) -> Message:
        """Return the next message of the answer."""
        async with asyncio.timeout(WAIT_S_MAX):
            return await self._sent.get()

    def rest(self) -> list[Message]:
        """Return the messages that nobody has read yet."""
        return [self._sent.get_nowait() for _ in range(self._sent.qsize())]

    def hang_up(self) -> None:
        """Be gone; safe twice."""
        self._gone.set()

    async def answered(self) -> None:
        """Return once the application is done with the request."""
        assert self.answering is not None
        async with asyncio.timeout(WAIT_S_MAX):
            await self.answering


@asynccontextmanager
async def calling(
    server: InProcessServer,
    method: str,
    path: str,
    body: object = None,
    *,
    token: str | None = None,
    **headers: str,
) -> AsyncIterator[Caller]:
    """Send one request to `server` under `token`, the admin's if none is given, until the end of the block."""
    path, _, query = path.partition("?")
    sent = {"authorization": f"Bearer {token or server.admin_token}", "content-type": "application/json", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
        "server": ("baton.test", 80),
        "client": None,
    }
    caller = Caller(b"" if body is None else json.dumps(body).encode())
    caller.answering = asyncio.create_task(server.app(scope, caller.receive, caller.send))
    try:
        yield caller
    finally:
        caller.hang_up()
        await caller.answered()
