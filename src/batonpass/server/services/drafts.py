"""What the checked steps of a change write, kept back until it is read, and then sent as one set for each kind of row.

A batch of a hundred nodes so takes as many statements as one node. The sets go
in the order in which rows are locked (`store.base`); each has a node once, so
whoever writes a node a second time sends first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from batonpass.core.edges import Edge
from batonpass.core.ids import Instant, NodeId
from batonpass.core.nodes import Node, Value
from batonpass.core.search import is_found_alike
from batonpass.store import commits, edges, history, inbox, nodes, search
from batonpass.store.base import Tx
from batonpass.store.history import Addition


@dataclass(frozen=True, slots=True)
class Draft:
    """One node as it is in the database, None if it is new, and as it is to be there.

    `added` and `removed` are its edges that change, `by_person` and `at` whose
    hand and which moment they are from; `remembered` is its history's entry.
    """

    before: Node | None
    after: Node
    added: tuple[Edge, ...]
    removed: tuple[Edge, ...]
    by_person: bool
    at: Instant
    remembered: Addition | None

    @property
    def commits(self) -> tuple[NodeId, Value, Value]:
        """The node, the commits it had and those it has."""
        had = self.before.authored.extra.get("commits", ()) if self.before is not None else ()
        return self.after.id, had, self.after.authored.extra.get("commits", ())

    @property
    def is_found_anew(self) -> bool:
        """Whether a stored node is found by other words than before."""
        return self.before is not None and not is_found_alike(self.before.authored, self.after.authored)


@dataclass(slots=True)
class Drafts:
    """The drafts of a change that have not been sent, by node and in order."""

    _by_node: dict[NodeId, Draft] = field(default_factory=dict)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._by_node

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(self, draft: Draft) -> None:
        """Keep a draft of a node that has none here."""
        assert draft.after.id not in self._by_node, draft.after.id
        self._by_node[draft.after.id] = draft

    def send(self, tx: Tx) -> None:
        """Hand all of it over to the database and forget it."""
        drafts = list(self._by_node.values())
        self._by_node.clear()
        created = [draft.after for draft in drafts if draft.before is None]
        nodes.insert(tx, created)
        nodes.update(tx, [draft.after for draft in drafts if draft.before is not None])
        commits.keep(tx, [draft.commits for draft in drafts])
        edges.remove(tx, [(draft.after.id, edge) for draft in drafts for edge in draft.removed])
        edges.put(
            tx,
            [
                edges.Written(draft.after.id, edge, by_person=draft.by_person, at=draft.at)
                for draft in drafts
                for edge in draft.added
            ],
        )
        for draft in drafts:
            inbox.follow(tx, draft.before, draft.after)
        search.index(
            tx,
            [node.authored for node in created],
            [draft.after.authored for draft in drafts if draft.is_found_anew],
        )
        history.add_all(tx, [draft.remembered for draft in drafts if draft.remembered is not None])
