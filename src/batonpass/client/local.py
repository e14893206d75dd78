"""A transport to a server in this very process: synchronous outside, any ASGI application inside, streaming (D37).

A request becomes a task on the event loop behind a portal, which runs in a
thread of its own. What the application sends comes back through a queue, so
an answer can be read while it is still being made. Closing an answer early
cancels its task, as a closed connection would. An application is only so far
ahead of its reader: what it sends waits, as it would on a full connection.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

import anyio
import httpx
from anyio.from_thread import BlockingPortal

Message = MutableMapping[str, Any]
"""One ASGI message; the standard gives it no narrower type."""
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

AHEAD_MOST: Final = 16
"""How many messages may wait for their reader: of an export, some megabyte."""
ADDRESS: Final = "http://local.baton"
"""The address requests of local mode carry. It is never resolved."""


class LocalTransport(httpx.BaseTransport):
    """Carries requests to `app` on `portal`'s event loop. Whoever opened the two closes them."""

    def __init__(self, portal: BlockingPortal, app: Application) -> None:
        self._portal = portal
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer as soon as it begins; its body follows as it is made."""
        messages = _Messages()
        content = request.read()
        task = self._portal.start_task_soon(_serve, self._app, _scope(request), content, messages)
        answer_s_max = request.extensions.get("timeout", {}).get("read")
        body = _Body(messages, task, answer_s_max)
        try:
            start = body.next_message()
        except BaseException:
            body.close()
            raise
        return httpx.Response(start["status"], headers=start["headers"], stream=body, request=request)


class _Messages:
    """What an application has sent and nobody has read: filled on its event loop, emptied in a thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(AHEAD_MOST)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def put(self, message: Message) -> None:
        """Add a message as soon as there is room for one more."""
        self._loop = asyncio.get_running_loop()
        await self._room.acquire()
        self._queue.put(message)

    def end(self) -> None:
        """Say that no more will come."""
        self._queue.put(None)

    def get(self, timeout_s: float | None) -> Message | None:
        """Return the next message, None after the last; `queue.Empty` if there is none in time."""
        message = self._queue.get(timeout=timeout_s)
        if message is not None and self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits for room any more
                self._loop.call_soon_threadsafe(self._room.release)
        return message


class _Body(httpx.SyncByteStream):
    """The rest of an answer, part by part."""

    def __init__(self, messages: _Messages, task: Future[None], answer_s_max: float | None) -> None:
        self._messages = messages
        self._task = task
        self._answer_s_max = answer_s_max

    def __iter__(self) -> Iterator[bytes]:
        more = True
        while more:
            message = self.next_message()
            more = message.get("more_body", False)
            yield message.get("body", b"")

    def next_message(self) -> Message:
        """Return what the application sends next, as the network would: with its time-out, or as a broken answer."""
        try:
            message = self._messages.get(self._answer_s_max)
        except queue.Empty as error:
            raise httpx.ReadTimeout(f"no answer within {self._answer_s_max} s") from error
        if message is None:
            raise httpx.RemoteProtocolError(f"the local server broke off: {self._task.exception()!r}")
        return message

    def close(self) -> None:
        """Read no more. A task that is not done is cancelled."""
        self._task.cancel()


async def _serve(app: Application, scope: Message, content: bytes, messages: _Messages) -> None:
    """Run `app` on one request; put what it sends into `messages`, and None when it ends."""
    unread = [content]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await anyio.sleep_forever()
        raise AssertionError

    try:
        await app(scope, receive, messages.put)
    finally:
        messages.end()


def _scope(request: httpx.Request) -> Message:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port),
        "client": None,
    }
