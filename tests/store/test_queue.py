"""How the databases go about the queue's reads: along its index, however long the queue is."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

import psycopg
import pytest

from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path

SCOPE: Final[Mapping[str, object]] = {
    "project": None,
    "types": None,
    "exclude_types": "[]",
    "assignee": None,
    "most": 33,
}
WINDOW: Final[Mapping[str, object]] = {**SCOPE, "unclaimed_at": 5, "rank": 1, "born": 0, "id": "task-a"}
RESERVED: Final[Mapping[str, object]] = {**SCOPE, "holder": "agent-seven", "owner": "person-ada", "now": 5}


def plan(url: str, name: str, params: Mapping[str, object], *, without: Sequence[str]) -> str:
    """Return how a database would carry out a statement; PostgreSQL as over tables too large for the ways `without`."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name].sql}", params).fetchall()
            return "\n".join(row[3] for row in rows)
    with psycopg.connect(url) as connection:
        for way in without:
            connection.execute(f"SET enable_{way} = off")
        rows = connection.execute(f"EXPLAIN (COSTS OFF) {queries.load('postgres')[name].sql}", params).fetchall()
        return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize(
    "statement, project, index",
    [("queue.window", None, "nodes_queue"), ("queue.window_in", "demo", "nodes_queue_project")],
)
def test_a_window_goes_on_along_the_queues_order_and_sorts_nothing(
    database_url: str, statement: str, project: str | None, index: str
) -> None:
    operations.upgrade(database_url)

    asked = {**WINDOW, "project": project}
    steps = plan(database_url, statement, asked, without=["seqscan", "bitmapscan", "sort"])

    assert re.search(rf"\b{index}\b", steps)
    assert "(rank,born,id)>" in steps.replace(" ", "") or "ROW(rank, born, id) > ROW(" in steps
    assert "ORDER BY" not in steps
    assert "Sort Key: n." not in steps


@pytest.mark.parametrize("index", ["leases_holder", "leases_owner"])
def test_reservations_are_found_by_whose_they_are(database_url: str, index: str) -> None:
    operations.upgrade(database_url)

    assert index in plan(database_url, "queue.reserved", RESERVED, without=["seqscan"])
