"""What stands between a server and whoever is graded: it passes on, writes down, and spoils what a scenario names.

A `Rule` sees each request before the server does. It may let it through and
change the answer, answer in the server's place, or cut the connection, after
the server has acted or before. Everything is numbered from one counter, asking
and answering alike, so that "only after" can be told from "before".
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

UPSTREAM_S_MAX: Final = 60.0
CONTROL: Final = "/_conformance/"
"""What is asked for below this is for the kit itself, and never reaches the server."""
_SECRETS: Final = frozenset({"token", "secret"})
_HOP_BY_HOP: Final = frozenset({"connection", "content-length", "date", "server", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True)
class Ask:
    """A request as it came in."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """Return the path without its query."""
        return urlsplit(self.target).path

    @property
    def data(self) -> Any:  # noqa: ANN401 — JSON
        """Return the body as JSON, None where it is none."""
        return parsed(self.body)


@dataclass(frozen=True)
class Reply:
    """An answer as it goes out."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:  # noqa: ANN401 — JSON
        """Return the body as JSON, None where it is none."""
        return parsed(self.body)

    def saying(self, data: object, *, status: int | None = None) -> Reply:
        """Return the same answer with another body, and perhaps another status."""
        return replace(self, status=self.status if status is None else status, body=json.dumps(data).encode())


Forward = Callable[[], Reply]
Rule = Callable[[Ask, Forward], "Reply | None"]
"""What becomes of a request: an answer, or None for a connection that is cut."""


@dataclass(frozen=True)
class Exchange:
    """One request and what became of it. `asked` and `answered` are places in one order of all that happened.

    `who` says whose token it was, never which. Secrets in the bodies are masked.
    """

    asked: int
    answered: int
    who: str
    method: str
    path: str
    query: str
    sent: Any
    status: int | None
    got: Any

    @property
    def ok(self) -> bool:
        """Whether it was granted: a 2xx that arrived."""
        return self.status is not None and http.client.OK <= self.status < http.client.MULTIPLE_CHOICES

    def told(self) -> dict[str, object]:
        """Return it as evidence for people and programs."""
        return {
            "asked": self.asked,
            "answered": self.answered,
            "as": self.who,
            "request": f"{self.method} {self.path}" + (f"?{self.query}" if self.query else ""),
            "sent": self.sent,
            "status": self.status,
            "got": self.got,
        }


class Record:
    """Everything that passed, in order; safe to read while it grows."""

    def __init__(self, whose: Mapping[str, str] | None = None) -> None:
        self._whose = dict(whose or {})
        self._numbers = itertools.count(1)
        self._exchanges: list[Exchange] = []
        self._changed = threading.Condition()

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return what is there by now, in the order in which it was asked."""
        with self._changed:
            return tuple(sorted(self._exchanges, key=lambda each: each.asked))

    def number(self) -> int:
        """Return the next place in the order."""
        with self._changed:
            return next(self._numbers)

    def note(self, asked: int, ask: Ask, reply: Reply | None) -> None:
        """Write down what became of a request; to be called before the answer goes out."""
        got = None if reply is None else reply.data
        with self._changed:
            if ask.path.endswith("/token") and isinstance(got, dict) and isinstance(got.get("token"), str):
                self._whose.setdefault(got["token"], "agent")
            self._exchanges.append(
                Exchange(
                    asked=asked,
                    answered=next(self._numbers),
                    who=self._who(ask.headers.get("authorization")),
                    method=ask.method,
                    path=ask.path,
                    query=urlsplit(ask.target).query,
                    sent=masked(ask.data),
                    status=None if reply is None else reply.status,
                    got=masked(got),
                )
            )
            self._changed.notify_all()

    def wait(self, is_there: Callable[[tuple[Exchange, ...]], bool], timeout_s: float) -> bool:
        """Return whether `is_there` holds, having waited for it at most `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: is_there(tuple(self._exchanges)), timeout_s)

    def _who(self, authorization: str | None) -> str:
        if authorization is None:
            return "nobody"
        return self._whose.get(authorization.removeprefix("Bearer "), "unknown token")


@contextmanager
def proxy(upstream: str, record: Record, *, rule: Rule | None = None, control: Rule | None = None) -> Iterator[str]:
    """Pass on to the server at `upstream` while the block runs; yields the address to ask instead of it."""
    at = urlsplit(upstream)

    def forward(ask: Ask) -> Reply:
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=UPSTREAM_S_MAX)
        try:
            headers = {name: value for name, value in ask.headers.items() if name not in {*_HOP_BY_HOP, "host"}}
            connection.request(ask.method, ask.target, body=ask.body or None, headers=headers)
            response = connection.getresponse()
            kept = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_BY_HOP}
            return Reply(response.status, response.read(), kept)
        except OSError as error:
            return refusal(502, "unavailable", f"the server behind the kit does not answer: {error}")
        finally:
            connection.close()

    def answer(ask: Ask) -> Reply | None:
        if ask.path.startswith(CONTROL):
            return control(ask, lambda: forward(ask)) if control is not None else None
        return rule(ask, lambda: forward(ask)) if rule is not None else forward(ask)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            ask = Ask(self.command, self.path, headers, self.rfile.read(length))
            asked = record.number()
            reply = answer(ask)
            record.note(asked, ask, reply)
            if reply is None:
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do  # noqa: N815 — the names are the base class's

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing about a client that went away."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="conformance proxy")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refusal(status: int, code: str, message: str) -> Reply:
    """Return a refusal in the protocol's envelope."""
    body = {"error": {"code": code, "message": message}}
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def parsed(raw: bytes) -> Any:  # noqa: ANN401 — JSON
    """Return bytes as JSON, None where they are none."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def masked(data: Any) -> Any:  # noqa: ANN401 — JSON
    """Return JSON without the secrets in it."""
    if isinstance(data, dict):
        return {
            key: "(masked)" if key in _SECRETS and isinstance(value, str) else masked(value)
            for key, value in data.items()
        }
    return [masked(each) for each in data] if isinstance(data, list) else data
