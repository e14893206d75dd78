"""Reading many nodes by their ids, in pages of a bounded size (companion 1.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from batonpass.core.ids import NodeId
from batonpass.server.services.views import body_of, views_of
from batonpass.store.base import Store
from batonpass.wire.batch import PAGE_BYTES_MAX, BatchReply, cursor_of
from batonpass.wire.nodes import NodeReply

CHUNK: Final = 20
"""How many nodes are read at once: a page holds some ten of the usual size."""


class Batches:
    """The batch read, one call of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, ids: Sequence[NodeId]) -> BatchReply:
        """Return as many of `ids` as a page holds, from the first on; a node that is bigger than a page comes alone."""
        page = _Page()
        async with self._store.read() as tx:
            for start in range(0, len(ids), CHUNK):
                chunk = ids[start : start + CHUNK]
                views = await views_of(tx, chunk)
                for place, node in enumerate(chunk, start):
                    seen = views.get(node)
                    if not page.takes(node, None if seen is None else body_of(seen)):
                        return page.reply(rest=ids[place:])
        return page.reply(rest=())


class _Page:
    """A page in the making."""

    def __init__(self) -> None:
        self._nodes: list[NodeReply] = []
        self._missing: list[str] = []
        self._bytes = 0

    def takes(self, node: NodeId, body: NodeReply | None) -> bool:
        """Add a node, or note that there is none; return False when it has to wait for the next page."""
        if body is None:
            self._missing.append(node)
            return True
        size = len(msgspec.json.encode(body)) + 1
        if self._nodes and self._bytes + size > PAGE_BYTES_MAX:
            return False
        self._nodes.append(body)
        self._bytes += size
        return True

    def reply(self, *, rest: Sequence[NodeId]) -> BatchReply:
        """Return the page, with what to give back for the `rest`."""
        return BatchReply(
            nodes=self._nodes,
            returned_ids=[node.id for node in self._nodes],
            missing_ids=self._missing,
            truncated=bool(rest),
            next_cursor=cursor_of(rest) if rest else None,
        )
