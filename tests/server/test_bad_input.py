"""Whatever is sent to whichever door, the answer is an answer, in the one shape, and a refusal has changed nothing (D16b).

Each test walks `batonpass.testing.doors`, which has every route. A finding is a
sentence; a test expects none.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import httpx
import msgspec
import pytest

from batonpass.core.errors import BatonError
from batonpass.core.ids import NODE_ID_BYTES_MAX
from batonpass.server.http.bodies import BODY_BYTES_MAX
from batonpass.testing.clock import ManualClock
from batonpass.testing.doors import DOORS, Door
from batonpass.testing.populated import FREE, Fleet, Populated, contents, serving
from batonpass.testing.server import InProcessServer
from batonpass.wire.errors import HTTP_STATUS

pytestmark = pytest.mark.anyio

WITH_BODY: Final = [door for door in DOORS if door.kind is not None]
STATUS_OF: Final[Mapping[str, int]] = {kind.code: status for kind, status in HTTP_STATUS.items()}
REFUSALS: Final = range(400, 500)


@dataclass(frozen=True, slots=True)
class Try:
    """One request, and what may become of it: one of `allowed`, and a refusal in the one shape."""

    what: str
    method: str
    path: str
    content: bytes | Sequence[bytes] | None = None
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    token: str | bytes | None = None
    allowed: Sequence[int] = REFUSALS


@dataclass(frozen=True, slots=True)
class House:
    """A server over a database with a little of everything in it."""

    url: str
    server: InProcessServer
    fleet: Fleet
    clock: ManualClock

    def at(self, door: Door, what: str, **more: Any) -> Try:  # noqa: ANN401 — the fields of a Try
        """Return a try at `door` that would work but for `more`."""
        body = json.dumps(door.body).encode() if door.kind is not None else None
        given: dict[str, Any] = {"path": door.path(self.fleet), "content": body, "token": door.token(self.fleet)}
        return Try(f"{door.name}: {what}", door.method, **{**given, **more})

    async def send(self, attempt: Try) -> httpx.Response:
        """Send one request just as it is described."""
        headers: dict[str, str | bytes] = {"Content-Type": "application/json", **attempt.headers}
        if attempt.token is not None:
            bearer = attempt.token if isinstance(attempt.token, bytes) else attempt.token.encode()
            headers["Authorization"] = b"Bearer " + bearer
        content = attempt.content if isinstance(attempt.content, bytes | None) else _chunks(attempt.content)
        raw = [
            (name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers.items()
        ]
        return await self.server.http.request(attempt.method, attempt.path, content=content, headers=raw)

    async def findings(self, tries: Iterable[Try]) -> list[str]:
        """Send all of `tries`, none of which may change anything; return what was wrong, a sentence each."""
        before = contents(self.url)
        found = [finding for attempt in tries for finding in _judged(attempt, await self.send(attempt))]
        after = contents(self.url)
        return found + [f"{table} has changed" for table in before if before[table] != after[table]]


async def _chunks(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def _judged(attempt: Try, answer: httpx.Response) -> Iterator[str]:
    if answer.status_code not in attempt.allowed:
        yield f"{attempt.what}: {answer.status_code} {answer.text[:200]}"
    if answer.is_error and (why := _misshapen(answer)) is not None:
        yield f"{attempt.what}: {answer.status_code} {why}: {answer.text[:200]}"


def _misshapen(answer: httpx.Response) -> str | None:
    """Return what is wrong with the shape of a refusal, or None."""
    if answer.headers.get("content-type") != "application/json":
        return f"is {answer.headers.get('content-type')}"
    match answer.json():
        case {"error": {"code": str(code), "message": str(message), **rest}, **beside}:
            if STATUS_OF.get(code) != answer.status_code:
                return f"is no status for {code}"
            if not message or set(rest) - {"details", "field"} or set(beside) - {"holder"}:
                return "has something else beside or inside"
            return None
        case _:
            return "is not the envelope"


@pytest.fixture
async def house(populated: Populated) -> AsyncIterator[House]:
    clock = populated.fleet.clock()
    async with serving(populated.url, clock=clock, token=populated.fleet.admin) as server:
        yield House(populated.url, server, populated.fleet, clock)


# --- bodies that are none ---------------------------------------------------------------------------------------------

UNREADABLE: Final = {
    "not JSON": b"nope",
    "half an object": b'{"a": 1',
    "two objects": b"{}{}",
    "a comma too many": b'{"a": 1,}',
    "an array": b"[]",
    "a text": b'"{}"',
    "a number": b"1",
    "null": b"null",
    "a key twice": b'{"a": 1, "a": 2}',
    "a key twice, further in": b'{"a": [{"b": 1, "b": 2}]}',
    "a key twice, once escaped": b'{"a": 1, "\\u0061": 2}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": [Infinity]}',
    "minus Infinity": b'{"a": -Infinity}',
    "beyond a double": b'{"a": 1e999}',
    "thousands of digits": b'{"a": %s}' % (b"9" * 5000),
    "arrays, very deep": b'{"a": %s' % (b"[" * 100_000),
    "objects, very deep": b'{"a":' * 100_000,
    "deep and closed": b'{"a": %s%s}' % (b"[" * 100_000, b"]" * 100_000),
    "bytes that are no UTF-8": b'{"a": "\xff"}',
    "an overlong NUL": b'{"a": "\xc0\x80"}',
    "a surrogate as bytes": b'{"a": "\xed\xa0\x80"}',
    "a bare NUL": b'{"a": "\x00"}',
    "UTF-16": '{"a": "b"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"a": "\\u0000"}'.encode("utf-16-le"),
    "UTF-32": '{"a": "b"}'.encode("utf-32"),
}


async def test_a_body_that_is_no_json_object_is_a_bad_request_at_every_door(house: House) -> None:
    tries = [house.at(door, what, content=raw, allowed=[400]) for door in WITH_BODY for what, raw in UNREADABLE.items()]

    assert await house.findings(tries) == []


async def test_a_body_over_a_mebibyte_is_too_large_at_every_door_whether_it_says_so_or_not(house: House) -> None:
    filling = b" " * BODY_BYTES_MAX
    tries = [
        attempt
        for door in WITH_BODY
        for body in [json.dumps(door.body).encode()]
        for attempt in (
            house.at(door, "declared", content=filling + body, allowed=[413]),
            house.at(door, "in chunks", content=[filling[:-1], body], allowed=[413]),
        )
    ]

    assert await house.findings(tries) == []
