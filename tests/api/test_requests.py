"""What holds for every operation, whatever the document says: HEAD, media types, lengths that lie, endless names."""

from __future__ import annotations

import json
import socket
from typing import Final

import pytest

from batonpass.core.ids import NODE_ID_BYTES_MAX
from batonpass.testing.doors import DOORS, Door
from batonpass.testing.populated import Populated
from batonpass.testing.processes import server_process
from batonpass.testing.walks import Walk
from batonpass.wire import paths

READS: Final = [door for door in DOORS if door.method == "GET"]
WITH_BODY: Final = [door for door in DOORS if door.kind is not None]
TYPES: Final = (
    b"text/plain",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=x",
    b"\xff/nonsense",
    b"",
)
LONG: Final = "a" * 10_000
LENGTHS: Final = {"too little": (b"{}", 1), "too much": (b"{}", 3), "the truth": (b"{}", 2)}
ANSWER_S_MAX: Final = 20.0


@pytest.mark.anyio
async def test_head_is_answered_as_get_is(walk: Walk) -> None:
    found = []
    for door in READS:
        answers = [await walk.send(walk.at(door, method, method=method)) for method in ("GET", "HEAD")]
        status, media = (
            [answer.status_code for answer in answers],
            {answer.headers["content-type"] for answer in answers},
        )
        if status != [door.status] * 2 or len(media) != 1:
            found.append(f"{door.name}: {status} {media}")

    assert found == []


@pytest.mark.anyio
@pytest.mark.parametrize("media", TYPES)
async def test_a_body_is_read_as_json_whatever_type_it_says_it_is(walk: Walk, media: bytes) -> None:
    """A client that forgets the header is served; one that really sends a form is told that it is no JSON."""
    headers = {"Content-Type": media}
    found = []
    for door in WITH_BODY:
        misspelt = {**door.body, "colour": "red"}  # refused or overlooked by name, so it was read
        answer = await walk.send(walk.at(door, "JSON", content=json.dumps(misspelt).encode(), headers=headers))
        if "colour" not in f"{answer.text} {answer.headers.get('Baton-Ignored')}":
            found.append(f"{door.name}: {answer.status_code} {answer.text[:200]}")
        form = await walk.send(walk.at(door, "a form", content=b"session=s-1&force=1", headers=headers))
        if form.status_code != 400:
            found.append(f"{door.name}: {form.status_code} for a form")

    assert found == []


@pytest.mark.anyio
async def test_a_name_of_ten_kilobytes_is_refused_without_being_said_back(walk: Walk) -> None:
    """Case 166: at every parameter of a path, and as an unknown parameter, fence and key."""
    tries = [
        walk.at(door, "an id", path=door.path(walk.fleet, **{name: LONG}), allowed=[door.invalid])
        for door in DOORS
        for name in paths.parameters(door.template)
    ]
    tries += [
        walk.at(door, "a parameter", path=f"{door.path(walk.fleet)}?{LONG}=1", allowed=[door.invalid]) for door in READS
    ]
    tries += [
        walk.at(door, header, headers={header: LONG}, allowed=[door.invalid])
        for door in DOORS
        for header in (*(["If-Lease"] if door.writes else []), *(["Idempotency-Key"] if door.keyed else []))
    ]

    answers = [(attempt, await walk.send(attempt)) for attempt in tries]

    assert [(one.what, answer.status_code) for one, answer in answers if answer.status_code not in one.allowed] == []
    assert [one.what for one, answer in answers if len(answer.content) > 10 * NODE_ID_BYTES_MAX] == []


def test_a_length_that_lies_is_refused_and_takes_nothing_from_whoever_asks_next(populated_sqlite: Populated) -> None:
    """On SQLite alone: what a length is, is settled before a request gets as far as the database."""
    door = next(door for door in DOORS if door.template == paths.CLAIM)
    with server_process(populated_sqlite.url) as server:
        answers = {
            what: _exchange(server.port, door, populated_sqlite, body, length=length).split(b"\r\n")[0]
            for what, (body, length) in LENGTHS.items()
        }

    assert answers == {
        "the truth": b"HTTP/1.1 200 OK",
        "too little": b"HTTP/1.1 400 Bad Request",
        "too much": b"",
    }


def _exchange(port: int, door: Door, populated: Populated, body: bytes, *, length: int) -> bytes:
    """Send one request that says `length` of its body; return all that comes back until the server hangs up."""
    head = [
        f"{door.method} {door.path(populated.fleet)} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {populated.fleet.admin}",
        f"Content-Length: {length}",
        "Connection: close",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX) as connection:
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        if length > len(body):
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))
