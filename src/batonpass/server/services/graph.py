"""The graph's routes: the batch door, edges, the one-scalar verbs, and reads (companion 1.6 to 4, D4, D12, D41).

Each public method is one transaction. A write locks the nodes it changes in
order of id and decides by core's law on what it finds there; see `editor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core import edges as edge_law
from batonpass.core import nodes as node_law
from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.edges import REVIEW_OUTCOMES, Edge
from batonpass.core.errors import BatonError, InvalidNode, NotReady
from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, NodeId, Resource
from batonpass.core.leases import LeaseView, Request, Verb, view
from batonpass.core.node_types import type_of
from batonpass.core.nodes import READY, Node
from batonpass.server.services.asks import Ask
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.editor import Deed, Editor, Step
from batonpass.server.services.engine import Done, decide_within
from batonpass.server.services.puts import puts_edges, require_foreseen, result_of
from batonpass.server.services.views import NodeView, lease_view, views_of
from batonpass.store import edges, items, leases, nodes, runs, tombstones
from batonpass.store.base import Fences, Store, retried
from batonpass.store.edges import Direction, SeenEdge
from batonpass.store.nodes import Filter
from batonpass.wire import nodes as wire
from batonpass.wire.leases import lease_body

PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class NodePage:
    """Nodes in order of id, and where the next page begins."""

    nodes: tuple[Node, ...]
    next: NodeId | None


@dataclass(frozen=True, slots=True)
class EdgePage:
    """A node's edges in order of direction, type and other end; the lease whose edge stands among them (D4)."""

    edges: tuple[SeenEdge, ...]
    claim: LeaseView | None
    next: tuple[str, str, str] | None


