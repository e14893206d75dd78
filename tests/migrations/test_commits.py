"""The migration that gives each commit of a node a row of its own brings along those that are noted already."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final

import psycopg

from batonpass.store import operations
from batonpass.store.open import sqlite_path
from batonpass.testing.populated import contents

NODE: Final = """
INSERT INTO nodes (id, type, title, summary, body, extra, revision, created_at, updated_at, born, dead, resolving,
                   queueable, rank)
VALUES ('task-a', 'task', 'A', 'A', '', '{"tags": ["x"], "commits": ["web@abcdef1", "team/api@0123456789"]}', 'r', 1, 1,
        1, false, true, true, 3),
       ('task-b', 'task', 'B', 'B', '', '{}', 'r', 1, 1, 1, false, true, true, 3)
"""


def run(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.execute(statement)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(statement.encode())


def test_commits_that_are_noted_already_are_found_after_the_upgrade(
    database_url: str, knowing: Callable[[int], AbstractContextManager[None]]
) -> None:
    with knowing(1):
        operations.upgrade(database_url)
    run(database_url, NODE)

    operations.upgrade(database_url)

    assert contents(database_url)["node_commits"] == [
        ("task-a", "team/api", "0123456789"),
        ("task-a", "web", "abcdef1"),
    ]
