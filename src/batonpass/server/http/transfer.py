"""The route of exports: a tar that is sent as it is read, to whoever goes on taking it (D39)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from batonpass.core.errors import BatonError
from batonpass.core.nodes import parse_slug
from batonpass.server.http.call import Call, flag, refused
from batonpass.server.services.transfer import Export, Exported
from batonpass.wire import transfer as wire

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
STALL_S_MAX: Final = 60.0
"""How long a listener may take over one chunk. One that takes longer would keep a snapshot open for nobody."""


async def export(call: Call) -> Response:
    """Return every node, or those of a project, as a tar of markdown files, streamed from one snapshot."""
    asked = call.query
    project = parse_slug(asked["project"], name="project") if "project" in asked else None
    opening = call.services.transfers.export(project=project, authored=flag(asked, "authored"))
    return _Download(opening, gzip=flag(asked, "gzip"))


class _Download(Response):
    """An export as a response: opened when it is sent, and closed when the last byte, or the listener, has gone."""

    def __init__(self, opening: AbstractAsyncContextManager[Export], *, gzip: bool) -> None:
        super().__init__()
        self._opening = opening
        self._gzip = gzip
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it whole, or break off: what was cut short has no end, which every reader of HTTP notices."""
        try:
            async with self._opening as export:
                await self._streamed(export)(scope, receive, _unless_stalled(send))
        except BatonError as error:
            if self._begun:
                raise
            await refused(error)(scope, receive, send)
        except TimeoutError:
            log.warning("export.stalled", extra={"path": scope["path"]})

    def _streamed(self, export: Export) -> StreamingResponse:
        self._begun = True
        kind = wire.GZIP if self._gzip else wire.TAR
        headers = {wire.NODE_COUNT: str(export.node_count)}
        return StreamingResponse(_chunks(export.pages, gzip=self._gzip), media_type=kind, headers=headers)


async def _chunks(pages: AsyncIterator[Sequence[Exported]], *, gzip: bool) -> AsyncIterator[bytes]:
    packer = wire.Packer(gzip=gzip)
    async for page in pages:
        packed = await asyncio.to_thread(_packed, packer, page)
        for start in range(0, len(packed), CHUNK_BYTES):
            yield packed[start : start + CHUNK_BYTES]
    yield packer.end()


def _packed(packer: wire.Packer, page: Sequence[Exported]) -> bytes:
    return packer.add(b"".join(wire.member(node.id, node.text, at=node.at) for node in page))


def _unless_stalled(send: Send) -> Send:
    async def bounded(message: Message) -> None:
        async with asyncio.timeout(STALL_S_MAX):
            await send(message)

    return bounded
