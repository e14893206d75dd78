"""What a briefing reads goes along an index, already in the order that is wanted, and stops where it is told to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import psycopg
import pytest

from batonpass.core.ids import NodeId
from batonpass.core.walk import Probe, Step
from batonpass.store import digest, operations, queries
from batonpass.store.open import open_store, sqlite_path

PROBES: Final = '[{"node": "task-a", "edge": "blocks"}]'
PLANS: Final[Mapping[str, tuple[Mapping[str, object], str]]] = {
    "digest.neighbours": ({"probes": PROBES, "most": 61}, "edges_newest"),
    "digest.corrections": ({"targets": '["global"]', "most": 20}, "corrections_of"),
    "digest.norms": ({"most": 200}, "nodes_norms"),
    "digest.recent": ({"project": "mail", "types": '["decision"]', "most": 6}, "nodes_recent"),
}
SORTED_AFTERWARDS: Final = {"digest.reports", "digest.recent", "digest.corrections"}
"""These put the few rows they have taken in order; the others need not even do that."""


def plan(url: str, name: str, params: Mapping[str, object]) -> str:
    """Return how a database would carry out a statement; PostgreSQL as over tables too large for other ways."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name].sql}", params).fetchall()
            return "\n".join(row[3] for row in rows)
    with psycopg.connect(url) as connection:
        for way in ("seqscan", "bitmapscan", *([] if name in SORTED_AFTERWARDS else ["sort"])):
            connection.execute(f"SET enable_{way} = off".encode())
        text = f"EXPLAIN (COSTS OFF) {queries.load('postgres')[name].sql}"
        return "\n".join(row[0] for row in connection.execute(text.encode(), params))


@pytest.mark.parametrize("statement", PLANS)
def test_a_read_follows_its_index_and_sorts_no_table(database_url: str, statement: str) -> None:
    operations.upgrade(database_url)
    params, index = PLANS[statement]

    steps = plan(database_url, statement, params)

    assert index in steps
    assert "Seq Scan" not in steps
    scans = [line for line in steps.splitlines() if line.startswith("SCAN ")]
    assert [line for line in scans if not any(word in line for word in ("VIRTUAL TABLE", "subquery", index))] == []
    if statement not in SORTED_AFTERWARDS:
        assert "ORDER BY" not in steps
        assert "Sort" not in steps


def test_reports_are_found_by_their_ids_among_whatever_else_relates_to_a_node(database_url: str) -> None:
    operations.upgrade(database_url)
    others = [f"task-{n}" for n in range(2_000)]
    write(database_url, ["task-a", *others], [(other, "relates-to", "task-a", 1) for other in others])
    if not database_url.startswith("sqlite"):
        with psycopg.connect(database_url) as connection:
            connection.execute("ANALYZE edges")

    steps = plan(
        database_url,
        "digest.reports",
        {"node": "task-a", "ranges": '[{"low": "art-", "high": "art."}, {"low": "find-", "high": "find."}]', "most": 5},
    )

    assert re.search(r"edges_inbound (\(dst=\? AND type=\? AND src>\? AND src<\?\)|on edges e)", steps), steps


@pytest.mark.anyio
async def test_neighbours_come_from_both_ends_of_edges_and_the_probes_that_had_more_are_told(database_url: str) -> None:
    operations.upgrade(database_url)
    write(
        database_url,
        [f"task-{n}" for n in range(5)],
        [(f"task-{n}", "blocks", "task-0", n) for n in range(1, 5)] + [("task-0", "relates-to", "task-9", 1)],
    )
    blocks, relates = Probe(NodeId("task-0"), "blocks"), Probe(NodeId("task-0"), "relates-to")
    store = await open_store(database_url)
    try:
        async with store.read() as tx:
            some = await digest.neighbours(tx, [blocks, relates], most=3)
            all_ = await digest.neighbours(tx, [relates, blocks], most=4)
            back = await digest.neighbours(tx, [Probe(NodeId("task-4"), "blocks")], most=4)
    finally:
        await store.close()

    newest = [Step(NodeId("task-0"), "blocks", NodeId(f"task-{n}")) for n in (4, 3, 2, 1)]
    assert some == (newest[:3], [blocks])
    assert all_ == (newest, []), "an edge that leads nowhere is none"
    assert back == ([Step(NodeId("task-4"), "blocks", NodeId("task-0"))], [])


def write(url: str, nodes: list[str], edges: list[tuple[str, str, str, int]]) -> None:
    """Write rows of nodes, and of edges with the moment they were made at."""
    node = (
        "INSERT INTO nodes (id, type, title, summary, body, revision, created_at, updated_at, born, dead, resolving,"
        " queueable, rank) VALUES ({0}, 'task', 'T', 'S', '', 'r', 1, 1, 1, false, true, true, 3)"
    )
    edge = "INSERT INTO edges (src, type, dst, by_person, created_at) VALUES ({0}, {0}, {0}, true, {0})"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.executemany(node.format("?"), [(each,) for each in nodes])
            file.executemany(edge.format("?"), edges)
    else:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.executemany(node.format("%s").encode(), [(each,) for each in nodes])
            cursor.executemany(edge.format("%s").encode(), edges)
