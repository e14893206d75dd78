"""PostgreSQL's bell: NOTIFY after COMMIT, LISTEN while somebody waits, each on a connection of its own."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Final

import psycopg

from batonpass.store.bell import LOOK_DEAF_S, LOOK_S, Bell
from batonpass.store.endings import ended

log = logging.getLogger(__name__)

CHANNEL: Final = "batonpass_events"
NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', %s)"
LISTEN: Final = f"LISTEN {CHANNEL}"
NOTIFY_S_MIN: Final = 0.005
"""At most one NOTIFY in so many seconds, however many commits there are."""
AGAIN_S: Final = 1.0
"""How long to wait before another try to listen."""
CONNECT_S_MAX: Final = 5


class PostgresBell(Bell):
    """Rings in every process over one database.

    `listen_conninfo` is where LISTEN is to be had, None where it is not: a
    transaction-mode pooler hands the session to somebody else.
    """

    def __init__(self, notify_conninfo: str, listen_conninfo: str | None) -> None:
        super().__init__()
        self._notify_conninfo = notify_conninfo
        self._listen_conninfo = listen_conninfo
        self._me = secrets.token_hex(8)
        self._hears_others = False
        self._telling: asyncio.Task[None] | None = None
        self._teller: psycopg.AsyncConnection | None = None
        self._untold = False
        self._closed = False

    @property
    def silence_s_max(self) -> float:
        """How long silence may be trusted: not at all long while nothing is heard of other processes."""
        return LOOK_S if self._hears_others else LOOK_DEAF_S

    def ring(self) -> None:
        """Wake who waits here at once, and other processes a little later."""
        super().ring()
        self._untold = True
        if self._telling is None and not self._closed:
            self._telling = asyncio.create_task(self._tell(), name="notify")

    async def close(self) -> None:
        """Tell who waits here that it is over, and the others of the last events."""
        self._closed = True
        if (telling := self._telling) is not None:
            await asyncio.wait({telling}, timeout=AGAIN_S)
            await ended([telling])
        await self._let_go()
        await super().close()

    async def _tell(self) -> None:
        """Notify other processes until there is nothing that they have not been told.

        What can't be told is not: they look by themselves, a little later.
        """
        try:
            while self._untold:
                self._untold = False
                if self._teller is None or self._teller.closed:
                    self._teller = await _connect(self._notify_conninfo)
                await self._teller.execute(NOTIFY, (self._me,))
                await asyncio.sleep(NOTIFY_S_MIN)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("notify.failed", extra={"why": str(error)})
            await self._let_go()
        finally:
            self._telling = None

    async def _listen(self) -> None:
        """Hear other processes until cancelled; whenever that begins or breaks off, there may be something to see."""
        while self._listen_conninfo is not None:
            try:
                async with await _connect(self._listen_conninfo) as connection:
                    await connection.execute(LISTEN)
                    self._hears_others = True
                    self._call()
                    async for notice in connection.notifies():
                        if notice.payload != self._me:
                            self._call()
            except (psycopg.Error, OSError, TimeoutError) as error:
                log.warning("listen.failed", extra={"why": str(error)})
            finally:
                self._hears_others = False
            self._call()
            await asyncio.sleep(AGAIN_S)

    async def _let_go(self) -> None:
        teller, self._teller = self._teller, None
        if teller is not None:
            await teller.close()


async def _connect(conninfo: str) -> psycopg.AsyncConnection:
    connect = psycopg.AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
    return await asyncio.wait_for(connect, CONNECT_S_MAX)
