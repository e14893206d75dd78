"""Walk many doors with many requests, and say in a sentence each what was wrong with an answer.

    async with walk_through(populated) as walk:
        assert await walk.findings([walk.at(door, "no object", content=b"[]", allowed=[400]) for door in DOORS]) == []

A walk is for requests that must change nothing: it compares every row of the
database before and after.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from batonpass.testing.clock import ManualClock
from batonpass.testing.doors import Door
from batonpass.testing.populated import Fleet, Populated, contents, serving
from batonpass.testing.server import InProcessServer
from batonpass.wire.errors import HTTP_STATUS, RECORD_ERRORS, is_of_records
from batonpass.wire.records import RecordErrorBody

REFUSALS: Final = range(400, 500)
Contents = Mapping[str, list[tuple[object, ...]]]
_RECORD_STATUS_OF: Final[Mapping[str, int]] = dict(RECORD_ERRORS.values())
_BESIDE_A_CODE: Final = set(RecordErrorBody.__struct_fields__)
_STATUS_OF: Final[Mapping[str, int]] = {kind.code: status for kind, status in HTTP_STATUS.items()}


@dataclass(frozen=True, slots=True)
class Try:
    """One request, and the statuses that may become of it. `content` in parts is sent in chunks."""

    what: str
    method: str
    path: str
    content: bytes | Sequence[bytes] | None = None
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    token: str | bytes | None = None
    allowed: Collection[int] = REFUSALS


@dataclass(frozen=True, slots=True)
class Walk:
    """A server over a database that has been worked with, and those who work in it."""

    url: str
    server: InProcessServer
    fleet: Fleet
    clock: ManualClock

    def at(self, door: Door, what: str, **more: Any) -> Try:  # noqa: ANN401 — the fields of a Try
        """Return a try at `door` that would open it but for `more`; `what` says in a finding what was tried."""
        body = json.dumps(door.body).encode() if door.kind is not None else None
        given = {
            "method": door.method,
            "path": door.path(self.fleet),
            "content": body,
            "token": door.token(self.fleet),
        }
        return Try(f"{door.name}: {what}", **{**given, **more})

    async def send(self, attempt: Try) -> httpx.Response:
        """Send one request just as it is described."""
        headers: dict[str, str | bytes] = {"Content-Type": "application/json", **attempt.headers}
        if attempt.token is not None:
            headers["Authorization"] = b"Bearer " + _bytes(attempt.token)
        content = attempt.content if isinstance(attempt.content, bytes | None) else _chunks(attempt.content)
        raw = [(name.encode(), _bytes(value)) for name, value in headers.items()]
        return await self.server.http.request(attempt.method, attempt.path, content=content, headers=raw)

    async def findings(self, tries: Iterable[Try]) -> list[str]:
        """Send all of `tries`, none of which may change anything; return what was wrong."""
        before = contents(self.url)
        found = [finding for attempt in tries for finding in judged(attempt, await self.send(attempt))]
        return found + self._changes(before)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Assert at the end of the block that no row of the database has changed in it."""
        before = contents(self.url)
        yield
        assert self._changes(before) == []

    def _changes(self, before: Contents) -> list[str]:
        after = contents(self.url)
        return [f"{table} has changed" for table in before if before[table] != after[table]]


@asynccontextmanager
async def walk_through(populated: Populated) -> AsyncIterator[Walk]:
    """Serve a populated database while the block runs."""
    clock = populated.fleet.clock()
    async with serving(populated.url, clock=clock, token=populated.fleet.admin) as server:
        yield Walk(populated.url, server, populated.fleet, clock)


def judged(attempt: Try, answer: httpx.Response) -> Iterator[str]:
    """Yield what is wrong with an answer: a status that is not allowed, a refusal in another shape."""
    if answer.status_code not in attempt.allowed:
        yield f"{attempt.what}: {answer.status_code} {answer.text[:200]}"
    if answer.is_error and (why := _misshapen(answer)) is not None:
        yield f"{attempt.what}: {answer.status_code} {why}: {answer.text[:200]}"


def _misshapen(answer: httpx.Response) -> str | None:
    """Return what is wrong with how a refusal is told: in the shape of its route, which below /v1/records is flat."""
    if answer.headers.get("content-type") != "application/json":
        return f"is {answer.headers.get('content-type')}"
    if is_of_records(answer.request.url.path) != isinstance(answer.json().get("error"), str):
        return "is in the shape of other routes"
    match answer.json():
        case {"error": {"code": str(code), "message": str(message), **rest}, **beside}:
            if _STATUS_OF.get(code) != answer.status_code:
                return f"is not the status of {code}"
            if not message or set(rest) - {"details", "field"} or set(beside) - {"holder"}:
                return "has nothing to say, or something beside the envelope"
            return None
        case {"error": str(code), "message": str(message), **rest} if code in _RECORD_STATUS_OF:
            if _RECORD_STATUS_OF[code] != answer.status_code:
                return f"is not the status of {code}"
            if not message or set(rest) - _BESIDE_A_CODE:
                return "has nothing to say, or something beside the shape of records"
            return None
        case _:
            return "is not the envelope"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


async def _chunks(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
