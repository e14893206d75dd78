"""One fleet for each kind of database; every test keeps to a project and items of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batonpass.testing.databases import PostgresCluster
from batonpass.testing.fleet import Fleet, fleet


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server process with a person, an agent and a repository, on either database."""
    folder = tmp_path_factory.mktemp("fleet")
    if request.param == "sqlite":
        with fleet(f"sqlite:///{folder / 'baton.db'}", folder) as running:
            yield running
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    name = cluster.create_database()
    with fleet(cluster.url(name), folder) as running:
        yield running
    cluster.drop_database(name)
