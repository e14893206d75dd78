"""Corrections that stand, found by what they are about."""

from __future__ import annotations

from batonpass.core.corrections import Target
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Node
from batonpass.store.base import Reader, q
from batonpass.store.nodes import nodes_of


async def standing(tx: Reader, target: Target | None, *, after: str, most: int) -> list[Node]:
    """Return at most `most` corrections that are not applied, of one target or all, after an id, in order of id."""
    if target is None:
        asked = q("corrections.standing", after=after, most=most)
    else:
        asked = q("corrections.standing_of", target=target.text, after=after, most=most)
    (rows,) = await tx.fetch(asked)
    ids = [NodeId(row[0]) for row in rows]
    found = await nodes_of(tx, ids)
    return [found[node] for node in ids]
