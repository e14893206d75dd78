"""What the worker asks of the graph: the few questions and changes a run needs, with their answers as values.

`Graph` is the whole of it. Production gives the worker a `ServerGraph`, which
asks a server over the client; tests give it one that they can read and break.
Every method raises the classes of `core.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from batonpass.core.digest_text import Mode
from batonpass.core.ids import AgentId, Fence, NodeId, PersonId, RunId
from batonpass.core.outcome import Resolver
from batonpass.core.reports import Draft


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token it is, and at which database: None where the token, or the server, doesn't say."""

    agent: AgentId | None
    person: PersonId | None
    incarnation: str | None
    run: Fence | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a queue page, as far as taking it is decided by it.

    `readiness` None is untriaged. `assigned` are the agents it is routed to,
    `findings` the open findings on it, `profile` the one that it names itself.
    """

    id: NodeId
    title: str
    type: str
    project: str | None
    readiness: str | None
    suggest: str
    lease_state: str | None = None
    assigned: tuple[AgentId, ...] = ()
    findings: tuple[NodeId, ...] = ()
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A ranked page; `more` says that there are items below it, `seq` is the position in the feed that it shows."""

    items: tuple[Item, ...]
    more: bool
    seq: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that is ours now.

    The horizon counts from when the call ran; `sent_at_s` is when it was first
    sent, on the heartbeat's clock, and so the safe moment to count from.
    `borrowed` says that the tenure stood before, and is its holder's to end.
    """

    item: Item
    fence: Fence
    expires_in_ms: int
    sent_at_s: float
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class Tenure:
    """A lease that stands on a node: which one, and the nonce of the launch that has it, if one has."""

    fence: Fence
    dispatch: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as it reads now: its stored text, the live edge that retires it, and the lease on it, if any."""

    id: NodeId
    type: str
    title: str
    project: str | None
    raw: str
    resolver: Resolver | None
    tenure: Tenure | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one node that was put: ``created``, ``updated``, ``skipped`` or ``error`` with its message."""

    status: str
    message: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class RunToken:
    """A run's own token. The secret is shown to the run's child and to nobody else."""

    secret: str
    prefix: str

    def __repr__(self) -> str:
        return f"RunToken(prefix={self.prefix!r})"


class Heart(Protocol):
    """Keeps one tenure alive until it is stopped, or lost."""

    def lost(self) -> str | None:
        """Return why the tenure may not be acted on any more, or None while it may."""
        ...

    def stop(self) -> None:
        """Renew no more; safe twice."""
        ...


class Graph(Protocol):
    """The graph, asked under one token."""

    @property
    def server(self) -> str:
        """The server's address, as run records name it."""
        ...

    def caller(self) -> Caller:
        """Return whose token this is."""
        ...

    def page(self, *, project: str | None, limit: int) -> Page:
        """Return the best `limit` items of the queue."""
        ...

    def wait(self, *, project: str | None, after: str, wait_s: int) -> str:
        """Return the queue's position once something in it has changed `after` one, or after `wait_s`; tried once."""
        ...

    def next(self, *, project: str | None, accept: str, candidates: Sequence[NodeId], dispatch: str) -> Taken | None:
        """Claim the first of `candidates` that is still free, or return None; repeatable under the same nonce."""
        ...

    def node(self, node: NodeId) -> Seen:
        """Return the node as it reads now."""
        ...

    def digest(self, node: NodeId, *, project: str | None, mode: Mode) -> str:
        """Return in words what is known around `node`; "" when that is nothing."""
        ...

    def digest_of(self, words: str, *, mode: Mode) -> str:
        """Return in words what is known of what `words` are about; "" when that is nothing."""
        ...

    def put(self, draft: Draft) -> Put:
        """File a node unless one of its id exists; the answer is for this node alone, whatever the batch's is."""
        ...

    def clear_readiness(self, fence: Fence) -> None:
        """Take the node's readiness stamp away, if the tenure stands."""
        ...

    def release(self, fence: Fence) -> None:
        """Hand the lease back, if the tenure stands; `LeaseLost`, and no change, when it has ended."""
        ...

    def mint(self, agent: AgentId, fence: Fence) -> RunToken:
        """Return the one token that is good for this tenure only; `Conflict` when it has one."""
        ...

    def mint_for_session(self, agent: AgentId) -> RunToken:
        """Return a token for one session of an agent that works under no tenure."""
        ...

    def revoke(self, agent: AgentId, prefix: str) -> None:
        """End a token; writes under it that are in flight are waited for. `NotFound` when there is none."""
        ...

    def keep(self, taken: Taken) -> Heart:
        """Start renewing a tenure."""
        ...

    def put_run(self, run: RunId, record: Mapping[str, Any]) -> int:
        """Send the record of a run, tried once; return where the log that the server has of it ends, in bytes."""
        ...

    def put_log(self, run: RunId, *, offset: int, text: str) -> None:
        """Send text of a run's log from the byte `offset` on, tried once."""
        ...
