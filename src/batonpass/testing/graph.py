"""A graph in memory, for tests of what a worker does with answers: it can be read, and told to fail.

It keeps one lease a node with an epoch, run tokens, and nodes as they were
put; enough to see what a worker changed, in which order, and nothing of a
server's law beyond that. Whether a server agrees is tested with a server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from batonpass.core.digest import Card, Material, select
from batonpass.core.digest_text import Mode, render
from batonpass.core.errors import BatonError, LeaseLost, NotFound, Unavailable
from batonpass.core.ids import AgentId, Fence, HolderId, NodeId, PersonId, Resource, RunId
from batonpass.core.outcome import Resolver
from batonpass.core.reports import Draft
from batonpass.worker.graph import Caller, Item, Page, Put, RunToken, Seen, Taken, Tenure

AGENT: Final = AgentId(HolderId("agent-mill"))
OWNER: Final = PersonId(HolderId("person-pat"))


class MemoryHeart:
    """A heartbeat that loses its lease when a test says so."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.stopped = False

    def lost(self) -> str | None:
        """Return what the test has put into `why`."""
        return self.why

    def stop(self) -> None:
        """Note that it was stopped."""
        self.stopped = True


@dataclass
class MemoryGraph:
    """Nodes, leases and tokens in dictionaries.

    `calls` is what was asked, in order: the method and what it was about.
    `failing[method]` is called before the method is carried out and may raise;
    `failing_after[method]` after it was, as if only the answer were lost.
    """

    server: str = "http://memory.baton"
    me: Caller = field(default_factory=lambda: Caller(AGENT, OWNER, "incarnation-1"))
    items: dict[NodeId, Item] = field(default_factory=dict)
    nodes: dict[NodeId, Draft] = field(default_factory=dict)
    resolvers: dict[NodeId, Resolver] = field(default_factory=dict)
    epochs: dict[NodeId, int] = field(default_factory=lambda: defaultdict(int))
    held: set[NodeId] = field(default_factory=set)
    nonces: dict[NodeId, str] = field(default_factory=dict)
    ready: set[NodeId] = field(default_factory=set)
    tokens: dict[str, Fence] = field(default_factory=dict)
    refused: dict[NodeId, str] = field(default_factory=dict)
    hearts: list[MemoryHeart] = field(default_factory=list)
    runs: dict[RunId, dict[str, Any]] = field(default_factory=dict)
    logs: dict[RunId, bytes] = field(default_factory=dict)
    calls: list[tuple[str, object]] = field(default_factory=list)
    failing: dict[str, Callable[[], None]] = field(default_factory=dict)
    failing_after: dict[str, Callable[[], None]] = field(default_factory=dict)
    waits: Callable[[str], str] | None = None
    """What answers a wait for the queue after a position; without it waiting is not to be had."""

    def add_item(self, node: str, *, type: str = "task", readiness: str | None = "agent") -> NodeId:  # noqa: A002 — the field's name
        """Put an item into the queue, and return its id."""
        id_ = NodeId(node)
        self.items[id_] = Item(id_, f"Title of {node}", type, "mail", readiness, "do")
        self.ready.add(id_)
        return id_

    def done(self, method: str) -> list[object]:
        """Return what every call of `method` was about."""
        return [about for name, about in self.calls if name == method]

    def caller(self) -> Caller:
        """Return `me`."""
        self._called("caller", None)
        return self.me

    def page(self, *, project: str | None, limit: int) -> Page:
        """Return the items nobody holds, in the order they were added."""
        self._called("page", limit)
        free = [item for item in self.items.values() if item.id not in self.held and project in {None, item.project}]
        return Page(tuple(free[:limit]), more=len(free) > limit, seq=str(len(self.calls)))

    def wait(self, *, project: str | None, after: str, wait_s: int) -> str:  # noqa: ARG002
        """Return what `waits` says."""
        self._called("wait", after)
        if self.waits is None:
            raise Unavailable("nobody waits here")
        return self.waits(after)

    def next(self, *, project: str | None, accept: str, candidates: Sequence[NodeId], dispatch: str) -> Taken | None:  # noqa: ARG002
        """Claim the first candidate that nobody holds."""
        self._called("next", dispatch)
        for node in candidates:
            if node in self.items and node not in self.held:
                self.epochs[node] += 1
                self.held.add(node)
                self.nonces[node] = dispatch
                self._after("next")
                return Taken(self.items[node], self.fence(node), 60_000, 0.0)
        return None

    def node(self, node: NodeId) -> Seen:
        """Return an item or a node that was put."""
        self._called("node", node)
        if node in self.nodes:
            draft = self.nodes[node]
            return Seen(node, draft.type, draft.title, draft.project, draft.body, None)
        if node not in self.items:
            raise NotFound(f"{node} is not there")
        item = self.items[node]
        return Seen(
            node, item.type, item.title, item.project, f"Text of {node}.", self.resolvers.get(node), self._tenure(node)
        )

    def digest(self, node: NodeId, *, project: str | None, mode: Mode) -> str:
        """Return the nodes that were put and relate to `node`, in the server's words."""
        self._called("digest", (node, project, mode))
        related = [draft for draft in self.nodes.values() if ("relates-to", node) in draft.edges]
        cards = {each.id: Card(each.id, each.type, each.title, each.summary, each.body) for each in related}
        return render(select(Material(cards, reports=list(cards))), mode)

    def digest_of(self, words: str, *, mode: Mode) -> str:
        """Return the nodes that were put and whose titles stand in `words`, in the server's words."""
        self._called("digest_of", (words, mode))
        found = [draft for draft in self.nodes.values() if draft.title in words]
        cards = {each.id: Card(each.id, each.type, each.title, each.summary, each.body) for each in found}
        return render(select(Material(cards, reports=list(cards))), mode)

    def put(self, draft: Draft) -> Put:
        """Keep a node, unless its id is taken or `refused`."""
        self._called("put", draft.id)
        if draft.id in self.refused:
            return Put("error", self.refused[draft.id])
        if draft.id in self.nodes:
            return Put("skipped")
        self.nodes[draft.id] = draft
        self._after("put")
        return Put("created")

    def clear_readiness(self, fence: Fence) -> None:
        """Take a stamp away, if the tenure stands."""
        self._called("clear_readiness", fence)
        self._require(fence)
        self.ready.discard(NodeId(fence.resource))
        self._after("clear_readiness")

    def release(self, fence: Fence) -> None:
        """End a tenure; one that has ended already is left alone."""
        self._called("release", fence)
        node = NodeId(fence.resource)
        if self.epochs[node] == fence.epoch:
            self.held.discard(node)
            self._end_tokens(fence)
        self._after("release")

    def mint(self, agent: AgentId, fence: Fence) -> RunToken:
        """Return a token of this tenure."""
        self._called("mint", (agent, fence))
        self._require(fence)
        prefix = f"{len(self.tokens) + 1:08x}"
        self.tokens[prefix] = fence
        self._after("mint")
        return RunToken(f"bat_agt_secret-of-{prefix}", prefix)

    def mint_for_session(self, agent: AgentId) -> RunToken:
        """Return a token of no tenure."""
        self._called("mint_for_session", agent)
        prefix = f"{len(self.tokens) + 1:08x}"
        self.tokens[prefix] = Fence(Resource("no-node"), 0)
        return RunToken(f"bat_agt_secret-of-{prefix}", prefix)

    def revoke(self, agent: AgentId, prefix: str) -> None:
        """End a token."""
        self._called("revoke", (agent, prefix))
        if prefix not in self.tokens:
            raise NotFound("no such token")
        del self.tokens[prefix]
        self._after("revoke")

    def keep(self, taken: Taken) -> MemoryHeart:
        """Return a heart for a test to break."""
        self._called("keep", taken.fence)
        heart = MemoryHeart()
        self.hearts.append(heart)
        return heart

    def put_run(self, run: RunId, record: Mapping[str, Any]) -> int:
        """Keep the record, and return how long the log is by now."""
        self._called("put_run", run)
        self.runs[run] = dict(record)
        self._after("put_run")
        return len(self.logs.get(run, b""))

    def put_log(self, run: RunId, *, offset: int, text: str) -> None:
        """Put text into the log at its place; what never came reads as blanks."""
        self._called("put_log", offset)
        self.logs[run] = self.logs.get(run, b"")[:offset].ljust(offset) + text.encode()
        self._after("put_log")

    def fence(self, node: NodeId) -> Fence:
        """Return the node's present tenure."""
        return Fence(Resource(node), self.epochs[node])

    def take_over(self, node: NodeId) -> None:
        """Let somebody else acquire the node, as after a lapse."""
        self._end_tokens(self.fence(node))
        self.epochs[node] += 1
        self.held.add(node)
        self.nonces.pop(node, None)

    def resolve(self, node: NodeId, *, by: str = "art-done") -> None:
        """Put a live resolving edge onto the node."""
        self.resolvers[node] = Resolver(NodeId(by), "resolves")

    def retype(self, node: NodeId, type_: str) -> None:
        """Make the item one of another type."""
        self.items[node] = replace(self.items[node], type=type_)

    def _tenure(self, node: NodeId) -> Tenure | None:
        return Tenure(self.fence(node), self.nonces.get(node)) if node in self.held else None

    def _require(self, fence: Fence) -> None:
        node = NodeId(fence.resource)
        if node not in self.held or self.epochs[node] != fence.epoch:
            raise LeaseLost(f"the tenure {fence.epoch} of {node} is over")

    def _end_tokens(self, fence: Fence) -> None:
        self.tokens = {prefix: tenure for prefix, tenure in self.tokens.items() if tenure != fence}

    def _called(self, method: str, about: object) -> None:
        self.calls.append((method, about))
        if (fail := self.failing.get(method)) is not None:
            fail()

    def _after(self, method: str) -> None:
        if (fail := self.failing_after.get(method)) is not None:
            fail()


def failing_with(error: BatonError, *, times: int | None = None) -> Callable[[], None]:
    """Return what raises `error` each time it is called, or only the first `times`."""
    left = [times]

    def fail() -> None:
        if left[0] is None:
            raise error
        if left[0] > 0:
            left[0] -= 1
            raise error

    return fail