class Graph:
    """Nodes and edges of the API. Each public method is one call of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- writing ------------------------------------------------------------------------------------------------

    @retried
    async def put(
        self, caller: Caller, entries: Sequence[wire.Entry], *, cycles: wire.Cycles = "refuse", keeping: bool = False
    ) -> wire.PutReply | Replayed:
        """Write the entries in order, each by what the ones before left; a refused one stops no other.

        `keeping` what the entries say of their past is for admins (D12).
        """
        puts = [entry for entry in entries if isinstance(entry, wire.Put)]
        named = frozenset(put.node for put in puts)
        written = named.union(flip.src for put in puts for flip in put.reading.flipped)
        tenures = [Fence(Resource(put.node), put.if_epoch) for put in puts if put.if_epoch is not None]
        caller = caller.standing_on(*tenures)
        updated = frozenset(put.node for put in puts if put.if_exists == "update")
        reached = [*puts_edges(puts), *await self._stored_edges(caller.principal, updated)]
        onto = _onto(caller.principal, written, {edge.to for _, edge in reached})
        async with change(self._store, caller, onto=onto) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, written, new=named, edges=reached, restoring=keeping, cycles=cycles)
            require_foreseen(editor, updated, onto)
            results = [await result_of(editor, entry) for entry in entries]
            await editor.finish()
            return made.answer(wire.put_reply(results, warnings=caller.warnings))

    async def _stored_edges(self, principal: Principal, updated: frozenset[NodeId]) -> list[tuple[NodeId, Edge]]:
        """Return the edges that an update may take away, for those whose locks depend on it.

        A run writes onto what they lead to (D2b), and some are an admin's to
        take away. They are as committed now, before any lock; what has come
        since is noticed under it, by `_require_foreseen` and `Editor.check`.
        """
        if not updated or not (principal.run is not None or principal.is_admin):
            return []
        async with self._store.read() as tx:
            (rows,) = await tx.fetch(edges.edges_asked(updated))
        return [(src, edge) for src, stored in edges.edges_by_src(rows).items() for edge in stored]

    @retried
    async def add_edge(
        self,
        caller: Caller,
        node: NodeId,
        named: str,
        other: NodeId,
        *,
        attrs: Mapping[str, object],
        live: bool = False,
    ) -> wire.ChangeReply | Replayed:
        """Write one edge, under its canonical type and on the node it leads from; both must exist.

        With `live` the node it leads to must be so too, looked at under the lock
        on it: else `NotReady`.
        """
        src, edge = _edge(node, named, other, attrs)
        async with change(self._store, caller, onto=_onto(caller.principal, {src}, {node, other})) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, {src, edge.to}, edges=[(src, edge)])
            before = editor.require(src)
            editor.require(edge.to)
            if live:
                await _require_live(made, edge.to)
            kept = [known for known in before.authored.edges if not _gives_way(known, edge)]
            step = Step(before, replace(before.authored, edges=edge_law.in_order([*kept, edge])))
            deed = Deed("edge_added", "node.edge_added", {"type": edge.type, "to": edge.to})
            return made.answer(await _changed(editor, step, deed, warnings=_flip_warnings(node, src, named, edge)))

    @retried
    async def remove_edge(self, caller: Caller, node: NodeId, named: str, other: NodeId) -> wire.ChangeReply | Replayed:
        """Remove one edge, named as for `add_edge`; one that is not there is skipped."""
        src, edge = _edge(node, named, other, {})
        async with change(self._store, caller, onto=_onto(caller.principal, {src}, {node, other})) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, {src, node}, edges=[(src, edge)])
            editor.require(node)
            before = editor.require(src)
            kept = tuple(known for known in before.authored.edges if known.key != edge.key)
            step = Step(before, replace(before.authored, edges=kept))
            deed = Deed("edge_removed", "node.edge_removed", {"type": edge.type, "to": edge.to})
            return made.answer(await _changed(editor, step, deed, warnings=_flip_warnings(node, src, named, edge)))

    @retried
    async def set_status(
        self,
        caller: Caller,
        node: NodeId,
        status: str | None,
        *,
        session: str | None,
        dispatch: str | None,
        if_epoch: int | None,
    ) -> wire.ChangeReply | Replayed:
        """Set or take away a status; the type's in-progress status claims the node first (D10).

        A status that claims is a lease verb: it always reports the row as it
        is now and is never answered from an earlier call (D11).
        """
        resource, kind = Resource(node), type_of(node)
        claims = status is not None and kind is not None and status == kind.in_progress
        caller = replace(caller, repeatable=None) if claims else caller
        changing = frozenset({resource} if claims else ())
        async with change(self._store, caller, onto=frozenset({resource}), changing=changing) as made:
            if made.replayed is not None:
                return made.replayed
            request = Request(
                caller.principal, Verb.CLAIM, resource, session=session, dispatch=dispatch, if_epoch=if_epoch
            )
            done = await _claimed(made, request) if claims else None
            editor = await Editor.over(made, {node})
            before = editor.require(node)
            if done is not None:
                made.tx.put(items.marked({resource}, ()))
            step = Step(before, replace(before.authored, status=status))
            deed = Deed("status", "node.status", {"from": before.authored.status, "to": status})
            return made.answer(_with_lease(await _changed(editor, step, deed), done))

    @retried
    async def set_priority(self, caller: Caller, node: NodeId, priority: str | None) -> wire.ChangeReply | Replayed:
        """Set or clear the priority and its stamp."""
        wanted = node_law.parse_priority(priority)
        async with change(self._store, caller, onto=frozenset({Resource(node)})) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, {node})
            before = editor.require(node)
            step = Step(before, replace(before.authored, priority=wanted))
            return made.answer(await _changed(editor, step, Deed("priority", "node.priority", {"priority": wanted})))

    @retried
    async def set_readiness(self, caller: Caller, node: NodeId, readiness: str | None) -> wire.ChangeReply | Replayed:
        """Set or clear the readiness and its stamp; a person's also forgives lapses and runs (D9, D22, D41)."""
        wanted, resource = node_law.parse_readiness(readiness), Resource(node)
        forgives = wanted == READY and caller.principal.is_person
        changing = frozenset({resource} if forgives else ())
        async with change(self._store, caller, onto=frozenset({resource}), changing=changing) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, {node})
            before = editor.require(node)
            forgiven = await _forgive(made, resource) if forgives else {}
            consents = wanted == READY and not before.ready_by_person and caller.principal.is_person
            restamps = "readiness" if forgiven or consents else None
            data = {"readiness": wanted, **forgiven}
            step = Step(before, replace(before.authored, readiness=wanted))
            reply = await _changed(editor, step, Deed("readiness", "node.readiness", data, restamps=restamps))
            reply.warnings += await _unheard(made, step)
            return made.answer(reply)

    @retried
    async def add_commit(self, caller: Caller, node: NodeId, commit: str) -> wire.ChangeReply | Replayed:
        """Add ``repo@sha`` to the node's commits; one that is listed already, by any prefix, is skipped."""
        if (finding := node_law.check_commit(commit, name="sha")) is not None:
            raise InvalidNode(finding, details=[finding], field="sha")
        async with change(self._store, caller, onto=frozenset({Resource(node)})) as made:
            if made.replayed is not None:
                return made.replayed
            editor = await Editor.over(made, {node})
            before = editor.require(node)
            listed = before.authored.extra.get("commits", ())
            commits = node_law.merge_commits([*listed, commit])
            step = Step(before, replace(before.authored, extra={**before.authored.extra, "commits": commits}))
            return made.answer(await _changed(editor, step, Deed("commit", "node.put", {"commit": commit})))

    # --- reading ------------------------------------------------------------------------------------------------

    async def get(self, node: NodeId) -> NodeView:
        """Return a node with its lease, who resolved or superseded it, and its open findings; else `NotFound`."""
        async with self._store.read() as tx:
            found = (await views_of(tx, [node])).get(node)
            if found is None:
                raise await tombstones.absence(tx, node)
        return found

    async def edges_of(
        self,
        node: NodeId,
        *,
        direction: Direction | None,
        types: Sequence[str] | None,
        after: tuple[str, str, str],
        limit: int,
    ) -> EdgePage:
        """Return a page of a node's edges in both directions or one, of all types or some."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            now = await tx.now()
            if not await nodes.nodes_of(tx, [node]):
                raise await tombstones.absence(tx, node)
            seen = await edges.page(tx, node, direction=direction, types=types, after=after, most=most + 1)
            held = await leases.leases_of(tx, [Resource(node)])
        page, more = tuple(seen[:most]), len(seen) > most
        last = _place(page[-1]) if page and more else None
        claim = lease_view(held, node, now) if direction != "in" and (types is None or "assigned" in types) else None
        place = ("out", "assigned", claim.by) if claim is not None else None
        on_page = place is not None and after < place and (last is None or place <= last)
        return EdgePage(page, claim if on_page else None, last)

    async def listed(self, wanted: Filter, *, after: str, limit: int) -> NodePage:
        """Return a page of nodes in order of id."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            found = await nodes.list_nodes(tx, wanted, after=after, most=most + 1)
        page = tuple(found[:most])
        return NodePage(page, page[-1].id if len(found) > most else None)


