"""A seeded database with a server over it, and a copy of it on which the limits are measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import psycopg

from batonpass.client.client import Client
from batonpass.testing.databases import PostgresCluster
from bench.seed import Fleet, seed

BATON: Final = Path(sys.executable).with_name("baton")
STOP_S_MAX: Final = 20.0
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Database:
    """A seeded database, and its `twin`: a copy for the limits, so that neither disturbs the other's rows."""

    dialect: str
    url: str
    twin: str
    fleet: Fleet


@dataclass(frozen=True, slots=True)
class Server:
    """`baton serve` in a process of its own."""

    url: str
    process: psutil.Process

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        port = urlsplit(self.url).port
        assert port is not None, self.url
        return port

    def cpu_s(self) -> float:
        """Return the processor time it has used, in seconds."""
        return cpu_s(self.process)

    def memory_mib(self) -> float:
        """Return its resident memory in MiB."""
        return self.process.memory_info().rss / MIB


def cpu_s(process: psutil.Process) -> float:
    """Return the processor time that a process has used itself, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def serving(url: str, *, environ: Mapping[str, str] = os.environ) -> Iterator[Server]:
    """Run `baton serve` over the database at `url` for the length of the block."""
    argv = [str(BATON), "serve", "--db", url, "--port", "0", "--json"]
    process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(_told(process.stdout), psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)


def seeded_sqlite(folder: Path) -> Database:
    """Return a new database file in `folder`."""
    file, twin = folder / "bench.db", folder / "twin.db"
    fleet = _seeded(sqlite_url(file))
    shutil.copyfile(file, twin)
    return Database("sqlite", sqlite_url(file), str(twin), fleet)


def seeded_postgres(cluster: PostgresCluster) -> Database:
    """Return a new database of `cluster`, with the statistics its planner goes by."""
    name = cluster.create_database()
    fleet = _seeded(cluster.url(name))
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return Database("postgres", cluster.url(name), cluster.url(cluster.create_database(template=name)), fleet)


def sqlite_url(file: Path) -> str:
    """Return the URL of a database file."""
    return f"sqlite:///{file}"


def _seeded(url: str) -> Fleet:
    argv = [str(BATON), "init", "--db", url, "--name", "Bench", "--email", "bench@example.org", "--json"]
    token = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)["token"]
    with serving(url) as server, Client(server.url, token) as admin:
        return seed(admin, token)


def _told(lines: Iterator[str]) -> str:
    """Return the URL that a server says it serves on, once it does."""
    said = ""
    for line in lines:
        said += line
        if line.rstrip().endswith("}"):
            return str(json.loads(said)["url"])
    raise RuntimeError("the server ended before it listened")
