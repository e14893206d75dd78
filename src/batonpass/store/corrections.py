"""Corrections that stand, found by what they are about."""

from __future__ import annotations

from typing import Final

from batonpass.core.corrections import Target
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Node
from batonpass.store.base import Reader, q
from batonpass.store.nodes import nodes_of

Place = tuple[str, str]
"""A correction's target and id: the order of the list."""
START: Final[Place] = ("", "")


async def standing(tx: Reader, target: Target | None, *, after: Place, most: int) -> list[Node]:
    """Return at most `most` corrections that are not applied, of one target or all, after a place: by target and id."""
    if target is None:
        asked = q("corrections.standing", after_target=after[0], after_id=after[1], most=most)
    else:
        asked = q("corrections.standing_of", target=target.text, after_id=after[1], most=most)
    (rows,) = await tx.fetch(asked)
    ids = [NodeId(row[0]) for row in rows]
    found = await nodes_of(tx, ids)
    return [found[node] for node in ids]


def place(node: Node) -> Place:
    """Return a correction's place in the list."""
    return (str(node.authored.extra["target"]), node.id)
