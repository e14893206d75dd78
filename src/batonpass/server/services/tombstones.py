"""Deleting a node: a tombstone takes its place, and its id is never used again (D41).

What was its own goes: its edges and its tenure. What is about it stays: its
history, its events, and the edges that lead to it, which reads show as leading
to a deleted node. The lease row stays too, with its epoch, so that a worker
that still believes in its tenure is refused like any other zombie.
"""

from __future__ import annotations

from typing import Final

from batonpass.core.errors import AlreadyClaimed, BatonError, Invalid
from batonpass.core.identity import Principal
from batonpass.core.ids import NodeId, Resource
from batonpass.core.leases import Kind, LeaseView, Request, Verb, view
from batonpass.core.nodes import Node
from batonpass.server.services.asks import Ask
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.editor import Editor
from batonpass.server.services.engine import decide_within
from batonpass.server.services.principals import require_admin, require_current
from batonpass.store import edges
from batonpass.store.base import Fences, Store, retried
from batonpass.wire.leases import lease_body
from batonpass.wire.tombstones import DeleteReply

INBOUND_COUNTED_MAX: Final = 1000
"""How many edges onto a deleted node are counted for the reply."""


class Tombstones:
    """Deletion, one call of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def delete(self, caller: Caller, node: NodeId, *, reason: str, force: bool) -> DeleteReply | Replayed:
        """Delete a node and end its tenure; somebody's live one only by `force`. An admin's act."""
        resource = Resource(node)
        async with change(self._store, caller, onto=frozenset({resource}), changing=frozenset({resource})) as made:
            if made.replayed is not None:
                return made.replayed
            by = await require_current(made.tx, made.now)
            require_admin(by)
            editor = await Editor.over(made, {node})
            before = editor.require(node)
            _require_deletable(before)
            ended = await _end_tenure(made, by, resource, reason=reason, force=force)
            dangling = await edges.count_inbound(made.tx, node, most=INBOUND_COUNTED_MAX)
            await editor.bury(before, reason=reason)
            await editor.finish()
            warnings = [*caller.warnings, *_dangling_words(node, dangling)]
            body = lease_body(ended) if ended is not None else None
            return made.answer(DeleteReply("deleted", node, before.revision, dangling, warnings, body))


def _require_deletable(node: Node) -> None:
    """Raise `Invalid` for who somebody is: people and agents have tokens and history, which outlive any node."""
    if node.kind.identity:
        raise Invalid(
            f"id: {node.id} is a {node.kind.name}, which is not deleted: end its tokens, and it can do nothing more",
            field="id",
        )


async def _end_tenure(made: Change, by: Principal, resource: Resource, *, reason: str, force: bool) -> LeaseView | None:
    """End whatever tenure there is and return it as it was; raise `AlreadyClaimed` for another's live one."""
    lease = made.tx.locked.get(resource)
    if lease is None or lease.kind is Kind.NONE:
        return None
    seen = view(lease, made.now)
    if lease.in_force(made.now) and lease.holder != by.id and not force:
        raise AlreadyClaimed(
            f"{resource} is held by {lease.holder}, at work on it perhaps: force deletes it and ends that lease",
            holder=seen,
        )
    outcome = await decide_within(made.tx, Ask(Request(by, Verb.RELEASE, resource, reason=reason), Fences()))
    if isinstance(outcome, BatonError):
        raise outcome
    return seen


def _dangling_words(node: NodeId, dangling: int) -> list[str]:
    if not dangling:
        return []
    count = f"{dangling} edges" if dangling < INBOUND_COUNTED_MAX else f"{dangling} edges or more"
    return [f"edges: {count if dangling > 1 else '1 edge'} onto {node} lead nowhere now; they are not removed"]
