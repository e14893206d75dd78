"""How the databases go about an inbox and the list of corrections: along an index, however much there is."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing

import psycopg
import pytest

from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path

WAYS = ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")
"""What PostgreSQL would not do over large tables; over empty ones it needs to be told."""


def plan(url: str, name: str, params: Mapping[str, object]) -> str:
    """Return how a database would carry out a statement."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name].sql}", params).fetchall()
            return "\n".join(row[3] for row in rows)
    with psycopg.connect(url) as connection:
        for way in WAYS:
            connection.execute(f"SET enable_{way} = off".encode())
        rows = connection.execute(
            f"EXPLAIN (COSTS OFF) {queries.load('postgres')[name].sql}".encode(), params
        ).fetchall()
        return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize(
    "statement,params,index",
    [
        (
            "inbox.window",
            {"box": "questions", "person": "", "at": 5, "node": "question-a", "most": 21},
            r"inbox_pkey|PRIMARY KEY \(box",
        ),
        ("corrections.standing", {"after": "", "most": 101}, "nodes_corrections"),
    ],
)
def test_a_list_goes_on_along_its_index_and_neither_scans_nor_sorts(
    database_url: str, statement: str, params: Mapping[str, object], index: str
) -> None:
    operations.upgrade(database_url)

    steps = plan(database_url, statement, params)

    assert re.search(index, steps)
    assert "SCAN" not in steps
    assert "Seq Scan" not in steps
    assert "ORDER BY" not in steps
    assert "Sort" not in steps


def test_what_ends_an_entry_is_looked_for_entry_by_entry(postgres_url: str) -> None:
    """PostgreSQL only: it may hash a whole EXISTS, and so read every resolver there is for twenty entries."""
    operations.upgrade(postgres_url)
    params = {"box": "questions", "person": "", "at": 5, "node": "question-a", "most": 21}

    steps = plan(postgres_url, "inbox.window", params)

    assert "Index Cond: ((dst = i.node) AND (type = 'supersedes'::text))" in steps


def test_who_stewards_a_node_and_which_ids_are_taken_are_found_by_index(database_url: str) -> None:
    operations.upgrade(database_url)

    stewards = plan(database_url, "questions.stewards", {"ids": '["repo-a"]'})
    taken = plan(database_url, "filing.taken", {"ids": '["cap-a"]'})
    at_work = plan(database_url, "filing.at_work", {"holder": "agent-a", "session": "s", "now": 5, "most": 2})

    assert re.search("edges_(inbound|newest)", stewards)
    assert "leases_holder" in at_work
    for steps in (stewards, taken, at_work):
        assert "Seq Scan" not in steps
        assert not [line for line in steps.splitlines() if line.startswith("SCAN") and "json_each" not in line
                    and "wanted" not in line]  # fmt: skip
