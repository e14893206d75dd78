"""What the queue's index begins with in a database that was worked with before there was one (D16)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

import psycopg
import pytest

from batonpass.core import ranking
from batonpass.core.readiness import Ready
from batonpass.server.services.ranking import refresh
from batonpass.store import operations
from batonpass.store.counting import census
from batonpass.store.open import open_store, sqlite_path
from batonpass.store.ranking import Narrow

BEFORE = 2
"""How many migrations the program before knew."""
NODES = (
    # id, type, status, dead, queueable, rank, readiness, held
    ("task-ready", "task", None, False, True, 1, "agent", False),
    ("task-raw", "task", "open", False, True, 9, None, False),
    ("task-blocked", "task", None, False, True, 9, None, False),
    ("task-done", "task", "abandoned", True, True, 9, None, False),
    ("task-held", "task", None, False, True, 9, None, True),
    ("dec-a", "decision", None, False, False, 9, None, False),
)


def write(url: str, statement: str, values: tuple[object, ...]) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.execute(statement, values)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(statement.replace("?", "%s"), values)


def work_with(url: str) -> None:
    for node, kind, status, dead, queueable, rank, readiness, held in NODES:
        write(
            url,
            "INSERT INTO nodes (id, type, title, summary, status, body, readiness, readiness_by, readiness_person,"
            " revision, created_at, updated_at, born, dead, resolving, queueable, rank)"
            " VALUES (?, ?, 't', 's', ?, '', ?, 'Ada', ?, 'r', 1, 1, 1, ?, ?, ?, ?)",
            (node, kind, status, readiness, readiness is not None, dead, True, queueable, rank),
        )
        write(
            url,
            "INSERT INTO leases (resource, kind, holder, expires_at, epoch, version) VALUES (?, ?, ?, ?, 1, 1)",
            (node, "claim" if held else "none", "agent-a" if held else None, 2**53 if held else None),
        )
    write(
        url,
        "INSERT INTO edges (src, type, dst, by_person, created_at) VALUES ('task-raw', 'blocks', 'task-blocked', ?, 1)",
        (True,),
    )


@pytest.mark.anyio
async def test_every_item_of_before_is_in_the_index_and_derived_by_whoever_comes_first(
    database_url: str, knowing: Callable[[int], AbstractContextManager[None]]
) -> None:
    with knowing(BEFORE):
        operations.upgrade(database_url)
        work_with(database_url)

    store = await open_store(database_url)
    try:
        assert not await refresh(store)
        async with store.read() as tx:
            found = await census(tx, Narrow(), ranking.lanes(blocked=True), today=0)
    finally:
        await store.close()

    assert sorted((tally.lane, tally.count) for tally in found) == sorted(
        [
            (ranking.lane(Ready.AGENT, 0, blocked=False), 1),
            (ranking.lane(Ready.UNTRIAGED, 0, blocked=False), 1),
            (ranking.lane(Ready.UNTRIAGED, 0, blocked=True), 1),
        ]
    )
