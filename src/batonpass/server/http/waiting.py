"""Waiting for a change on behalf of a client: while it is there, and no longer.

The HTTP server does not stop a handler whose client has gone. It says so once
somebody asks for the next message of the request, which has none left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Final, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from batonpass.core.errors import Invalid
from batonpass.core.ids import Instant
from batonpass.server.http.call import Call
from batonpass.server.services.choosing import Choice, Taken, Wish
from batonpass.server.services.feed import Feed, Place
from batonpass.server.services.lines import Found, Launched, Waiter
from batonpass.wire.events import STREAM, WAIT_S_MAX

SECONDS_DIGITS_MAX: Final = 4


class Timed(Protocol):
    """An answer of the queue, which says of which moment it is."""

    @property
    def now(self) -> Instant:
        """The database's time when it was read."""
        ...


P = TypeVar("P", bound=Timed)


def wait_s(asked: Mapping[str, str]) -> int:
    """Return how long a client would wait, in whole seconds: the query parameter `wait`, 0 without one."""
    text = asked.get("wait", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > SECONDS_DIGITS_MAX or int(text) > WAIT_S_MAX:
        raise Invalid(f"wait: a whole number of seconds from 0 to {WAIT_S_MAX}", field="wait")
    return int(text)


@asynccontextmanager
async def client_of(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    """Yield a future that is done when the client is gone. The request's body must have been read."""
    gone = asyncio.create_task(_until_gone(receive), name="client")
    try:
        yield gone
    finally:
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


@asynccontextmanager
async def place_of(feed: Feed, receive: Receive) -> AsyncIterator[Place]:
    """Take a place among those who wait for as long as the client is there; `RateLimited` when there is none."""
    async with client_of(receive) as gone:
        with feed.place(gone) as place:
            yield place


class Stream(Response):
    """A body that is sent as it comes to be, for as long as its client listens and the server goes on.

    `holding` is entered before the response is made, by whoever may still
    refuse; it is left when the stream has ended.
    """

    media_type = STREAM

    def __init__(self, place: Place, chunks: AsyncIterator[bytes], holding: AbstractContextManager[object]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._place = place
        self._chunks = chunks
        self._holding = holding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head and then each chunk; the end is a proper one, unless the client went first."""
        del scope
        with self._holding:
            async with client_of(receive) as gone:
                gone.add_done_callback(self._place.end)
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                async for chunk in self._chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def when_changed(call: Call, project: str | None, read: Callable[[], Awaitable[P]]) -> tuple[P, str]:
    """Return a page of a project's queue and the position it shows; with `wait` and `after`, once something changed.

    The position is taken before the page is read, so what the page does not
    show lies behind it. It may lag: then the next wait ends at once.
    """
    feed, within_s, text = call.services.feed, wait_s(call.query), call.query.get("after")
    if within_s and not text:
        raise Invalid("wait: needs `after`, the `seq` of an earlier answer", field="wait")
    after = feed.parse(text, field="after") if text else None
    if within_s and after is not None:
        scope = await call.services.queue.scope(project)
        async with place_of(feed, call.request.receive) as place:
            if after.at is None or not await feed.freed(after.at, scope):
                await place.changed(after.seq, scope, within_s=within_s)
    seq = feed.mark
    page = await read()
    return page, feed.position(seq, page.now)


async def when_there(
    call: Call, wish: Wish, attempt: Callable[[], Awaitable[Choice]], *, within_s: int
) -> tuple[Taken | None, int]:
    """Return what `attempt` takes for `wish`: at once, or in line with the others as soon as there is something.

    And how long the request had waited when the last try began, in milliseconds: what a lease lasts counts from there.
    """
    if not within_s:
        return (await attempt()).taken, 0
    timed = _Timed(call, attempt)
    async with place_of(call.services.feed, call.request.receive) as place:
        scope = await call.services.queue.scope(wish.project)
        key = (call.principal.id, wish.accept, wish.types, wish.exclude, wish.candidates)
        part = wish.part if wish.candidates is None else None
        session = wish.session or call.principal.session
        launch = Launched(call.principal.id, session) if wish.dispatch is not None else None
        waiter = Waiter(call.principal.id, key, timed, place, part=part, launch=launch)
        taken = await call.services.lines.take(scope, waiter, within_s=within_s)
    return taken, timed.waited_ms


async def require_known_still(call: Call) -> None:
    """Raise `Unauthorized` when the token of `call` opens nothing any more: a wait is long enough for it to end."""
    await call.services.identity.authenticate(call.request.headers["authorization"].partition(" ")[2].strip())


class _Timed:
    """An attempt that knows how long after it was made it was last begun."""

    def __init__(self, call: Call, attempt: Callable[[], Awaitable[Choice]]) -> None:
        self._call = call
        self._attempt = attempt
        self._made_s = time.monotonic()
        self.waited_ms = 0

    async def __call__(self) -> Found[Taken]:
        self.waited_ms = int((time.monotonic() - self._made_s) * 1000)
        await require_known_still(self._call)
        choice = await self._attempt()
        return Found(choice.taken, choice.rest)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
