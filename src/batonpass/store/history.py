"""Rows of histories: one for each revision a node came to, and for each act upon it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core.history import REDACTED, beyond
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, NodeId
from batonpass.store.base import Reader, Row, Tx, as_json, q

CANDIDATES_MAX: Final = 5
"""How many revisions that begin alike are looked for; two are too many already."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a node's history: who did what, when and by which verb.

    `content` is the canonical markdown of the revision; an act (`core.history`)
    has none. `redaction` is the number of the entry that took it away.
    """

    n: int
    revision: str
    at: Instant
    verb: str
    author: str | None
    agent: str | None
    session: str | None
    via: str | None
    content: str
    reason: str | None = None
    redaction: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What an entry is to say: the text that a verb brought, or why an act was done."""

    verb: str
    content: str = ""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Addition:
    """An entry to append: of which node and at which revision, what it says, and who did it, through which door."""

    node: NodeId
    revision: str
    written: Written
    by: Principal
    via: str
    at: Instant


async def page(tx: Reader, node: NodeId, *, before: int, most: int) -> list[Entry]:
    """Return at most `most` entries of `node` before the `before`th, newest first."""
    (rows,) = await tx.fetch(q("history.page", node=node, before=before, most=most))
    return [Entry(*row) for row in rows]


async def get_entry(tx: Reader, node: NodeId, n: int) -> Entry | None:
    """Return the `n`th entry of `node`."""
    (rows,) = await tx.fetch(q("history.entry", node=node, n=n))
    return _first(rows)


async def get_newest(tx: Reader, node: NodeId, revision: str) -> Entry | None:
    """Return the entry by which `node` last came to `revision`."""
    (rows,) = await tx.fetch(q("history.newest", node=node, revision=revision))
    return _first(rows)


async def revisions(tx: Reader, node: NodeId, prefix: str) -> list[str]:
    """Return the revisions of `node` that begin with `prefix`, or the first few of them."""
    (rows,) = await tx.fetch(
        q("history.revisions", node=node, least=prefix, beyond=beyond(prefix), most=CANDIDATES_MAX)
    )
    return [row[0] for row in rows]


def add(tx: Tx, node: NodeId, revision: str, written: Written, *, by: Principal, via: str, at: Instant) -> None:
    """Append an entry to the history of a locked node, or of a locked tombstone, which is at `revision`."""
    add_all(tx, [Addition(node, revision, written, by=by, via=via, at=at)])


def add_all(tx: Tx, added: Sequence[Addition]) -> None:
    """Append an entry to each history of different nodes; see `add`."""
    if added:
        tx.put(q("history.add", rows=as_json([_row(one) for one in added])))


async def redact(tx: Tx, node: NodeId, revision: str) -> int:
    """Take the text of a revision out of the history of a locked node, and return from how many entries.

    They name the entry that is added next, which says who did it and why.
    """
    (rows,) = await tx.fetch(q("history.redact", node=node, revision=revision, marker=REDACTED))
    return len(rows)


def _row(one: Addition) -> dict[str, object]:
    return {
        "node": one.node,
        "revision": one.revision,
        "at": one.at,
        "verb": one.written.verb,
        "author": one.by.person,
        "authored_by_agent": one.by.id if one.by.is_agent else None,
        "session": one.by.session,
        "via": one.via,
        "content": one.written.content,
        "reason": one.written.reason,
    }


def _first(rows: list[Row]) -> Entry | None:
    return Entry(*rows[0]) if rows else None
