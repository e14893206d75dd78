"""Databases for every room's tests: one PostgreSQL a run, a fresh database a test."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings

from batonpass.testing.databases import PostgresCluster, postgres_cluster

if TYPE_CHECKING:
    from batonpass.testing.crew import Gathered
    from batonpass.testing.populated import Fleet, Populated

# The same examples in every run, and no deadline that a busy machine could miss. `--hypothesis-profile=explore` looks
# for new ones.
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.load_profile("steady")

_SHARED: Final = pytest.StashKey[ExitStack]()
_SOCKET_DIR: Final = "postgres_socket_dir"


class SharedCluster:
    """Under xdist the controller starts the server, and tells each worker where it is."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 — xdist's node, which has no types
        config: pytest.Config = node.config
        if _SHARED not in config.stash:
            stack = config.stash[_SHARED] = ExitStack()
            config.add_cleanup(stack.close)
            self.cluster = stack.enter_context(postgres_cluster())
        node.workerinput[_SOCKET_DIR] = str(self.cluster.socket_dir)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes a core: about half of its time a test waits for a disk, or for the programs it has started."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SharedCluster())


@pytest.fixture
def anyio_backend() -> str:
    """The loop of asynchronous tests, those marked `anyio`."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresCluster]:
    """The run's PostgreSQL server; started at first use."""
    told = getattr(request.config, "workerinput", {}).get(_SOCKET_DIR)
    if told is not None:
        yield PostgresCluster(Path(told))
        return
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres: PostgresCluster) -> Iterator[str]:
    """The URL of an empty PostgreSQL database that is this test's alone."""
    name = postgres.create_database()
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet and is this test's alone."""
    return f"sqlite:///{tmp_path / 'baton.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a fresh, empty database; a test that takes it runs once on each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fleet]:
    """A SQLite file with a little of everything in it; made at first use, and copied by whoever takes it."""
    from batonpass.testing.populated import populate  # the server, which not every test needs

    path = tmp_path_factory.mktemp("template") / "baton.db"
    return path, asyncio.run(populate(f"sqlite:///{path}"))


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresCluster) -> tuple[str, Fleet]:
    """The same as a PostgreSQL database, by its name."""
    from batonpass.testing.populated import populate  # see above

    name = postgres.create_database()
    return name, asyncio.run(populate(postgres.url(name)))


@pytest.fixture
def populated_sqlite(sqlite_template: tuple[Path, Fleet], tmp_path: Path) -> Populated:
    """A SQLite file that has been worked with and is this test's alone."""
    from batonpass.testing.populated import Populated  # see above

    template, fleet = sqlite_template
    path = shutil.copy(template, tmp_path / "populated.db")
    return Populated(f"sqlite:///{path}", fleet)


@pytest.fixture
def populated_postgres(postgres_template: tuple[str, Fleet], postgres: PostgresCluster) -> Iterator[Populated]:
    """A PostgreSQL database that has been worked with and is this test's alone."""
    from batonpass.testing.populated import Populated  # see above

    template, fleet = postgres_template
    name = postgres.create_database(template=template)
    yield Populated(postgres.url(name), fleet)
    postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def populated(request: pytest.FixtureRequest) -> Populated:
    """A database that has been worked with; a test that takes it runs once on each kind."""
    database: Populated = request.getfixturevalue(f"populated_{request.param}")
    return database


@pytest.fixture(scope="session")
def sqlite_crew(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """A SQLite file in which the crew has been gathered, and its tokens; copied by whoever takes it."""
    from batonpass.testing.crew import gather  # the server, which not every test needs

    path = tmp_path_factory.mktemp("crew") / "baton.db"
    return path, asyncio.run(gather(f"sqlite:///{path}"))


@pytest.fixture(scope="session")
def postgres_crew(postgres: PostgresCluster) -> tuple[str, Mapping[str, str]]:
    """The same as a PostgreSQL database, by its name."""
    from batonpass.testing.crew import gather  # see above

    name = postgres.create_database()
    return name, asyncio.run(gather(postgres.url(name)))


@pytest.fixture
def gathered_sqlite(sqlite_crew: tuple[Path, Mapping[str, str]], tmp_path: Path) -> Gathered:
    """A SQLite file with the crew in it that is this test's alone."""
    from batonpass.testing.crew import Gathered  # see above

    template, tokens = sqlite_crew
    return Gathered(f"sqlite:///{shutil.copy(template, tmp_path / 'crew.db')}", tokens)


@pytest.fixture
def gathered_postgres(postgres_crew: tuple[str, Mapping[str, str]], postgres: PostgresCluster) -> Iterator[Gathered]:
    """A PostgreSQL database with the crew in it that is this test's alone."""
    from batonpass.testing.crew import Gathered  # see above

    template, tokens = postgres_crew
    name = postgres.create_database(template=template)
    yield Gathered(postgres.url(name), tokens)
    postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def gathered(request: pytest.FixtureRequest) -> Gathered:
    """A database with the crew in it; a test that takes it runs once on each kind."""
    database: Gathered = request.getfixturevalue(f"gathered_{request.param}")
    return database


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which nothing passed: all skipped is not a success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter is not None and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
