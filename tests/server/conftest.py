"""The server in process, on either database, with clocks that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server


@pytest.fixture
def clock() -> ManualClock:
    """The database's clock."""
    return ManualClock()


@pytest.fixture
def seconds() -> ManualSeconds:
    """The process's clock, by which tokens are remembered; it stands still while the database's moves."""
    return ManualSeconds()


@pytest.fixture
async def server(database_url: str, clock: ManualClock, seconds: ManualSeconds) -> AsyncIterator[InProcessServer]:
    """A server over a fresh database, with one admin."""
    async with in_process_server(database_url, clock=clock, monotonic_s=seconds) as running:
        yield running
