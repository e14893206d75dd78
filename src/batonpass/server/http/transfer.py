"""The route of exports: a tar that is sent as it is read, to whoever goes on taking it (D39)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from batonpass.core.nodes import parse_slug
from batonpass.server.http.call import Call, flag
from batonpass.server.services.transfer import Exported
from batonpass.wire import transfer as wire

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
STALL_S_MAX: Final = 60.0
"""How long a listener may take over one chunk. One that takes longer would keep a snapshot open for nobody."""


async def export(call: Call) -> Response:
    """Return every node, or those of a project, as a tar of markdown files, streamed from one snapshot."""
    asked = call.query
    project = parse_slug(asked["project"], name="project") if "project" in asked else None
    gzip = flag(asked, "gzip")
    async with AsyncExitStack() as stack:
        opening = call.services.transfers.export(project=project, authored=flag(asked, "authored"))
        opened = await stack.enter_async_context(opening)
        headers = {wire.NODE_COUNT: str(opened.node_count)}
        kind = wire.GZIP if gzip else wire.TAR
        if call.request.method == "HEAD":
            return Response(headers=headers, media_type=kind)
        return _Download(_chunks(opened.pages, gzip=gzip), stack.pop_all(), media_type=kind, headers=headers)


class _Download(StreamingResponse):
    """An export on its way. Its snapshot is closed when the last byte, or the listener, has gone.

    What breaks off has no end, which every reader of HTTP notices.
    """

    def __init__(
        self, chunks: AsyncIterator[bytes], snapshot: AsyncExitStack, *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(chunks, media_type=media_type, headers=headers)
        self._snapshot = snapshot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it whole, or give it up."""
        async with self._snapshot:
            try:
                await super().__call__(scope, receive, _unless_stalled(send))
            except TimeoutError:
                log.warning("export.stalled", extra={"path": scope["path"]})


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
