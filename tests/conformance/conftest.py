"""A server process over either database, for a client that knows the published protocol and nothing else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from batonpass.conformance.world import Server, World, found
from batonpass.testing.clock import SharedClock
from batonpass.testing.databases import PostgresCluster
from batonpass.testing.processes import server_process
from batonpass.testing.server import first_token

_serial: Final = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requirement(*ids): which requirements of the kit's requirements.toml it tests")


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the run on each database; every test has a corner of it to itself."""
    folder = tmp_path_factory.mktemp("conformance")
    clock = SharedClock(folder / "clock")
    if request.param == "sqlite":
        url = f"sqlite:///{folder / 'baton.db'}"
    else:
        cluster: PostgresCluster = request.getfixturevalue("postgres")
        url = cluster.url(cluster.create_database())
    token = asyncio.run(first_token(url, clock=clock))
    with server_process(url, clock=clock) as process:
        yield Server(process.url, token, clock.advance)


@pytest.fixture
def world(server: Server) -> World:
    """Two people with an agent each, whom no other test has."""
    return found(server, next(_serial))
