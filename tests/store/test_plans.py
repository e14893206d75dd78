"""Statements of imports, exports and records go along an index, however much there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import psycopg
import pytest

from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path


def plan(url: str, name: str, params: Mapping[str, object], *, sorts: bool = True) -> list[str]:
    """Return how a database carries a statement out; PostgreSQL as over tables too large to be read whole.

    Without `sorts` they are too large to be sorted, too.
    """
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            text = queries.load("sqlite")[name].sql
            return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {text}", params)]
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        if not sorts:
            connection.execute("SET enable_sort = off")
        text = queries.load("postgres")[name].sql
        return [row[0].strip() for row in connection.execute(f"EXPLAIN (COSTS OFF) {text}".encode(), params)]


@pytest.mark.parametrize(
    "name,params",
    [
        ("edges.downstream", {"ids": '["task-a"]'}),
        ("edges.of", {"ids": '["task-a"]'}),
        ("leases.of", {"resources": '["task-a"]'}),
        (
            "nodes.list",
            {"types": None, "status": None, "project": None, "assignee": None, "text": None, "after": "a", "most": 100},
        ),
        (
            "records.page",
            {"record_class": "incidents", "after": "a", "scan": 1000, "most": 51, "task": "driver", "now": 1},
        ),
        ("records.page_end", {"record_class": "incidents", "after": "a", "scan": 1000}),
        ("records.held_by", {"holder": "agent-a", "after": "record:a/", "beyond": "record:a0", "now": 1, "most": 1000}),
        ("records.of", {"records": '[{"class": "incidents", "id": "a"}]'}),
        ("record_fields.of", {"records": '[{"class": "incidents", "id": "a"}]'}),
        ("record_fields.items", {"records": '[{"class": "incidents", "id": "a"}]', "fields": '["actions"]'}),
        ("record_waits.stands", {"wanted": '[{"class": "incidents", "id": "a", "field": "status"}]'}),
        (
            "record_history.page",
            {
                "record_class": "incidents",
                "id": "a",
                "before": 9,
                "scan": 1000,
                "most": 51,
                "fields": '["status"]',
                "values": 0,
            },
        ),
        ("record_history.newest", {"record_class": "incidents", "id": "a", "fields": '["driver"]', "scan": 1000}),
    ],
)
def test_no_table_is_read_whole_and_no_index_is_made_for_the_occasion(
    database_url: str, name: str, params: Mapping[str, object]
) -> None:
    operations.upgrade(database_url)

    steps = plan(database_url, name, params)

    whole: tuple[str, ...] = ("Seq Scan", "SCAN e", "SCAN edges", "SCAN nodes", "SCAN n", "SCAN leases")
    if name.startswith("record"):  # by the letters that they go by there
        whole += tuple(f"SCAN {table}" for table in "filmr")
    assert [step for step in steps if step in whole or "Seq Scan" in step or "AUTOMATIC" in step] == []


@pytest.mark.parametrize(
    "name,index,params",
    [
        ("listed", "newest", {}),
        ("listed_of_node", "node", {"node": "task-a", "agent": None, "state": None, "project": None}),
        ("listed_of_agent", "agent", {"agent": "agent-a", "state": None, "project": None}),
        ("listed_in_state", "state", {"state": "running", "project": None}),
        ("listed_of_project", "project", {"project": "mail"}),
    ],
)
def test_a_page_of_runs_is_read_in_the_order_of_an_index_and_nothing_is_sorted(
    database_url: str, name: str, index: str, params: Mapping[str, object]
) -> None:
    operations.upgrade(database_url)

    steps = plan(database_url, f"runs.{name}", {**params, "before": 9, "before_run": "run-a", "most": 51}, sorts=False)

    assert f"runs_{index}" in str(steps)
    assert [step for step in steps if "Sort" in step or "TEMP B-TREE" in step or "SCAN runs" in step] == []