# --- edges and verbs -------------------------------------------------------------------------------------------------


def _edge(node: NodeId, named: str, other: NodeId, attrs: Mapping[str, object]) -> tuple[NodeId, Edge]:
    """Return the node an edge belongs on, and the edge under its canonical type; `InvalidNode` if it can't be one."""
    known = edge_law.normalise(named)
    src, dst = (other, node) if known.inverted else (node, other)
    if edge_law.is_claim(known.type.name, attrs):
        raise InvalidNode("attrs.via: a claim's edge is read off its lease; claim the node instead", field="attrs")
    findings = edge_law.check_attrs(attrs)
    edge = Edge(known.type.name, dst, {} if findings else {key: str(value) for key, value in attrs.items()})
    findings += node_law.edge_findings(src, edge)
    if findings:
        raise InvalidNode(findings[0], details=findings, field=findings[0].partition(":")[0])
    return src, edge


async def _require_live(made: Change, node: NodeId) -> None:
    """Raise `NotReady` for a locked node that its status, a successor or a resolver has retired (companion 2.2)."""
    (rows,) = await made.tx.fetch(leases.obstacles_asked([Resource(node)]))
    for obstacle in leases.obstacles(rows).values():
        if obstacle.execution is not None:
            continue  # what a pipeline has is live, whatever leads onto it (D24a)
        if obstacle.resolved_by is not None:
            raise NotReady(f"{node} is resolved by {obstacle.resolved_by}; no edge was added")
        if obstacle.superseded_by is not None:
            raise NotReady(f"{node} is superseded by {obstacle.superseded_by}; no edge was added")
        raise NotReady(f"{node} has status {obstacle.status}; no edge was added")


