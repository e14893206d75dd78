"""A proxy before PostgreSQL that loses the connection at COMMIT: the answer nobody gets (D45, H24).

async with cutting_proxy(cluster.socket_dir) as proxy:
    store = await open_store(proxy.url("test_1"))
    proxy.cut = Cut.ANSWER        # COMMIT arrives, its answer does not
    proxy.cut = Cut.REQUEST       # COMMIT does not arrive
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import quote

from anyio.from_thread import start_blocking_portal

SOCKET: Final = ".s.PGSQL.5432"
CHUNK_BYTES: Final = 65536
_COMMIT: Final = b"COMMIT\0"


class Cut(Enum):
    """Where the connection is lost."""

    NEVER = "never"
    REQUEST = "COMMIT does not arrive"
    ANSWER = "the answer to COMMIT does not arrive"


@dataclass(slots=True)
class CuttingProxy:
    """Passes everything on, until a COMMIT that is to be `cut`. `commits` counts those that clients have sent."""

    folder: Path
    server: Path
    cut: Cut = Cut.NEVER
    commits: int = 0
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, database: str) -> str:
        """Return the URL of `database` through this proxy; a prepared COMMIT could not be told from other requests."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}&pooler=transaction"

    async def accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        server, to_server = await asyncio.open_unix_connection(self.server)
        answers = asyncio.create_task(_pass_on(server, to_client))
        self._open.add(answers)
        try:
            while request := await client.read(CHUNK_BYTES):
                if _COMMIT in request:
                    self.commits += 1
                    if self.cut is Cut.REQUEST:
                        break
                    if self.cut is Cut.ANSWER:
                        answers.cancel()
                        with suppress(asyncio.CancelledError):
                            await answers  # two may not read one stream
                        to_server.write(request)
                        await server.read(CHUNK_BYTES)
                        break
                to_server.write(request)
                await to_server.drain()
        finally:
            for writer in (to_server, to_client):
                writer.close()
            with suppress(asyncio.CancelledError, ConnectionError):
                await answers
            self._open.discard(answers)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while answer := await source.read(CHUNK_BYTES):
            sink.write(answer)
            await sink.drain()


@contextmanager
def cutting_proxy(socket_dir: Path) -> Iterator[CuttingProxy]:
    """Listen before the PostgreSQL whose socket is in `socket_dir`, for the length of the block."""
    # Not pytest's folder: a socket's whole path must fit in about a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="baton-cut-") as folder, start_blocking_portal(name="proxy") as portal:
        proxy = CuttingProxy(Path(folder), socket_dir / SOCKET)
        with portal.wrap_async_context_manager(_listening(proxy)):
            yield proxy


@asynccontextmanager
async def _listening(proxy: CuttingProxy) -> AsyncIterator[None]:
    server = await asyncio.start_unix_server(proxy.accept, proxy.folder / SOCKET)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
