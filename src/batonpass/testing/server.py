"""The real server for tests: in the test's own process without a socket, or as a process of its own.

``python -m batonpass.testing.server --db URL`` is what `batonpass.testing.processes`
starts: the application as it is served in production, with a clock that other
processes move (``--clock``), ending when its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
from starlette.applications import Starlette

from batonpass.cli.serving import Server
from batonpass.core.clock import Clock
from batonpass.core.identity import Person
from batonpass.server.app import create_app
from batonpass.server.services.bundle import Services
from batonpass.server.services.identity import Identity, bootstrap
from batonpass.server.services.keys import Keys
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.server.services.tokens import Tokens
from batonpass.server.sockets import listen
from batonpass.store.base import Store
from batonpass.store.open import open_store
from batonpass.testing.clock import SharedClock

ADMIN_NAME: Final = "Ada Admin"
ADMIN_EMAIL: Final = "ada@example.org"
SHUTDOWN_S_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class InProcessServer:
    """A running application.

    `admin` is its first person, `admin_token` the text of their token; `http`
    sends requests without any.
    """

    app: Starlette
    admin: Person
    admin_token: str
    http: httpx.AsyncClient

    @property
    def services(self) -> Services:
        """The services behind the routes, for what no route can see."""
        services: Services = self.app.state.services
        return services

    @property
    def store(self) -> Store:
        """The store behind the services."""
        return self.services.store

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request under `token`, the admin's if none is given, and return the response whatever its status."""
        sent = {"Authorization": f"Bearer {self.admin_token if token is None else token}", **(headers or {})}
        return await self.http.request(method, path, json=body, headers=sent)

    async def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
    ) -> Any:  # noqa: ANN401 — a reply as JSON, whatever the route's
        """Return the JSON of a reply that must be 2xx; header names are given with ``_`` for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.send(method, path, body, token=token, headers=named)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def add_person(self, name: str, *, admin: bool = False) -> str:
        """Make a person called `name` and return the text of a token of theirs."""
        person = await self.ask(
            "POST", "/v1/admin/people", {"name": name, "email": f"{name.lower()}@example.org", "admin": admin}
        )
        minted = await self.ask("POST", "/v1/admin/tokens", {"person": person["id"]})
        return str(minted["token"])

    async def add_agent(self, label: str, *, token: str | None = None, **wish: object) -> str:
        """Make ``agent-<label>`` of whoever `token` is and return the text of a token of its own, minted by `wish`."""
        await self.ask("POST", "/v1/agents", {"label": label}, token=token)
        minted = await self.ask("POST", f"/v1/agents/agent-{label}/token", wish, token=token)
        return str(minted["token"])

    async def add_key(self, name: str, **wish: object) -> str:
        """Make the API key `name` and return its text, minted by `wish`."""
        return str((await self.ask("POST", "/v1/admin/keys", {"name": name, **wish}))["token"])


@asynccontextmanager
async def in_process_server(
    url: str,
    *,
    clock: Clock | None = None,
    monotonic_s: Callable[[], float] = time.monotonic,
    accounts: ServiceAccounts | None = None,
) -> AsyncIterator[InProcessServer]:
    """Serve the empty database at `url`, with its first person made; `monotonic_s` is what tokens are remembered by.

    `accounts` are the service accounts that are believed.
    """
    store = await open_store(url, clock=clock)
    try:
        admin, secret = await bootstrap(store, name=ADMIN_NAME, email=ADMIN_EMAIL)
        app = create_app(store)
        identity = Identity(store, accounts=accounts, monotonic_s=monotonic_s)
        tokens, keys = Tokens(store, identity.principals), Keys(store, identity.principals)
        app.state.services = replace(app.state.services, identity=identity, tokens=tokens, keys=keys)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://baton.test") as http:
            yield InProcessServer(app, admin, secret.reveal(), http)
    finally:
        await store.close()


async def first_token(url: str, *, clock: Clock | None = None) -> str:
    """Make the first person of the empty database at `url`, and return the text of their token."""
    store = await open_store(url, clock=clock)
    try:
        _, secret = await bootstrap(store, name=ADMIN_NAME, email=ADMIN_EMAIL)
        return secret.reveal()
    finally:
        await store.close()


# --- as a process of its own -----------------------------------------------------------------------------------------


async def serve(url: str, *, clock: Clock | None, port: int) -> None:
    """Serve the database at `url` on 127.0.0.1, telling standard output the port, until a signal says stop."""
    store = await open_store(url, clock=clock)
    try:
        with listen("127.0.0.1", port) as listening:
            server = Server(create_app(store), shutdown_s_max=SHUTDOWN_S_MAX)
            sys.stdout.write(json.dumps({"port": listening.getsockname()[1]}) + "\n")
            sys.stdout.flush()
            await server.serve(sockets=[listening])
    finally:
        await store.close()


def main() -> None:
    """Serve as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m batonpass.testing.server")
    parser.add_argument("--db", required=True, metavar="URL")
    parser.add_argument(
        "--clock", type=Path, metavar="FILE", help="a SharedClock's file; the database's clock otherwise"
    )
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    threading.Thread(target=_end_with_the_test, name="end of input", daemon=True).start()
    asyncio.run(serve(asked.db, clock=SharedClock(asked.clock) if asked.clock else None, port=asked.port))


def _end_with_the_test() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
