"""Other programs than this one: older ones that know fewer migrations, newer ones that know more."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from batonpass.store import migrate
from batonpass.testing.databases import PostgresCluster


@pytest.fixture
def another_database(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Return a function that makes an empty database of a kind, ``sqlite`` or ``postgres``, beside the test's own."""
    made: list[str] = []

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / 'another.db'}"
        cluster: PostgresCluster = request.getfixturevalue("postgres")
        made.append(cluster.create_database())
        return cluster.url(made[-1])

    yield make
    for name in made:
        request.getfixturevalue("postgres").drop_database(name)


@pytest.fixture
def knowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Return a context in which this is the program that knew the first so many migrations."""

    @contextmanager
    def program(count: int) -> Iterator[None]:
        for dialect in ("sqlite", "postgres"):
            (tmp_path / "earlier" / dialect).mkdir(parents=True)
            for step in migrate.known(dialect)[:count]:
                shutil.copy(step.path, tmp_path / "earlier" / dialect)
        with monkeypatch.context() as patched:
            patched.setattr(migrate, "MIGRATIONS", tmp_path / "earlier")
            yield

    return program


@pytest.fixture
def tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AbstractContextManager[Path]]:
    """Return a context in which this is a program with one migration more, made of the statements given.

    It gives the folder of that program's migrations, for other processes.
    """

    @contextmanager
    def program(script: str) -> Iterator[Path]:
        folder = tmp_path / "tomorrow"
        shutil.copytree(migrate.MIGRATIONS, folder)
        number = len(migrate.known("sqlite")) + 1
        for dialect in ("sqlite", "postgres"):
            (folder / dialect / f"{number:04}_pre_tomorrow.sql").write_text(f"{script}\n")
        with monkeypatch.context() as patched:
            patched.setattr(migrate, "MIGRATIONS", folder)
            yield folder

    return program
