"""The migration that gives briefings their indexes leaves what is there as it is, and finds it through them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final

import psycopg
import pytest

from batonpass.core.ids import NodeId
from batonpass.core.walk import Probe
from batonpass.store import digest, migrate, operations
from batonpass.store.open import open_store, sqlite_path
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

NODES: Final = """
INSERT INTO nodes (id, type, title, summary, body, status, project, extra, revision, created_at, updated_at, born, dead,
                   resolving, queueable, rank)
VALUES ('task-a', 'task', 'A', 'A', '', NULL, 'mail', '{}', 'r', 1, 1, 1, false, true, true, 3),
       ('corr-a-1', 'correction', 'A', 'A', '', NULL, NULL, '{"target":"task-a"}', 'r', 2, 2, 2, false, true, false, 9),
       ('corr-a-2', 'correction', 'A', 'A', '', 'applied', NULL, '{"target":"task-a"}',
        'r', 3, 3, 3, true, true, false, 9),
       ('corr-a-3', 'correction', 'A', 'A', '', NULL, NULL, '{"target":"task-a"}', 'r', 4, 4, 4, false, true, false, 9),
       ('norm-a', 'norm', 'A', 'A', '', NULL, NULL, '{"tags":["x"]}', 'r', 5, 5, 5, false, true, false, 9),
       ('dec-a', 'decision', 'A', 'A', '', 'settled', 'mail', '{}', 'r', 6, 6, 6, false, true, false, 9),
       ('dec-b', 'decision', 'B', 'B', '', 'rejected', 'mail', '{}', 'r', 7, 7, 7, true, true, false, 9)
"""
EDGES: Final = """
INSERT INTO edges (src, type, dst, by_person, created_at)
VALUES ('dec-a', 'relates-to', 'task-a', true, 1), ('norm-a', 'relates-to', 'task-a', true, 2)
"""


def run(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.execute(statement)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(statement.encode())


async def test_what_was_there_is_found_through_the_indexes_and_nothing_has_changed(
    database_url: str, knowing: Callable[[int], AbstractContextManager[None]]
) -> None:
    (version,) = (step.version for step in migrate.known("sqlite") if step.name.endswith("_briefings"))
    with knowing(version - 1):
        operations.upgrade(database_url)
    run(database_url, NODES)
    run(database_url, EDGES)
    before = contents(database_url)

    operations.upgrade(database_url)

    after = contents(database_url)
    assert {name: after[name] for name in ("nodes", "edges")} == {name: before[name] for name in ("nodes", "edges")}
    store = await open_store(database_url)
    try:
        async with store.read() as tx:
            corrections, norms, recent = await tx.fetch(
                digest.corrections_asked(["task-a"]), digest.norms_asked(), digest.recent_asked("mail")
            )
            steps, _ = await digest.neighbours(tx, [Probe(NodeId("task-a"), "relates-to")], most=9)
    finally:
        await store.close()
    assert digest.corrections_of(corrections)[0] == ["corr-a-3", "corr-a-1"]
    assert [norm.id for norm in digest.norms_of(norms)] == ["norm-a"]
    assert digest.ids_of(recent) == ["dec-a"]
    assert [step.other for step in steps] == ["norm-a", "dec-a"]
