"""The migration that gives everybody an inbox fills it with what waits already, as `core.inbox` would."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final

import psycopg

from batonpass.store import migrate, operations
from batonpass.store.open import sqlite_path
from batonpass.testing.populated import contents

NODES: Final = """
INSERT INTO nodes (id, type, title, summary, body, status, author, revision, created_at, updated_at, born, dead,
                   resolving, queueable, rank)
VALUES ('question-a', 'question', 'A', 'A', '', 'open', 'person-tom', 'r', 1, 1, 1, false, true, true, 3),
       ('question-b', 'question', 'B', 'B', '', 'answered', 'person-tom', 'r', 2, 2, 2, true, true, true, 3),
       ('find-a', 'finding', 'A', 'A', '', NULL, NULL, 'r', 3, 3, 3, false, true, true, 3),
       ('find-b', 'finding', 'B', 'B', '', NULL, NULL, 'r', 4, 4, 4, false, true, true, 3),
       ('cap-a', 'capture-pending', 'A', 'A', '', NULL, NULL, 'r', 5, 5, 5, false, true, true, 3),
       ('task-a', 'task', 'A', 'A', '', NULL, NULL, 'r', 6, 6, 6, false, true, true, 3),
       ('task-b', 'task', 'B', 'B', '', 'done', NULL, 'r', 7, 7, 7, true, true, true, 3)
"""
EDGES: Final = """
INSERT INTO edges (src, type, dst, by_person, created_at)
VALUES ('question-a', 'routed-to', 'person-pat', true, 1), ('question-b', 'routed-to', 'person-pat', true, 1),
       ('find-a', 'routed-to', 'person-pat', true, 1), ('find-a', 'routed-to', 'person-sue', true, 1),
       ('find-b', 'routed-to', 'agent-mill', true, 1), ('task-a', 'review-requested', 'person-sue', true, 1),
       ('task-b', 'review-requested', 'person-sue', true, 1), ('task-a', 'mentions', 'person-pat', true, 1)
"""


def run(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.execute(statement)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(statement.encode())


def test_what_waits_already_is_in_the_inboxes_after_the_upgrade(
    database_url: str, knowing: Callable[[int], AbstractContextManager[None]]
) -> None:
    (version,) = (step.version for step in migrate.known("sqlite") if step.name.endswith("_inbox"))
    with knowing(version - 1):
        operations.upgrade(database_url)
    run(database_url, NODES)
    run(database_url, EDGES)

    operations.upgrade(database_url)

    assert contents(database_url)["inbox"] == [
        ("asked", "person-tom", 1, "question-a"),
        ("findings", "", 4, "find-b"),
        ("findings", "person-pat", 3, "find-a"),
        ("findings", "person-sue", 3, "find-a"),
        ("pending", "", 5, "cap-a"),
        ("questions", "person-pat", 1, "question-a"),
        ("reviews", "person-sue", 6, "task-a"),
    ]
