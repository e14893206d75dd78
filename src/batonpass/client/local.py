"""A transport to a server in this very process: synchronous outside, any ASGI application inside, streaming (D37).

A request becomes a task on the event loop behind a portal, which runs in a
thread of its own. What the application sends comes back through a queue, so
an answer can be read while it is still being made. Closing an answer early
cancels its task, as a closed connection would. The queue has no bound: both
ends are one process, and there is no reader that is slower for being far away.
"""

from __future__ import annotations

import queue
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import Future
from typing import Any, Final

import anyio
import httpx
from anyio.from_thread import BlockingPortal

Message = MutableMapping[str, Any]
"""One ASGI message; the standard gives it no narrower type."""
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

ADDRESS: Final = "http://local.baton"
"""The address requests of local mode carry. It is never resolved."""


class LocalTransport(httpx.BaseTransport):
    """Carries requests to `app` on `portal`'s event loop. Whoever opened the two closes them."""

    def __init__(self, portal: BlockingPortal, app: Application) -> None:
        self._portal = portal
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer as soon as it begins; its body follows as it is made."""
        messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
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


class _Body(httpx.SyncByteStream):
    """The rest of an answer, part by part."""

    def __init__(
        self, messages: queue.SimpleQueue[Message | None], task: Future[None], answer_s_max: float | None
    ) -> None:
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
            message = self._messages.get(timeout=self._answer_s_max)
        except queue.Empty as error:
            raise httpx.ReadTimeout(f"no answer within {self._answer_s_max} s") from error
        if message is None:
            raise httpx.RemoteProtocolError(f"the local server broke off: {self._task.exception()!r}")
        return message

    def close(self) -> None:
        """Read no more. A task that is not done is cancelled."""
        self._task.cancel()


async def _serve(app: Application, scope: Message, content: bytes, messages: queue.SimpleQueue[Message | None]) -> None:
    """Run `app` on one request; put what it sends into `messages`, and None when it ends."""
    unread = [content]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        messages.put(message)

    try:
        await app(scope, receive, send)
    finally:
        messages.put(None)


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
