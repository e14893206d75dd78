"""One fleet for each kind of database; every test keeps to a project and items of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from batonpass.testing.clock import SharedClock
from batonpass.testing.databases import PostgresCluster
from batonpass.testing.fleet import Fleet, fleet


def slug(kind: str, point: str) -> str:
    """Return a project's name for one test of one point."""
    return f"{kind}-{point.translate(str.maketrans('._', '--'))}"


@contextmanager
def _fleet_over(
    kind: str, request: pytest.FixtureRequest, factory: pytest.TempPathFactory, *, by_hand: bool
) -> Iterator[Fleet]:
    folder = factory.mktemp("fleet")
    clock = SharedClock(folder / "clock") if by_hand else None
    if kind == "sqlite":
        with fleet(f"sqlite:///{folder / 'baton.db'}", folder, clock=clock) as running:
            yield running
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    name = cluster.create_database()
    with fleet(cluster.url(name), folder, clock=clock) as running:
        yield running
    cluster.drop_database(name)


@pytest.fixture(scope="session")
def sqlite_box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server process with a person, an agent and a repository, over SQLite."""
    with _fleet_over("sqlite", request, tmp_path_factory, by_hand=False) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The same over PostgreSQL."""
    with _fleet_over("postgres", request, tmp_path_factory, by_hand=False) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def box(request: pytest.FixtureRequest) -> Fleet:
    """The fleet of either database; a test that takes it runs once on each."""
    running: Fleet = request.getfixturevalue(f"{request.param}_box")
    return running


@pytest.fixture(scope="session")
def slow_box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet over SQLite whose server's clock moves only when a test moves it: leases lapse at no other moment."""
    with _fleet_over("sqlite", request, tmp_path_factory, by_hand=True) as running:
        yield running
