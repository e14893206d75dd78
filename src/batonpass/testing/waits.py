"""Waiting for what a test is about to rely on, always with a bound, never for a guessed time."""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

WAITERS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_blocked(url: str, *, sessions: int = 1, within_s: float = 10.0) -> None:
    """Return once so many sessions of the PostgreSQL database at `url` wait for somebody's lock."""
    async with asyncio.timeout(within_s), await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            row = await (await connection.execute(WAITERS)).fetchone()
            if row is not None and row[0] >= sessions:
                return
