"""Which items of a page this worker may take, and why not the others (pure).

Some rules stand above every setting: a question is a person's to answer, an
item that is marked human is never taken, nor one that is routed to another
agent, nor one that a run has declined until its finding is closed. Below them
the acceptance policy asks for consent: `ready` takes what a person has made ready for agents, `open`
takes everything that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from batonpass.core import reports
from batonpass.core.errors import Invalid
from batonpass.core.ids import AgentId, NodeId
from batonpass.core.queue import Accept
from batonpass.worker.cooling import Cold
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.graph import Item

CANDIDATES_MAX: Final = 50
"""How many ids `queue/next` takes (D15)."""


class Kind(StrEnum):
    """Why an item is left alone, in broad classes; readers must expect others (companion 9.2)."""

    POLICY = "policy"
    """Nobody has consented to an agent's doing it."""
    HUMAN = "human"
    BLOCKED = "blocked"
    LEASED = "leased"
    DECLINED = "declined"
    ASSIGNED_ELSEWHERE = "assigned-elsewhere"
    REFUSAL = "refusal"
    """A run for it was refused here; it cools off."""
    HARNESS = "harness"
    """Its harness takes no work now (`breaker`)."""
    OUTCOME = "outcome"
    """A run of this worker left it undone; it cools off."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item this worker leaves alone, and why; `until_s` is when it looks again, on its own clock."""

    item: NodeId
    reason: str
    kind: str = Kind.POLICY
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The items to try, best first, and the rest.

    `orders` is what is to be run for each of them, where that was asked.
    `more` says that the queue goes on, `seq` what position in the feed it showed.
    """

    candidates: tuple[NodeId, ...]
    skipped: tuple[Skipped, ...]
    orders: Mapping[NodeId, Order] = field(default_factory=dict)
    more: bool = False
    seq: str = ""

    def after(self, taken: NodeId) -> Choice:
        """Return what is left once `taken` was: what came before it was somebody else's already."""
        left = self.candidates[self.candidates.index(taken) + 1 :] if taken in self.candidates else ()
        return replace(self, candidates=left)


def parse_accept(text: str, *, field: str = "accept") -> Accept:
    """Return the acceptance policy called `text`; an unknown one is `Invalid`, never a default."""
    try:
        return Accept(text)
    except ValueError:
        names = ", ".join(Accept)
        raise Invalid(f"{field}: {text!r} is not a policy; it is one of {names}", field=field) from None


def choose(
    items: Iterable[Item], *, accept: Accept, agent: AgentId, cold: Callable[[NodeId], Cold | None] = lambda _: None
) -> Choice:
    """Return which of `items` this agent is to try, in their order, and why each of the others is left.

    What cools off counts as not to be taken, like everything else: a page full
    of it is not the end of the queue.
    """
    free, skipped = [], []
    for item in items:
        why = judge(item, accept=accept, agent=agent) or _cooling(item.id, cold(item.id))
        if why is None:
            free.append(item.id)
        else:
            skipped.append(why)
    return Choice(candidates=tuple(free[:CANDIDATES_MAX]), skipped=tuple(skipped))


def refusal(item: Item, *, accept: Accept, agent: AgentId) -> str | None:
    """Return why `agent` is not to take the item, or None when it may."""
    why = judge(item, accept=accept, agent=agent)
    return None if why is None else why.reason


def judge(item: Item, *, accept: Accept, agent: AgentId) -> Skipped | None:
    """Return why `agent` is not to take the item, and of which kind that is, or None when it may."""
    if item.type == "question":
        return Skipped(item.id, "a question is for a person to answer", Kind.HUMAN)
    if item.readiness == "human":
        return Skipped(item.id, "it needs a person", Kind.HUMAN)
    if item.suggest == "blocked":
        return Skipped(item.id, "something still blocks it", Kind.BLOCKED)
    if item.lease_state == "in_progress":
        return Skipped(item.id, "it is being worked on already", Kind.LEASED)
    if item.assigned and agent not in item.assigned:
        return Skipped(item.id, f"it is routed to {', '.join(item.assigned)}", Kind.ASSIGNED_ELSEWHERE)
    if declines := [finding for finding in item.findings if finding.startswith(reports.DECLINE_PREFIX)]:
        reason = f"it was declined and nobody has answered that: {', '.join(declines)}"
        return Skipped(item.id, reason, Kind.DECLINED)
    if accept is Accept.READY and item.readiness != "agent":
        return Skipped(item.id, "nobody has made it ready for an agent", Kind.POLICY)
    return None


def _cooling(item: NodeId, cold: Cold | None) -> Skipped | None:
    if cold is None:
        return None
    return Skipped(item, cold.reason, cold.kind, cold.until_s if math.isfinite(cold.until_s) else None)
