"""How the databases look a commit up: by its hash, along the index, however many nodes there are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

import psycopg

from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path

SHA: Final = "0123456789abcdef"
ASKED: Final = {"least": SHA, "beyond": f"{SHA}g", "shorter": f'["{SHA[:7]}"]', "repo": None, "after": "", "most": 10}


def plan(url: str) -> str:
    """Return how a database would carry the look-up out; PostgreSQL as over tables too large to be read whole."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            text = queries.load("sqlite")["commits.nodes_with"].sql
            return "\n".join(row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {text}", ASKED))
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        text = queries.load("postgres")["commits.nodes_with"].sql
        return "\n".join(row[0] for row in connection.execute(f"EXPLAIN (COSTS OFF) {text}".encode(), ASKED))


def test_a_commit_is_looked_up_along_its_index_and_no_table_is_read_whole(database_url: str) -> None:
    operations.upgrade(database_url)

    steps = plan(database_url)

    assert steps.count("node_commits_sha") == 2
    assert "Seq Scan" not in steps
    assert "SCAN node_commits" not in steps
    assert "SCAN n" not in steps.splitlines()
