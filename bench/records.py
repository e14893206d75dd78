"""Records with tasks: claims and fenced writes beside the same rows written directly, and thousands who wait for one.

They have a database of their own: agents, a class, records that were claimed and
given back, and records whose tasks are held. All of it is made through the API.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from batonpass.client.class_calls import put_class
from batonpass.client.client import Client
from batonpass.testing.databases import PostgresCluster
from batonpass.wire import paths
from bench.figures import loaded
from bench.load import Job
from bench.pickup import MANY, Pickup
from bench.readers import ReadersJob
from bench.seed import AGENTS, FREE_RECORDS, HELD_RECORDS, RECORD_CLASS, WORK, Fleet, RecordPool, agent_of
from bench.served import BATON, Database, Server, serving, sqlite_url
from bench.waiting import WaitingResult

CLASS: Final = {
    "fields": {"status": {"type": "register"}, WORK: {"type": "task", "lease": "1d"}},
    "roles": {"agents": {"identities": ["agent:*"], "read": ["*"], "write": ["status"], "claim": [WORK]}},
}
MAKING: Final = 32
MAKING_S_MAX: Final = 300.0
"""From how many connections records are made, and for how long at most."""
WATCHED: Final = 50
"""How many records those who wait wait for: a hundred each."""


def sqlite_records(folder: Path) -> Database:
    """Return a new database file in `folder` with records in it, and a twin."""
    file, twin = folder / "records.db", folder / "records-twin.db"
    fleet = _made(sqlite_url(file))
    shutil.copyfile(file, twin)
    return Database("sqlite", sqlite_url(file), str(twin), fleet)


def postgres_records(cluster: PostgresCluster) -> Database:
    """Return a new database of `cluster` with records in it, and a twin."""
    name = cluster.create_database()
    fleet = _made(cluster.url(name))
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return Database("postgres", cluster.url(name), cluster.url(cluster.create_database(template=name)), fleet)


def readers(database: Database, label: str, *, count: int = MANY, rounds: int = 1) -> Pickup:
    """Return how soon `count` readers at one server have what was written, and what they cost it meanwhile."""
    status = [_path(paths.RECORD_FIELD, HELD_RECORDS.record(number), "status") for number in range(WATCHED)]
    with serving(database.url) as server:
        before, spent = server.memory_mib(), server.cpu_s()
        job = ReadersJob("127.0.0.1", server.port, database.fleet.agents, count, status, rounds)
        argv = [sys.executable, "-m", "bench.readers"]
        done = subprocess.run(argv, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=True)
        return Pickup(
            database=label,
            what="readers of a field",
            workers=count,
            delays=msgspec.json.decode(done.stdout, type=WaitingResult),
            p99_ms_aim=None,
            before_mib=before,
            memory_mib=server.memory_mib(),
            server_ms=(server.cpu_s() - spent) / (count * rounds) * 1000,
        )


def _made(url: str) -> Fleet:
    argv = [str(BATON), "init", "--db", url, "--name", "Bench", "--email", "bench@example.org", "--json"]
    token = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)["token"]
    with serving(url) as server, Client(server.url, token) as admin:
        fleet = Fleet(token, [agent_of(admin, number) for number in range(AGENTS)])
        admin.send(put_class(RECORD_CLASS, CLASS))
        claim = _path(paths.RECORD_CLAIM, "{}", WORK)
        for pool in (FREE_RECORDS, HELD_RECORDS):
            _send_all(server, fleet, claim, pool, body={})
        _send_all(server, fleet, claim, FREE_RECORDS, body={"lease_seconds": 0})
        _send_all(server, fleet, _path(paths.RECORD_FIELD, "{}", "status"), HELD_RECORDS, body={"value": "begun"})
    return fleet


def _send_all(server: Server, fleet: Fleet, path: str, pool: RecordPool, *, body: object) -> None:
    """Send one request for each record of `pool`, under the token of whom it falls to."""
    path = path.replace("{}", f"{pool.name}-{{i}}")
    text = msgspec.json.encode(body).decode()
    job = Job("127.0.0.1", server.port, fleet.agents, "PUT", path, [text], MAKING, MAKING_S_MAX, most=pool.count)
    result = loaded(job)
    assert (result.ops, result.refused) == (pool.count, 0), f"{path}: {result}"


def _path(template: str, record: str, field: str) -> str:
    return template.format(record_class=RECORD_CLASS, id=record, field=field)
