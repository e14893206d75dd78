"""The graph out of the database: every node of one snapshot as markdown, in order of id (D12, D39)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from batonpass.core.ids import Instant, NodeId
from batonpass.store import transfer
from batonpass.store.base import Store
from batonpass.store.transfer import Found
from batonpass.wire import markdown
from batonpass.wire.nodes import claim_of


@dataclass(frozen=True, slots=True)
class Exported:
    """One node of an export: its text, and when it last changed."""

    id: NodeId
    text: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Export:
    """What there is to send: how many nodes, and these, page by page as they are taken."""

    node_count: int
    pages: AsyncIterator[Sequence[Exported]]


class Transfers:
    """Exports. Whoever may read a node may read them all (D40)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @asynccontextmanager
    async def export(self, *, project: str | None, authored: bool) -> AsyncIterator[Export]:
        """Open an export of one project, or of all: all that is shown of a node, or exactly its `authored` part.

        Its snapshot ends with the block: leave it as soon as nobody listens.
        """
        async with self._store.read_long() as tx:
            count = await transfer.count(tx, project=project)
            yield Export(count, _texts(transfer.pages(tx, project=project), authored=authored))


async def _texts(pages: AsyncIterator[list[Found]], *, authored: bool) -> AsyncIterator[Sequence[Exported]]:
    async for page in pages:
        # A page is milliseconds of work, and others wait for the event loop.
        yield await asyncio.to_thread(_written, page, authored=authored)


def _written(page: Sequence[Found], *, authored: bool) -> list[Exported]:
    return [
        Exported(
            found.node.id,
            markdown.write(found.node.authored) if authored else markdown.raw(found.node, claim=claim_of(found.lease)),
            found.node.updated_at,
        )
        for found in page
    ]
