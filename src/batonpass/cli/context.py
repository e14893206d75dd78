"""From options, environment and files to a client: commands begin here, and so may any program (`connect`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from batonpass.cli.options import Common
from batonpass.cli.render import warn
from batonpass.client import config
from batonpass.client.calls import Call
from batonpass.client.client import Answer, Client
from batonpass.client.config import Config, Value
from batonpass.core.errors import Unauthorized

T = TypeVar("T")


@contextmanager
def connected(common: Common) -> Iterator[Client]:
    """Speak to the configured server, or without one to this machine's own database."""
    found = config.load(os.environ, server=common.server)
    if found.server is None:
        from batonpass.cli.local import local_client

        with local_client(found.home, token=given_token(found)) as client:
            yield client
        return
    token = _required(found, found.server)
    if config.in_the_clear(found.server.text):
        warn(f"warning: {found.server.text} (from {found.server.source}) is not encrypted; others can read your token")
    with Client(found.server.text, token.text) as client:
        try:
            yield client
        except Unauthorized as error:
            error.add_note(f"the token came from {token.source}, the server from {found.server.source}")
            raise


@contextmanager
def connected_as_agent(common: Common) -> Iterator[Client]:
    """Speak with the configured token or, without a server, as this machine's own agent, whose runs its runs are."""
    found = config.load(os.environ, server=common.server)
    if found.server is not None:
        with connected(common) as client:
            yield client
        return
    from batonpass.cli.local import agent_token, database_url, local_server

    with (
        local_server(database_url(found.home)) as server,
        server.client(agent_token(server, found.home).token) as client,
    ):
        yield client


@contextmanager
def connect(*, server: str | None = None) -> Iterator[Client]:
    """Speak to what the commands speak to, as whom they do: for programs in Python (`baton whoami` shows who that is).

    That is `server`, else the configured one, else this machine's own
    database, for as long as the block lasts. `Unauthorized` when there is no
    token for a server.
    """
    with connected(Common(server=server)) as client:
        yield client


def ask(common: Common, call: Call[T]) -> Answer[T]:
    """Send one call and return its answer, or raise what became of it."""
    with connected(common) as client:
        return client.answer(call)


def given_token(found: Config) -> str | None:
    """Return a token from the environment; the stored one of local mode is that mode's own affair."""
    return found.token.text if found.token is not None and found.token.source == config.TOKEN else None


def _required(found: Config, server: Value) -> Value:
    if found.token is None:
        raise Unauthorized(
            f"there is no token for {server.text} (from {server.source}): set {config.TOKEN}, or store one with"
            " baton token save"
        )
    return found.token
