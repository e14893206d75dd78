"""How the databases go about what is asked while somebody waits: along an index, however much there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from batonpass.core.clock import micros
from batonpass.core.ids import Instant, NodeId
from batonpass.store import events, operations, queries
from batonpass.store.base import SYSTEM, Fences
from batonpass.store.open import open_store, sqlite_path
from batonpass.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


def plan(url: str, name: str, params: Mapping[str, object]) -> list[str]:
    """Return how a database carries a statement out; PostgreSQL as over tables too large to be read whole."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name].sql}", params)
            return [row[3] for row in rows]
    with psycopg.connect(url) as connection:
        for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
            connection.execute(f"SET enable_{way} = off".encode())
        text = f"EXPLAIN (COSTS OFF) {queries.load('postgres')[name].sql}"
        return [row[0].strip() for row in connection.execute(text.encode(), params)]


@pytest.mark.parametrize(
    "name, params, index",
    [
        ("events.after", {"seq": 5, "most": 100}, ("events_pkey", "INTEGER PRIMARY KEY (rowid>?)")),
        ("events.from", {"seq": 5}, ("events_pkey", "INTEGER PRIMARY KEY (rowid>?)")),
        ("events.ends", {}, ("events_pkey", "SEARCH events")),
        ("moments.ended", {"after": 1, "upto": 5, "most": 10}, ("queue_items_busy", "queue_items_busy")),
        ("moments.next", {"after": 1}, ("queue_items_busy", "queue_items_busy")),
        ("lines.routed", {"holders": '["agent-a"]'}, ("dst = h.id", "(dst=? AND type=?)")),
        ("lines.reserving", {"holders": '["agent-a"]'}, ("leases_owner", "leases_owner")),
    ],
)
async def test_nothing_that_waiting_asks_reads_a_table_whole(
    database_url: str, name: str, params: Mapping[str, object], index: tuple[str, str]
) -> None:
    operations.upgrade(database_url)

    steps = plan(database_url, name, params)

    assert any(index[database_url.startswith("sqlite")] in step for step in steps), steps
    assert not [step for step in steps if "Seq Scan" in step and "pg_" not in step], steps
    tables = ("events", "leases", "l", "nodes", "n", "edges", "e")
    assert not [step for step in steps if step in {f"SCAN {table}" for table in tables}], steps


async def test_a_moment_is_found_by_halving_and_nothing_of_it_or_later_lies_before(database_url: str) -> None:
    clock = ManualClock()
    start = clock.moment()
    store = await open_store(database_url, clock=clock)
    try:
        for n in range(20):
            clock.advance(timedelta(minutes=1))
            async with store.write(SYSTEM, Fences()) as tx:
                happened = events.Event("node.put", NodeId(f"task-{n}"), "web", SYSTEM)
                events.append(tx, [happened], at=await tx.now())
        async with store.read() as tx:
            rows = await events.events_after(tx, 0, most=100)
            for minutes in range(-1, 23):
                at = Instant(start + micros(timedelta(minutes=minutes)))
                seq = await events.before_instant(tx, at)
                assert [row.seq for row in rows if row.seq > seq] == [row.seq for row in rows if row.at >= at]
    finally:
        await store.close()
