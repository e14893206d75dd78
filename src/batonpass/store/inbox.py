"""Inbox rows: kept with their nodes, and read in order, box by box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from batonpass.core.ids import Instant, NodeId
from batonpass.core.inbox import Box, Entry, entries
from batonpass.core.nodes import Node
from batonpass.store.base import Reader, Row, Tx, as_json, q

Key = tuple[Box, str]
"""A box and whose it is: a person's id, or `inbox.NOBODY`."""

WINDOWS_MAX: Final = 10
"""How many windows of a box are read to fill a list. Between entries that count may stand some that have been resolved
by an edge, while their own status does not say so yet."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One entry as it is read. `by` is who wrote it, an agent before its person; `routed_to` None for nobody."""

    id: NodeId
    title: str
    project: str | None
    by: str | None
    at: Instant
    routed_to: str | None


@dataclass(slots=True)
class Read:
    """A box as far as it was read: its entries, oldest first; `more` when there are, or may be, others."""

    waiting: list[Waiting] = field(default_factory=list)
    more: bool = False
    after: tuple[int, str] = (-1, "")
    done: bool = False


def follow(tx: Tx, before: Node | None, after: Node) -> None:
    """Keep the rows of a locked node as it changes from `before`, None when it is new. Mostly nothing is to be done."""
    had, has = entries(before), entries(after)
    if gone := had - has:
        tx.put(q("inbox.remove", rows=_rows(after, gone)))
    if new := has - had:
        tx.put(q("inbox.put", rows=_rows(after, new)))


async def read(tx: Reader, keys: Sequence[Key], *, most: int) -> Mapping[Key, Read]:
    """Return at most `most` entries of each box, oldest first; all boxes travel together."""
    found = {key: Read() for key in keys}
    size = most + 1
    for _ in range(WINDOWS_MAX):
        open_keys = [key for key, seen in found.items() if not seen.done]
        if not open_keys:
            break
        windows = await tx.fetch(
            *(
                q("inbox.window", box=box, person=person, at=found[box, person].after[0],
                  node=found[box, person].after[1], most=size)
                for box, person in open_keys
            )
        )  # fmt: skip
        for key, rows in zip(open_keys, windows, strict=True):
            _add(found[key], rows, most=most, size=size)
    for seen in found.values():
        seen.more = seen.more or not seen.done
    return found


def _add(box: Read, rows: Sequence[Row], *, most: int, size: int) -> None:
    for node, at, title, project, author, agent, to, live in rows:
        box.after = (at, node)
        if not live:
            continue
        if len(box.waiting) == most:
            box.more = box.done = True
            return
        box.waiting.append(Waiting(node, title, project, agent or author, at, to))
    box.done = len(rows) < size


def _rows(node: Node, kept: frozenset[Entry]) -> str:
    rows = [{"box": entry.box, "person": entry.person, "at": entry.at, "node": node.id} for entry in sorted(kept)]
    return as_json(rows)