def _gives_way(known: Edge, new: Edge) -> bool:
    """Whether a stored edge is replaced by `new`: the same edge, or another outcome of the same review."""
    review = known.type in REVIEW_OUTCOMES and new.type in REVIEW_OUTCOMES
    return known.to == new.to and (known.type == new.type or review)


def _flip_warnings(node: NodeId, src: NodeId, named: str, edge: Edge) -> list[str]:
    return [] if src == node else [f"type: {named} is written as {edge.type} on {src}"]


async def _changed(editor: Editor, step: Step, deed: Deed, *, warnings: Sequence[str] = ()) -> wire.ChangeReply:
    """Carry out one step on a stored node, or skip it when it changes nothing."""
    assert step.before is not None, deed
    warnings = [*editor.change.caller.warnings, *warnings]
    if step.after == step.before.authored and deed.restamps is None:
        return wire.ChangeReply("skipped", step.before.id, step.before.revision, warnings)
    await editor.check([step])
    node = await editor.carry_out(step, deed)
    await editor.finish()
    return wire.ChangeReply("updated", node.id, node.revision, warnings)


async def _claimed(made: Change, request: Request) -> Done:
    """Claim the node for a status, under the lock the change holds on its lease; raise the refusal."""
    outcome = await decide_within(made.tx, Ask(request, Fences()), marks=False)
    if isinstance(outcome, BatonError):
        raise outcome
    return outcome


def _with_lease(reply: wire.ChangeReply, done: Done | None) -> wire.ChangeReply:
    if done is not None:
        seen = view(done.granted.lease, done.now)
        assert seen is not None, done
        reply.lease = lease_body(seen)
        reply.expires_in_ms = max(1, (seen.expires_at - done.now) // MICROS_PER_MS)
    return reply


async def _forgive(made: Change, resource: Resource) -> dict[str, int]:
    """Begin to count anew what makes an item a person's, and return what was counted, for the event (D9, D22)."""
    forgiven = {
        "lapses_forgiven": _forgive_lapses(made, resource),
        "runs_forgiven": await runs.forgive(made.tx, NodeId(resource)),
    }
    return {name: count for name, count in forgiven.items() if count}


def _forgive_lapses(made: Change, resource: Resource) -> int:
    """Set the node's count of lapses to 0 and return what it was (D9)."""
    lease = made.tx.locked.get(resource)
    if lease is None or lease.lapses == 0:
        return 0
    leases.write(made.tx, [(lease, replace(lease, lapses=0, version=lease.version + 1))])
    return lease.lapses


async def _unheard(made: Change, step: Step) -> list[str]:
    """Return a warning when an agent made the item ready and its project's policy does not let it (D41)."""
    if step.after.readiness is None or made.caller.principal.is_person:
        return []
    (rows,) = await made.tx.fetch(leases.policies_asked())
    if leases.policies(rows).for_project(step.after.project).agents_may_ready:
        return []
    return ["readiness: an agent wrote it, and it counts once a person does; the policy agents_may_ready is off"]


def _onto(principal: Principal, written: Iterable[NodeId], targets: Iterable[NodeId]) -> frozenset[Resource]:
    """Return the nodes a write is onto: under a run token also those its edges lead to, since they change too (D2b)."""
    reached = targets if principal.run is not None else ()
    return frozenset(Resource(node) for node in (*written, *reached))


def _place(seen: SeenEdge) -> tuple[str, str, str]:
    return (seen.direction, seen.edge.type, seen.other)
