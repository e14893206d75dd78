"""A client of the published protocol: a token, JSON over HTTP, and nothing but the standard library.

It is written from the published documents alone, so that what works with it
works with any client of that protocol.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from batonpass.conformance.proxy import Ask, Record, Reply

ANSWER_S_MAX: Final = 30.0


@dataclass(frozen=True)
class Answer:
    """One answer: the status, the body as JSON, and the headers in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return http.client.OK <= self.status < http.client.MULTIPLE_CHOICES

    @property
    def code(self) -> str | None:
        """Return the code of a refusal, None for what was granted. About records it stands by itself."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return error["code"] if isinstance(error, dict) else error


class Client:
    """Whoever holds `token`, speaking to the server at `address`; `record` gets what was asked and answered."""

    def __init__(self, address: str, token: str | None, *, record: Record | None = None) -> None:
        parts = urlsplit(address)
        self._host, self._port, self.token = parts.hostname or "", parts.port, token
        self._record = record

    def get(self, path: str, **query: object) -> Answer:
        """Ask for what is at `path`."""
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: object = None) -> Answer:
        """Send a body, an empty object if none is given."""
        return self.ask("POST", path, {} if body is None else body)

    def put(self, path: str, body: object = None) -> Answer:
        """Send a body by PUT, an empty object if none is given."""
        return self.ask("PUT", path, {} if body is None else body)

    def delete(self, path: str, body: object = None) -> Answer:
        """Send a DELETE, with a body where the route wants one."""
        return self.ask("DELETE", path, body)

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request on a connection of its own and return the answer, whatever its status."""
        raw = None if body is None else json.dumps(body).encode()
        return self.send(method, path, raw)

    def send(self, method: str, path: str, raw: bytes | None) -> Answer:
        """Send a body that is bytes already."""
        headers = {"Content-Type": "application/json"} if raw is not None else {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        asked = self._record.number() if self._record is not None else 0
        connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_S_MAX)
        try:
            connection.request(method, path, body=raw, headers=headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        named = {name.lower(): value for name, value in response.getheaders()}
        if self._record is not None:
            lower = {name.lower(): value for name, value in headers.items()}
            self._record.note(asked, Ask(method, path, lower, raw or b""), Reply(response.status, content, named))
        return Answer(response.status, json.loads(content) if content else None, named)
