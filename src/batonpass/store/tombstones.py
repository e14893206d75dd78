"""Tombstones: what is left of deleted nodes, so that their ids are never used again (D41)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from batonpass.core.clock import iso
from batonpass.core.errors import NotFound
from batonpass.core.ids import HolderId, Instant, NodeId
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Which node was deleted at which revision, when, by whom and why."""

    id: NodeId
    type: str
    project: str | None
    revision: str
    deleted_at: Instant
    deleted_by: HolderId
    reason: str

    @property
    def words(self) -> str:
        """What there is to say to whoever asks for the node."""
        return f"{self.id} was deleted at {iso(self.deleted_at)} by {self.deleted_by}: {self.reason}"


async def tombstones_of(tx: Reader, ids: Iterable[NodeId]) -> dict[NodeId, Tombstone]:
    """Return the tombstones of those among `ids` whose nodes were deleted."""
    ids = sorted(set(ids))
    if not ids:
        return {}
    (rows,) = await tx.fetch(asked(ids))
    return of_rows(rows)


def asked(ids: Iterable[NodeId]) -> Statement:
    """Ask for the tombstones of those among `ids` whose nodes were deleted; see `of_rows`."""
    return q("tombstones.of", ids=as_json(sorted(set(ids))))


def of_rows(rows: Sequence[Row]) -> dict[NodeId, Tombstone]:
    """Return the answer to `asked` by id."""
    return {row[0]: Tombstone(*row) for row in rows}


def absent(node: NodeId, tombstone: Tombstone | None) -> NotFound:
    """Return the error for a node that is not there, saying what became of it if it was deleted."""
    return NotFound(f"there is no node {node}" if tombstone is None else f"there is no such node: {tombstone.words}")


async def absence(tx: Reader, node: NodeId) -> NotFound:
    """Return the same error, having looked what became of the node."""
    return absent(node, (await tombstones_of(tx, [node])).get(node))


async def lock(tx: Tx, node: NodeId) -> Tombstone | None:
    """Lock the tombstone of `node`, if there is one, and return it."""
    (rows,) = await tx.fetch(q("tombstones.lock", id=node))
    return Tombstone(*rows[0]) if rows else None


def put_in_place_of_node(tx: Tx, tombstone: Tombstone) -> None:
    """Remove a locked node with its edges and commits, and leave `tombstone`. Its lease row and history stay."""
    tx.put(q("tombstones.remove_edges", id=tombstone.id))
    tx.put(q("tombstones.remove_commits", id=tombstone.id))
    tx.put(q("tombstones.remove_node", id=tombstone.id))
    tx.put(q("tombstones.raise", row=as_json(asdict(tombstone))))
