from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from batonpass.testing.databases import PostgresCluster, sweep_stale

HELD_OPEN = """
import sys
from batonpass.testing.databases import postgres_cluster
with postgres_cluster() as cluster:
    print(cluster.socket_dir, flush=True)
    sys.stdin.read()
"""


def test_databases_of_one_run_do_not_see_each_other(postgres: PostgresCluster) -> None:
    first, second = postgres.create_database(), postgres.create_database()
    with psycopg.connect(postgres.url(first)) as connection:
        connection.execute("CREATE TABLE only_here (id int)")

    with psycopg.connect(postgres.url(second)) as connection:
        assert connection.execute("SELECT to_regclass('only_here')").fetchone() == (None,)

    postgres.drop_database(first)
    postgres.drop_database(second)


def test_a_database_made_from_a_template_has_its_tables(postgres: PostgresCluster) -> None:
    template = postgres.create_database()
    with psycopg.connect(postgres.url(template)) as connection:
        connection.execute("CREATE TABLE copied (id int)")

    copy = postgres.create_database(template=template)

    with psycopg.connect(postgres.url(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM copied").fetchone() == (0,)
    postgres.drop_database(copy)
    postgres.drop_database(template)


def test_dropping_a_database_ends_the_connections_to_it(postgres: PostgresCluster) -> None:
    name = postgres.create_database()
    left_open = psycopg.connect(postgres.url(name))

    postgres.drop_database(name)

    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    left_open.close()


def test_what_a_killed_run_leaves_is_swept_and_what_a_living_one_holds_is_not(postgres: PostgresCluster) -> None:
    killed = subprocess.Popen([sys.executable, "-c", HELD_OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert killed.stdout is not None
    data = Path(os.fsdecode(killed.stdout.readline().strip()))
    server = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert server.is_running()

    swept = sweep_stale()

    assert data.parent in swept
    assert not data.parent.exists()
    assert not server.is_running()
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_each_kind_of_database_is_offered(database_url: str) -> None:
    kind = database_url.partition(":")[0]

    assert kind in {"sqlite", "postgresql"}
