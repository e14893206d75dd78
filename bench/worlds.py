"""A database with a world in it: agents and what they hold made through the API, the rest by `bench.bulk`."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from batonpass.client.client import Client
from batonpass.core.ids import Instant, PersonId
from batonpass.testing.databases import PostgresCluster
from batonpass.wire.policy import PolicyRequest
from bench.bulk import Filled, fill
from bench.seed import AGENTS, MAX_CLAIMS, Fleet, agent_of, clients_of
from bench.served import BATON, Database, serving, sqlite_url
from bench.world import World

HELD_MAX: Final = 500
"""How many items a fleet works on, however large the graph."""


@dataclass(frozen=True, slots=True)
class Inhabited:
    """A database, what is in it, and how long that took."""

    database: Database
    world: World
    filled: Filled


def sqlite_world(folder: Path, size: int, *, shapes: bool = False, twin: bool = False) -> Inhabited:
    """Return a new database file in `folder` with a world of `size` nodes; with a `twin` for limits if asked for."""
    folder.mkdir(exist_ok=True)
    file = folder / f"world-{size}.db"
    return _twinned(_inhabited(sqlite_url(file), "sqlite", size, shapes=shapes), file, folder, twin=twin)


def _twinned(inhabited: Inhabited, file: Path, folder: Path, *, twin: bool) -> Inhabited:
    if not twin:
        return inhabited
    copy = folder / f"{file.stem}-twin.db"
    shutil.copyfile(file, copy)
    database = inhabited.database
    return Inhabited(
        Database(database.dialect, database.url, str(copy), database.fleet), inhabited.world, inhabited.filled
    )


@contextmanager
def postgres_world(
    cluster: PostgresCluster, size: int, *, shapes: bool = False, twin: bool = False
) -> Iterator[Inhabited]:
    """Make a new database of `cluster` with a world of `size` nodes, for the length of the block."""
    names = [cluster.create_database()]
    inhabited = _inhabited(cluster.url(names[0]), "postgres", size, shapes=shapes)
    if twin:
        names.append(cluster.create_database(template=names[0]))
        database = inhabited.database
        inhabited = Inhabited(
            Database(database.dialect, database.url, cluster.url(names[1]), database.fleet),
            inhabited.world,
            inhabited.filled,
        )
    try:
        yield inhabited
    finally:
        for name in names:
            cluster.drop_database(name)


def _inhabited(url: str, dialect: str, size: int, *, shapes: bool) -> Inhabited:
    argv = [str(BATON), "init", "--db", url, "--name", "Bench", "--email", "bench@example.org", "--json"]
    made = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    now = Instant(time.time_ns() // 1000)
    world = World(size, now, PersonId(made["person"]), "Bench <bench@example.org>", shapes=shapes)
    with serving(url) as server, Client(server.url, made["token"]) as admin:
        admin.put_policy("*", PolicyRequest(max_claims=MAX_CLAIMS))
        fleet = Fleet(made["token"], [agent_of(admin, number) for number in range(AGENTS)])
    filled = fill(url, world)
    with serving(url) as server:
        _hold(server.url, fleet, world)
    if dialect == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE queue_items, leases")
    return Inhabited(Database(dialect, url, "", fleet), world, filled)


def _hold(server: str, fleet: Fleet, world: World) -> None:
    held = world.held(HELD_MAX)
    for number, agent in enumerate(clients_of(server, fleet)):
        if nodes := held[number::AGENTS]:
            reply = agent.claim_many(nodes)
            assert not reply.failed, reply.failed[0]
