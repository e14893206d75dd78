"""Waiting for what a test is about to rely on, always with a bound, never for a guessed time."""

from __future__ import annotations

import asyncio
from typing import Any, Final, LiteralString

import psycopg

from batonpass.server.services.feed import Feed
from batonpass.server.services.lines import Lines
from batonpass.server.services.record_writes import RecordWrites
from batonpass.server.services.taking import Taking

WAITERS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
SESSIONS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
DEADLOCKS: Final = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


async def until_blocked(url: str, *, sessions: int = 1, within_s: float = 10.0) -> None:
    """Return once so many sessions of the PostgreSQL database at `url` wait for somebody's lock."""
    async with asyncio.timeout(within_s), await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while await _number(connection, WAITERS) < sessions:
            pass


async def deadlocks_of(url: str, *, within_s: float = 10.0) -> int:
    """Return how many deadlocks there were in the PostgreSQL database at `url`, once all its sessions have ended.

    A session tells the count its own when it ends, or when it has been idle for a while.
    """
    async with asyncio.timeout(within_s), await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while await _number(connection, SESSIONS):
            pass
        return await _number(connection, DEADLOCKS)


async def until_waiting(feed: Feed, *, requests: int = 1, within_s: float = 10.0) -> None:
    """Return once so many requests wait for something to happen in `feed`."""
    async with asyncio.timeout(within_s):
        while feed.waiting < requests:  # noqa: ASYNC110 — production has no use for an event that says so
            await asyncio.sleep(0.001)


async def until_gathered(queue: Taking | RecordWrites, *, calls: int, within_s: float = 10.0) -> None:
    """Return once so many calls of `next`, or writes to records, wait for the set that is under way."""
    async with asyncio.timeout(within_s):
        while queue.waiting < calls:  # noqa: ASYNC110 — production has no use for an event that says so
            await asyncio.sleep(0.001)


async def until_in_line(lines: Lines[Any], *, requests: int = 1, within_s: float = 10.0) -> None:
    """Return once so many requests stand in line for an item of the queue."""
    async with asyncio.timeout(within_s):
        while lines.waiting < requests:  # noqa: ASYNC110 — see above
            await asyncio.sleep(0.001)


async def _number(connection: psycopg.AsyncConnection, query: LiteralString) -> int:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None, query
    return int(row[0])
