"""What filing a text asks the database: which id is free, and what its writer is at work on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from batonpass.core.ids import HolderId, Instant, NodeId
from batonpass.store.base import Reader, Tx, as_json, q

AT_WORK_MOST: Final = 2
"""Enough to know that it is not one."""


def lock_stem(tx: Tx, stem: str) -> None:
    """Let nobody else file under `stem` before COMMIT; taken where the ids of new nodes are, and before them (D44)."""
    tx.put(q("filing.lock_stem", stem=stem))


async def taken(tx: Reader, ids: Iterable[NodeId]) -> frozenset[NodeId]:
    """Return which of `ids` are a node's or were a deleted one's, and so are no new node's."""
    (rows,) = await tx.fetch(q("filing.taken", ids=as_json(sorted(ids))))
    return frozenset(NodeId(row[0]) for row in rows)


async def at_work(tx: Reader, holder: HolderId, *, session: str, now: Instant) -> NodeId | None:
    """Return the one node that `holder` has claimed for `session`, or None when it is none or several."""
    (rows,) = await tx.fetch(q("filing.at_work", holder=holder, session=session, now=now, most=AT_WORK_MOST))
    return NodeId(rows[0][0]) if len(rows) == 1 else None
