"""Writing nodes within one change: check every step by core's law, then carry them all out (companion 1.6, 1.7, D41).

`Editor.check` asks everything that can refuse a step and changes nothing;
`Editor.carry_out` writes rows, edges, history and events and refuses nothing.
So a refused entry of a batch leaves no trace, and what is written is whole.
What is carried out is kept back (`drafts`), and sent in sets by `Editor.finish`,
or before a check that reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from batonpass.core import edges as edge_law
from batonpass.core import nodes as node_law
from batonpass.core import points
from batonpass.core.edges import Edge, find_cycle
from batonpass.core.errors import Conflict, Forbidden, InvalidEdge, TransitionDenied
from batonpass.core.history import DELETE
from batonpass.core.identity import Principal
from batonpass.core.ids import AgentId, NodeId
from batonpass.core.kept import Kept
from batonpass.core.node_types import check_move, require_type, type_of
from batonpass.core.nodes import Attribution, Authored, Node, Stamp
from batonpass.core.resolution import Target, completes
from batonpass.server.services.change import Change
from batonpass.server.services.drafts import Draft, Drafts
from batonpass.server.services.principals import require_admin, require_current
from batonpass.server.services.ranking import Stirred
from batonpass.server.services.surroundings import Surroundings
from batonpass.store import events, history, nodes, search, tokens, tombstones
from batonpass.store.base import Retry
from batonpass.store.history import Addition, Written
from batonpass.store.tombstones import Tombstone
from batonpass.wire import markdown
from batonpass.wire.nodes import Cycles


@dataclass(frozen=True, slots=True)
class Step:
    """One node to write: as it is, None when it is new, and as it is to be."""

    before: Node | None
    after: Authored

    @property
    def added(self) -> tuple[Edge, ...]:
        """The edges that are new or have new attributes."""
        known = {edge.key: edge for edge in self.before.authored.edges} if self.before is not None else {}
        return tuple(edge for edge in self.after.edges if known.get(edge.key) != edge)

    @property
    def removed(self) -> tuple[Edge, ...]:
        """The edges that are there and not wanted any more."""
        wanted = {edge.key for edge in self.after.edges}
        before = self.before.authored.edges if self.before is not None else ()
        return tuple(edge for edge in before if edge.key not in wanted)


@dataclass(frozen=True, slots=True)
class Deed:
    """What a step is recorded as: the verb of the history row, the kind and data of the event.

    `authors` says that the caller becomes the node's author. `restamps` names
    the value that is stamped anew even if it did not change. `kept` is a past
    that an admin's import brings along.
    """

    verb: str
    kind: str
    data: Mapping[str, object] = field(default_factory=dict)
    authors: bool = False
    restamps: str | None = None
    kept: Kept | None = None


@dataclass(slots=True)
class Editor:
    """The nodes that one change has locked, and what it does to them.

    `gone` are those of its ids that were deleted, and of those its edges may lead to.
    """

    change: Change
    nodes: dict[NodeId, Node]
    gone: Mapping[NodeId, Tombstone] = field(default_factory=dict)
    new: frozenset[NodeId] = frozenset()
    token_locked: bool = False
    cycles: Cycles = "refuse"
    restoring: bool = False
    happened: list[events.Event] = field(default_factory=list)
    stirred: Stirred = field(default_factory=Stirred)
    foreseen: frozenset[NodeId] = frozenset()
    """What new `blocks` edges may lead to."""
    around: Surroundings = field(default_factory=Surroundings)
    drafts: Drafts = field(default_factory=Drafts)

    @classmethod
    async def over(
        cls,
        change: Change,
        ids: Collection[NodeId],
        *,
        new: frozenset[NodeId] = frozenset(),
        edges: Sequence[tuple[NodeId, Edge]] = (),
        restoring: bool = False,
        cycles: Cycles = "refuse",
    ) -> Editor:
        """Lock the nodes `ids` in order, and return the editor of those that are there; only `new` may be created.

        `edges` are those that may be added or removed, by the node they lead
        from. Where the change may turn out to be an admin's alone, the caller's
        token is locked first: tokens come before nodes (D44). With `restoring`
        all of it is: `Forbidden` unless the caller is one, as read under that
        lock. `cycles` says whether `check` refuses those of `blocks` edges.
        """
        by = change.caller.principal
        if restoring:
            require_admin(await require_current(change.tx, change.now))
        locks_token = restoring or (by.is_admin and by.is_person and _may_need_an_admin(ids, edges))
        if locks_token and not restoring:
            await tokens.lock(change.tx, [by.token])
        # After the locks, in a statement of its own: who waited for a deletion has to see it.
        about = tombstones.asked([*ids, *(edge.to for _, edge in edges)])
        found, (stones,) = await nodes.lock(change.tx, ids, new=new, after=[about])
        gone = tombstones.of_rows(stones)
        foreseen = frozenset(
            edge.to
            for src, edge in edges
            if edge.type == "blocks" and (src not in found or edge not in found[src].authored.edges)
        )
        return cls(change, found, gone, new, locks_token, cycles, restoring, foreseen=foreseen)

    def require(self, node: NodeId) -> Node:
        """Return a locked node, or raise `NotFound`."""
        if node not in self.nodes:
            raise tombstones.absent(node, self.gone.get(node))
        return self.nodes[node]

    def require_unused(self, node: NodeId) -> None:
        """Raise `Conflict` for an id whose node was deleted: it stands for that one for ever (D41)."""
        if (tombstone := self.gone.get(node)) is not None:
            raise Conflict(f"{tombstone.words}; an id is never used again, so choose another", field="id")

    async def check(self, steps: Sequence[Step]) -> list[str]:
        """Raise the first refusal of `steps` taken together; nothing has changed when it does. Return warnings."""
        for step in steps:
            if step.before is None:
                self.require_unused(step.after.id)
            node_law.require_valid(step.after)
            await self._check_permission(step)
            await self._check_move(step)
        return [*self._leading_nowhere(steps), *await self._check_cycles(steps)]

    def _leading_nowhere(self, steps: Iterable[Step]) -> list[str]:
        """Return a warning for each new edge onto a node that was deleted: nobody will ever write that one."""
        ends = dict.fromkeys(edge.to for step in steps for edge in step.added if edge.to in self.gone)
        return [f"edges: an edge leads to what is no more: {self.gone[node].words}" for node in ends]

    async def carry_out(self, step: Step, deed: Deed) -> Node:
        """Write one checked step and return the node as it is then."""
        text = markdown.write(step.after)
        node = self._written(step, deed, revision=markdown.revision_of(text))
        assert step.before is not None or node.id in self.new, node.id
        if node.id in self.drafts:
            await self._send()
        by_person = self.change.caller.principal.is_person and (deed.kept is None or deed.kept.by_person)
        at = node.created_at if step.before is None else self.change.now
        alike = step.before is not None and step.before.revision == node.revision
        remembered = None if alike else self._remembered(node, Written(deed.verb, text))
        self.drafts.add(Draft(step.before, node, step.added, step.removed, by_person, at, remembered))
        self.around.follow(node.id, step.added, step.removed)
        self._note(node, deed)
        self.stirred.write(
            step.before.authored if step.before is not None else None, step.after, (*step.added, *step.removed)
        )
        self.nodes[node.id] = node
        return node

    async def bury(self, node: Node, *, reason: str) -> None:
        """Delete a locked node whose tenure has ended: its history gets the act, and a tombstone takes its place."""
        by = self.change.caller.principal
        await self._send()
        history.add_all(self.change.tx, [self._remembered(node, Written(DELETE, reason=reason))])
        project = node.authored.project
        stone = Tombstone(node.id, node.authored.type, project, node.revision, self.change.now, by.id, reason)
        tombstones.put_in_place_of_node(self.change.tx, stone)
        search.forget(self.change.tx, node.id)
        await points.areach("edge.written")
        self._note(node, Deed(DELETE, "node.deleted", {"reason": reason}))
        self.stirred.write(node.authored, None, node.authored.edges)
        del self.nodes[node.id]

    async def finish(self) -> None:
        """Send what is left of the drafts, settle what the steps mean for the queue, and hand over their events."""
        await self._send()
        self.change.stirred = await self.stirred.settle(self.change.tx, self.change.now)
        events.append(self.change.tx, self.happened, at=self.change.now)
        await points.areach("event.written")

    async def _send(self) -> None:
        if self.drafts:
            self.drafts.send(self.change.tx)
            await points.areach("edge.written")

    def _written(self, step: Step, deed: Deed, *, revision: str) -> Node:
        before, now = step.before, self.change.now
        attribution = before.attribution if before is not None and not deed.authors else self._attribution()
        node = Node(
            step.after,
            revision,
            attribution,
            created_at=before.created_at if before is not None else now,
            updated_at=now,
            priority_stamp=before.priority_stamp if before is not None else None,
            readiness_stamp=before.readiness_stamp if before is not None else None,
            ready_by_person=before is not None and before.ready_by_person,
        )
        old = before.authored if before is not None else None
        if deed.restamps == "priority" or step.after.priority != (old.priority if old is not None else None):
            node = replace(node, priority_stamp=self._stamp() if step.after.priority else None)
        if deed.restamps == "readiness" or step.after.readiness != (old.readiness if old is not None else None):
            ready = step.after.readiness is not None
            by_person = ready and self.change.caller.principal.is_person
            node = replace(node, readiness_stamp=self._stamp() if ready else None, ready_by_person=by_person)
        return node if deed.kept is None else deed.kept.onto(node)

    def _attribution(self) -> Attribution:
        by = self.change.caller.principal
        agent = AgentId(by.id) if by.is_agent else None
        return Attribution(by.person, "dispatch" if by.is_agent else self.change.caller.door, agent, by.session)

    def _stamp(self) -> Stamp:
        caller = self.change.caller
        return Stamp(
            shown_as(caller.principal), self.change.now, "dispatch" if caller.principal.is_agent else caller.door
        )

    def _remembered(self, node: Node, written: Written) -> Addition:
        caller = self.change.caller
        return Addition(node.id, node.revision, written, by=caller.principal, via=caller.door, at=self.change.now)

    def _note(self, node: Node, deed: Deed) -> None:
        self.happened.append(
            events.Event(
                deed.kind,
                node=node.id,
                project=node.authored.project,
                actor=self.change.caller.principal,
                revision=node.revision,
                data=deed.data,
            )
        )

    async def _check_permission(self, step: Step) -> None:
        """Raise `Forbidden` for what only an admin may write; who is one is read again, since a memory may be old."""
        if (why := _for_admins_only(step)) is None:
            return
        by = self.change.caller.principal
        if by.is_admin and by.is_person:
            if not self.token_locked:
                raise Retry(f"{step.after.id} changed while it was looked at; nothing was changed")
            by = await require_current(self.change.tx, self.change.now)
        if not (by.is_admin and by.is_person):
            raise Forbidden(why)

    async def _check_move(self, step: Step) -> None:
        """Raise `TransitionDenied` when the type's law does not allow the status now (companion 1.6).

        What is restored passed its gates when it happened: a resolver may have been retired since.
        """
        if self.restoring:
            return
        before = step.before.authored if step.before is not None else None
        if (why := node_law.check_hold(before, step.after)) is not None:
            raise TransitionDenied(why, field="status")
        kind, new = require_type(step.after.type), step.after.status
        old = step.before.authored.status if step.before is not None else None
        born = step.before is None
        if check_move(kind, old, new, born=born, has_resolver=False) is None:
            return
        assert kind.gate is not None, kind
        if not self.around.knows_resolvers:
            await self._send()
            await self.around.read_resolvers(self.change.tx, self.nodes.keys() | self.new)
        inbound = self.around.resolvers_of(step.after.id, kind.gate.edge)
        resolved = completes(Target(step.after.type, old), inbound)
        if (why := check_move(kind, old, new, born=born, has_resolver=resolved)) is not None:
            raise TransitionDenied(why, field="status")

    async def _check_cycles(self, steps: Sequence[Step]) -> list[str]:
        """Raise `InvalidEdge` naming the way round that a new `blocks` edge closes; an import is only warned (D41)."""
        new = [(step.after.id, edge.to) for step in steps for edge in step.added if edge.type == "blocks"]
        if not new:
            return []
        if not self.around.knows_downstream(dst for _, dst in new):
            await self._send()
            await self.around.read_downstream(self.change.tx, self.foreseen.union(dst for _, dst in new))
        blocks = self.around.blocks
        for step in steps:
            removed = {edge.to for edge in step.removed if edge.type == "blocks"}
            blocks[step.after.id] = [dst for dst in blocks.get(step.after.id, ()) if dst not in removed]
        closed = []
        for src, dst in new:
            if (cycle := find_cycle(src, dst, blocks)) is not None:
                way = " blocks ".join(cycle)
                if self.cycles == "refuse":
                    why = f"edges: {src} cannot block {dst}, since that closes a cycle: {way}"
                    raise InvalidEdge(why, details=cycle, field="edges")
                closed.append(f"edges: a cycle of blockers, of which none can be begun before another: {way}")
            blocks[src] = [*blocks.get(src, ()), dst]
        return closed


def shown_as(principal: Principal) -> str:
    """Return who somebody is, for people to read: ``Name <email>``, behind the agent's id if one held the pen."""
    person = f"{principal.person_name or principal.name} <{principal.email}>"
    return f"{principal.id} for {person}" if principal.is_agent else person


def _may_need_an_admin(ids: Iterable[NodeId], edges: Iterable[tuple[NodeId, Edge]]) -> bool:
    """Whether a step on one of `ids`, or one that adds or removes one of `edges`, may be for admins only."""
    kinds = [type_of(node) for node in ids]
    return any(kind is not None and kind.identity for kind in kinds) or any(
        edge_law.admin_only(src, edge.type, edge.to) is not None for src, edge in edges
    )


def _for_admins_only(step: Step) -> str | None:
    """Return why only an admin may make `step`: it says who somebody is, or makes owners or admins; else None."""
    kind = require_type(step.after.type)
    if kind.identity and (step.before is None or _without_edges(step.before.authored) != _without_edges(step.after)):
        return f"{step.after.id}: only an admin may write a {kind.name} here; POST /v1/agents makes your agents"
    verdicts = (edge_law.admin_only(step.after.id, edge.type, edge.to) for edge in (*step.added, *step.removed))
    return next(filter(None, verdicts), None)


def _without_edges(authored: Authored) -> Authored:
    return replace(authored, edges=())
