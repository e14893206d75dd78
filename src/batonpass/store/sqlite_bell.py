"""SQLite's bell: while somebody waits, a counter in the file says whether another connection has committed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

from batonpass.store.bell import Bell

DATA_VERSION: Final = "PRAGMA data_version"
"""Changes with every commit of any other connection, whichever process it is in; 5 µs to read (D42)."""
LOOK_S: Final = 0.01


class SqliteBell(Bell):
    """Rings in every process that has the file open."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__()
        self._connect = connect

    async def _listen(self) -> None:
        """Look at the counter every `LOOK_S` seconds until cancelled."""
        with closing(self._connect()) as connection:
            seen = _version(connection)
            while True:
                await asyncio.sleep(LOOK_S)
                if (now := _version(connection)) != seen:
                    seen = now
                    self._call()


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute(DATA_VERSION).fetchone()[0]
    return version
