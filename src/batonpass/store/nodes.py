"""Node rows: reading, locking, writing, history. What may be written is the service's and core's to say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.edges import Edge
from batonpass.core.ids import Instant, NodeId, Resource
from batonpass.core.node_types import is_dead, is_queueable, resolves_others
from batonpass.core.nodes import Attribution, Authored, Node, Stamp, Value
from batonpass.core.queue import rank
from batonpass.store import leases
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q
from batonpass.store.edges import edges_asked, edges_by_src


@dataclass(frozen=True, slots=True)
class Filter:
    """Which nodes a list shows; None shows all. `status` "" means none; `assignee` counts routing and leases."""

    types: tuple[str, ...] | None = None
    status: str | None = None
    project: str | None = None
    assignee: str | None = None
    text: str | None = None


# --- reading -----------------------------------------------------------------------------------------------------


def nodes_asked(ids: Iterable[NodeId]) -> Statement:
    """Ask for nodes as committed; goes with `edges_asked` of the same ids, see `nodes_of_rows`."""
    return q("nodes.of", ids=as_json(sorted(set(ids))))


def nodes_of_rows(rows: Sequence[Row], edge_rows: Sequence[Row]) -> dict[NodeId, Node]:
    """Return the answers to `nodes_asked` and `edges_asked` by id; a node that is not there is absent."""
    edges = edges_by_src(edge_rows)
    return {row[0]: _node(row, edges.get(row[0], ())) for row in rows}


async def nodes_of(tx: Reader, ids: Iterable[NodeId]) -> dict[NodeId, Node]:
    """Return nodes as committed, by id; one that is not there is absent."""
    ids = sorted(set(ids))
    rows, edge_rows = await tx.fetch(nodes_asked(ids), edges_asked(ids))
    return nodes_of_rows(rows, edge_rows)


async def lock(
    tx: Tx, ids: Iterable[NodeId], *, new: Iterable[NodeId] = (), after: Sequence[Statement] = ()
) -> tuple[dict[NodeId, Node], list[list[Row]]]:
    """Lock nodes in order of id and return those that are there, by id, as they are under the lock.

    The ids of `new`, which this transaction may `insert`, are locked before
    whether or not there is such a node: two that create the same nodes in
    different orders would otherwise wait for each other (D44). The statements
    `after` go along, after the locks; their rows are returned too.
    """
    ids, new = sorted(set(ids)), sorted(set(new))
    if new:
        tx.put(q("nodes.lock_new", ids=as_json(new)))
    rows, edge_rows, *others = await tx.fetch(q("nodes.lock", ids=as_json(ids)), edges_asked(ids), *after)
    return nodes_of_rows(rows, edge_rows), others


async def list_nodes(tx: Reader, wanted: Filter, *, after: str, most: int) -> list[Node]:
    """Return at most `most` nodes after the id `after`, in order of id."""
    (rows,) = await tx.fetch(
        q(
            "nodes.list",
            types=as_json(wanted.types) if wanted.types is not None else None,
            status=wanted.status,
            project=wanted.project,
            assignee=wanted.assignee,
            text=wanted.text,
            after=after,
            most=most,
        )
    )
    return [_node(row, ()) for row in rows]


# --- writing -----------------------------------------------------------------------------------------------------


def insert(tx: Tx, created: Sequence[Node]) -> None:
    """Insert nodes, whose ids were locked as `new` and not there, with their free lease rows; edges come extra."""
    if created:
        tx.put(q("nodes.insert", rows=as_json([_columns(node) for node in created])))
        leases.create(tx, [Resource(node.id) for node in created])


def update(tx: Tx, changed: Sequence[Node]) -> None:
    """Write the own rows of different locked nodes."""
    if changed:
        tx.put(q("nodes.update", rows=as_json([_columns(node) for node in changed]), expected=len(changed)))


# --- rows --------------------------------------------------------------------------------------------------------


def _node(row: Row, edges: Sequence[Edge]) -> Node:
    authored_columns, rest = row[:_AUTHORED], row[_AUTHORED:]
    values = dict(zip(_AUTHORED_NAMES, authored_columns, strict=True))
    values["requires"] = tuple(json.loads(values["requires"]))
    values["extra"] = {key: _value(value) for key, value in json.loads(values["extra"]).items()}
    revision, author, agent, session, via, created_at, updated_at, *stamps = rest
    priority_by, priority_at, priority_via, readiness_by, readiness_at, readiness_via, by_person = stamps
    return Node(
        authored=Authored(**values, edges=tuple(edges)),
        revision=revision,
        attribution=Attribution(author, via or "", agent, session),
        created_at=created_at,
        updated_at=updated_at,
        priority_stamp=_stamp(priority_by, priority_at, priority_via),
        readiness_stamp=_stamp(readiness_by, readiness_at, readiness_via),
        ready_by_person=bool(by_person),
    )


def _columns(node: Node) -> dict[str, object]:
    """Return the row of `node`, with core's verdicts that the queue's indexes are made of."""
    authored, kind, by = node.authored, node.kind, node.attribution
    row: dict[str, object] = {name: getattr(authored, name) for name in _AUTHORED_NAMES}
    row |= {
        "requires": as_json(authored.requires),
        "extra": as_json(dict(authored.extra)),
        "revision": node.revision,
        "author": by.author,
        "authored_by_agent": by.agent,
        "session": by.session,
        "authored_via": by.via,
        "created_at": node.created_at,
        "updated_at": node.updated_at,
        "readiness_person": node.ready_by_person,
        "born": _born(node),
        "dead": is_dead(kind, authored.status),
        "resolving": resolves_others(authored.status),
        "queueable": is_queueable(kind, authored.status),
        "rank": rank(authored.priority),
    }
    for name, stamp in (("priority", node.priority_stamp), ("readiness", node.readiness_stamp)):
        row[f"{name}_by"] = stamp.by if stamp is not None else None
        row[f"{name}_at"] = stamp.at if stamp is not None else None
        row[f"{name}_via"] = stamp.via if stamp is not None else None
    return row


def _born(node: Node) -> Instant:
    """Return where the node's age counts from: the beginning of its date, else its creation."""
    if node.authored.date is None:
        return node.created_at
    day = datetime.fromisoformat(node.authored.date).replace(tzinfo=UTC)
    return Instant(int(day.timestamp()) * MICROS_PER_S)


def _stamp(by: str | None, at: Instant | None, via: str | None) -> Stamp | None:
    return None if by is None or at is None else Stamp(by, at, via or "")


def _value(value: str | list[str]) -> Value:
    return value if isinstance(value, str) else tuple(value)


_AUTHORED_NAMES: Final = (
    "id type title summary status date project priority readiness wake needed_by requires profile extra body".split()
)
_AUTHORED: Final = len(_AUTHORED_NAMES)
