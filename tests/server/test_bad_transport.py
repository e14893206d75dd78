"""Requests as no client library sends them, over a socket to a server process: refused, and the server lives on.

On SQLite alone: none of these requests gets as far as the database.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from batonpass.testing.populated import Populated
from batonpass.testing.processes import server_process

ANSWER_S_MAX: Final = 20.0
MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wire:
    """A server's port, and a token that opens it."""

    port: int
    token: str

    def say(self, *parts: bytes) -> tuple[int, Any]:
        """Send bytes as they are on a connection of their own; return the first answer's status and body as JSON."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S_MAX) as connection:
            for part in parts:
                connection.sendall(part)
            return _answer(connection)

    def ask(self, line: str, *headers: str, body: bytes = b"") -> tuple[int, Any]:
        """Send one request, its line just as it is given."""
        named = [line, "Host: x", f"Authorization: Bearer {self.token}", *headers]
        return self.say("\r\n".join(named).encode() + b"\r\n\r\n" + body)


def _answer(connection: socket.socket) -> tuple[int, Any]:
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        assert more, f"hung up after {received!r}"
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(65536)
    status = int(head.split()[1])
    try:
        return status, json.loads(body)
    except ValueError:
        return status, body


@pytest.fixture
def wire(populated_sqlite: Populated) -> Iterator[Wire]:
    with server_process(populated_sqlite.url) as server:
        wire = Wire(server.port, populated_sqlite.fleet.admin)
        yield wire
        assert wire.ask("GET /v1/status HTTP/1.1")[0] == 200, "it does not live on"


def test_a_path_is_taken_as_it_is_written_and_leads_nowhere_else(wire: Wire) -> None:
    for path in ("/v1/nodes/..", "/v1/nodes/../claim", "/v1/nodes/task-a%2Fb", "/v1/nodes/task-free/", "//", "*"):
        status, body = wire.ask(f"GET {path} HTTP/1.1")

        assert (path, status) in {(path, 404), (path, 405), (path, 422)}
        assert set(body) == {"error"}, path


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(wire: Wire) -> None:
    status, body = wire.ask("POST /v1/nodes HTTP/1.1", f"Content-Length: {MEBIBYTE + 1}")

    assert (status, body["error"]["code"]) == (413, "too_large")


def test_a_body_in_chunks_is_refused_as_soon_as_it_is_too_large(wire: Wire) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    status, body = wire.ask("POST /v1/nodes HTTP/1.1", "Transfer-Encoding: chunked", body=chunk * 17)

    assert (status, body["error"]["code"]) == (413, "too_large")


def test_a_length_that_is_no_number_never_reaches_a_route(wire: Wire) -> None:
    assert wire.ask("POST /v1/nodes HTTP/1.1", "Content-Length: many")[0] == 400


def test_what_is_not_http_is_refused(wire: Wire) -> None:
    for noise in (b"\0\xff\n\n", b"GET\r\n\r\n", b"POST /v1/nodes HTTP/9.9\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
        assert (noise, wire.say(noise)[0]) == (noise, 400)


def test_a_client_that_hangs_up_in_the_middle_disturbs_nobody(wire: Wire) -> None:
    with socket.create_connection(("127.0.0.1", wire.port), timeout=ANSWER_S_MAX) as connection:
        head = (
            f"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wire.token}\r\nContent-Length: 100\r\n\r\n"
        )
        connection.sendall(head.encode() + b'{"nodes":')
