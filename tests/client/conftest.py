"""A client of a scripted server, and a real server in this process."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from batonpass.client.client import Client, Patience
from batonpass.core import points
from batonpass.testing.scripted import ManualSeconds, ScriptedServer
from batonpass.testing.world import World, world_of


@pytest.fixture
def clock() -> ManualSeconds:
    return ManualSeconds()


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def slept() -> list[float]:
    """How long the client has paused, instead of pausing."""
    return []


@pytest.fixture
def client(server: ScriptedServer, slept: list[float]) -> Client:
    patience = Patience(sleep=slept.append, jitter=lambda: 1.0)
    return Client("http://baton.test", "bat_pat_secret", transport=httpx.MockTransport(server), patience=patience)


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    points.armed.clear()


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def bare_world(database_url: str, portal: BlockingPortal) -> Iterator[World]:
    """A server with an admin and nothing else, on each database."""
    with world_of(database_url, portal) as world:
        yield world
