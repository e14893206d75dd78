"""A client of a scripted server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from batonpass.client.client import Client, Patience
from batonpass.core import points
from batonpass.testing.scripted import ManualSeconds, ScriptedServer


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
