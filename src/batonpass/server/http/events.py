"""GET /v1/events and GET /v1/changes: the feed, page by page, waited for, or as a stream (D15a)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec
from starlette.responses import Response

from batonpass.core.clock import instant_of
from batonpass.core.errors import Invalid, Resync, Unauthorized
from batonpass.core.feed import Topic, is_position
from batonpass.core.ids import Instant, parse_node_id, shown
from batonpass.core.nodes import parse_slug
from batonpass.core.records import Identity, identity_of, parse_class_name, parse_field_name, parse_record_path
from batonpass.server.http.call import Call, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.http.waiting import Stream, place_of, require_known_still, wait_s
from batonpass.server.services.feed import Feed, Page, Place
from batonpass.wire.errors import error_body
from batonpass.wire.events import (
    LAST_EVENT_ID,
    LIMIT,
    LIMIT_MAX,
    STREAM,
    ChangesReply,
    EventBody,
    EventsReply,
    event_body,
)

HEARTBEAT_S: Final = 15.0
"""A stream says something at least so often, so that whoever carries it does not take it for dead."""
RETRY_MS: Final = 1_000
"""How long a browser waits before it connects again."""
KIND_CHARS_MAX: Final = 60
KINDS_MAX: Final = 20
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader begins: behind a number, or `at` a moment, which is somewhere behind it."""

    seq: int
    at: Instant | None = None

    async def read(self, feed: Feed, topic: Topic, *, viewer: Identity, limit: int) -> Page:
        """Return the first page. What is older than the moment is passed over; all of the page may be."""
        found = await feed.read(self.seq, topic, viewer=viewer, limit=limit)
        if self.at is None:
            return found
        return replace(found, events=tuple(event for event in found.events if event.at >= self.at))


async def page(call: Call) -> Response:
    """Read what happened after a position, wait for it, or listen to it as a stream of server-sent events."""
    asked, feed, viewer = call.query, call.services.feed, identity_of(call.principal.id)
    topic = _topic(asked, kinds=_kinds(asked.get("kind")))
    limit = _limit(asked)
    if STREAM in call.request.headers.get("accept", ""):
        # A browser that connects again says where it was, under the same address as before.
        start = await _start(feed, call.request.headers.get(LAST_EVENT_ID) or asked.get("after"), field="after")
        return await _stream(call, topic, start)
    start, within_s = await _start(feed, asked.get("after"), field="after"), wait_s(asked)
    found = await start.read(feed, topic, viewer=viewer, limit=limit)
    if within_s and not found.events:
        read = functools.partial(feed.read, topic=topic, viewer=viewer, limit=limit, fresh=False)
        async with place_of(feed, call.request.receive) as place:
            found = await _next(place, topic, read, found, within_s=within_s)
    return reply(EventsReply(_bodies(found), feed.position(found.next.seq), found.more))


async def changes(call: Call) -> Response:
    """Read what happened to nodes since a position or a moment."""
    asked, feed = call.query, call.services.feed
    start = await _start(feed, asked.get("since"), field="since")
    topic, viewer = _topic(asked, kinds=("node",)), identity_of(call.principal.id)
    found = await start.read(feed, topic, viewer=viewer, limit=_limit(asked))
    return reply(ChangesReply(_bodies(found), feed.position(found.next.seq), found.more))


