"""A server in this process for tests of the client: both clocks in one hand, answers lost or late at will."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import httpx
from anyio.from_thread import BlockingPortal

from batonpass.client.client import Client, Patience
from batonpass.client.local import ADDRESS, LocalTransport
from batonpass.core.identity import agent_id_for
from batonpass.server.app import create_app
from batonpass.server.services.identity import bootstrap
from batonpass.store.open import open_store
from batonpass.testing.clock import ManualClock
from batonpass.testing.scripted import ManualSeconds

INCIDENTS: Final[Mapping[str, object]] = {
    "fields": {
        "status": {"type": "register"},
        "progress": {"type": "register"},
        "actions_taken": {"type": "append", "cap": 100},
        "remediation": {"type": "task", "lease": "300s"},
    },
    "roles": {"crew": {"identities": ["agent:*", "apikey:crew/*"], "read": "*", "write": "*", "claim": "*"}},
}
"""A class of records that every agent, and every API key of the crew, may do everything with."""


class LossyTransport(httpx.BaseTransport):
    """Delivers every request, and loses the answers of the next `losing` ones on their way back.

    `on_answer` is called with each request that was answered, before its answer
    goes on: it may wait, and what it raises comes in the answer's place.
    """

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.losing = 0
        self.on_answer: Callable[[httpx.Request], None] = _let_go

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer to `request`, if it is not to be lost."""
        response = self._inner.handle_request(request)
        if self.losing > 0:
            self.losing -= 1
            response.read()
            raise httpx.ReadTimeout("the answer is lost")
        self.on_answer(request)
        return response


@dataclass
class World:
    """A server with an admin, and both clocks in one hand."""

    transport: LossyTransport
    admin_token: str
    database_clock: ManualClock
    seconds: ManualSeconds

    def client(self, token: str | None = None) -> Client:
        """Return a client under `token`, the admin's if none is given; it tries three times without a pause."""
        patience = Patience(tries_max=3, sleep=lambda _: None)
        return Client(ADDRESS, token or self.admin_token, transport=self.transport, patience=patience)

    def agent(self, label: str) -> Client:
        """Return a client of a new agent of the admin's."""
        admin = self.client()
        agent = admin.add_agent(label=label).id
        return self.client(admin.mint_standing_token(agent_id_for(agent), label="tests").token)

    def key(self, name: str) -> Client:
        """Return a client of a new API key."""
        return self.client(self.client().mint_key(name).token)

    def lose_the_next_answer(self) -> None:
        """Let the next request be carried out, and its answer be lost."""
        self.transport.losing = 1

    def pass_time(self, span: timedelta) -> None:
        """Let `span` pass for the database and for the clients."""
        self.database_clock.advance(span)
        self.seconds.advance(span.total_seconds())


@contextmanager
def world_of(database_url: str, portal: BlockingPortal) -> Iterator[World]:
    """Serve a new database at `database_url` on `portal`'s event loop until the end of the block."""
    clock = ManualClock()
    store = portal.call(functools.partial(open_store, database_url, clock=clock))
    try:
        _, secret = portal.call(functools.partial(bootstrap, store, name="Ada Admin", email="ada@example.org"))
        transport = LossyTransport(LocalTransport(portal, create_app(store)))
        yield World(transport, secret.reveal(), clock, ManualSeconds())
    finally:
        portal.call(store.close)


def _let_go(_request: httpx.Request) -> None:
    """Hold nothing up."""