async def _next(
    place: Place, topic: Topic, read: Callable[[int], Awaitable[Page]], found: Page, *, within_s: float
) -> Page:
    """Return the first page that has something, or the one at hand when the wait is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not found.events and not place.over and loop.time() < deadline:
        if not found.more:
            await place.changed(found.next.seq, topic, within_s=deadline - loop.time())
        found = await read(found.next.seq)
    return found


async def _stream(call: Call, topic: Topic, start: Start) -> Response:
    """Return a stream that has its place, and a first page: until then it may still be refused.

    It ends when its token does, or soon after, and when its reader has fallen behind what is kept.
    """
    feed, viewer, loop = call.services.feed, identity_of(call.principal.id), asyncio.get_running_loop()
    with ExitStack() as stack:
        place = stack.enter_context(feed.place())
        first = await start.read(feed, topic, viewer=viewer, limit=LIMIT_MAX)

        async def chunks() -> AsyncIterator[bytes]:
            yield f"retry: {RETRY_MS}\n\n".encode()
            found, known_s, beat_s = first, loop.time(), loop.time() - HEARTBEAT_S
            while not place.over:
                # A beat comes when it is due and at no other time: nobody can see from it when something happened that
                # is not theirs to see.
                if found.events or loop.time() - beat_s >= HEARTBEAT_S:
                    beat_s = loop.time()
                    yield b"".join(_sent(feed, body) for body in _bodies(found)) or _heartbeat(feed, found)
                if not found.more:
                    within_s = max(beat_s + HEARTBEAT_S - loop.time(), 0)
                    await place.changed(found.next.seq, topic, within_s=within_s)
                try:
                    if loop.time() - known_s >= HEARTBEAT_S:
                        known_s = loop.time()
                        await require_known_still(call)
                    found = await feed.read(found.next.seq, topic, viewer=viewer, limit=LIMIT_MAX, fresh=False)
                except (Resync, Unauthorized) as error:
                    yield f"event: {error.code}\ndata: ".encode() + _encode(error_body(error)) + b"\n\n"
                    return

        return Stream(place, chunks(), stack.pop_all())


def _sent(feed: Feed, body: EventBody) -> bytes:
    return f"id: {feed.position(body.seq)}\ndata: ".encode() + _encode(body) + b"\n\n"


def _heartbeat(feed: Feed, found: Page) -> bytes:
    """Return a comment with a position: a stream that is narrow resumes where it was, not at its last event."""
    return f": still here\nid: {feed.position(found.next.seq)}\n\n".encode()


def _bodies(found: Page) -> list[EventBody]:
    return [event_body(event) for event in found.events]


async def _start(feed: Feed, text: str | None, *, field: str) -> Start:
    """Return where a reader begins; without a position, at the beginning of what is kept."""
    match text:
        case None | "":
            return Start(0)
        case "now":
            return Start(await feed.now())
        case _ if is_position(text):
            return Start(feed.parse(text, field=field).seq)
        case _:
            at = _moment(text, field=field)
            return Start(await feed.since(at), at)


def _topic(asked: Mapping[str, str], *, kinds: tuple[str, ...] | None) -> Topic:
    project, node = asked.get("project"), asked.get("node")
    record, record_class, field = asked.get("record"), asked.get("class"), asked.get("field")
    return Topic(
        project=parse_slug(project, name="project") if project is not None else None,
        kinds=kinds,
        node=parse_node_id(node, field="node") if node is not None else None,
        record=str(parse_record_path(record)) if record is not None else None,
        record_class=parse_class_name(record_class) if record_class is not None else None,
        field=parse_field_name(field) if field is not None else None,
    )


def _kinds(text: str | None) -> tuple[str, ...] | None:
    """Return the kinds of a list; any word may be one, since the set of kinds is open."""
    if not text:
        return None
    kinds = tuple(part for part in text.split(",") if part)
    if len(kinds) > KINDS_MAX or any(len(kind) > KIND_CHARS_MAX for kind in kinds):
        raise Invalid(f"kind: at most {KINDS_MAX} kinds of {KIND_CHARS_MAX} characters", field="kind")
    return kinds


def _limit(asked: Mapping[str, str]) -> int:
    return min(whole_number(asked.get("limit"), "limit", default=LIMIT), LIMIT_MAX)


def _moment(text: str, *, field: str) -> Instant:
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))  # a plus that was not escaped arrives as a blank
    except ValueError as error:
        raise Invalid(f"{field}: {shown(text)} is neither a position nor a moment", field=field) from error
    if at.tzinfo is None:
        raise Invalid(f"{field}: a moment needs its offset: 2026-10-01T22:05:36+00:00", field=field)
    return instant_of(at)
