"""Which items of a page this worker may take, and why not the others (pure).

Some rules stand above every setting: a question is a person's to answer, an
item that is marked human is never taken, nor one that is routed to another
agent, nor one that a run has declined until its finding is closed. Below them
the acceptance policy asks for consent: `ready` takes what a person has made ready for agents, `open`
takes everything that is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from batonpass.core import reports
from batonpass.core.errors import Invalid
from batonpass.core.ids import AgentId, NodeId
from batonpass.core.queue import Accept
from batonpass.worker.graph import Item

CANDIDATES_MAX: Final = 50
"""How many ids `queue/next` takes (D15)."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item this worker leaves alone, and why."""

    item: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The items to try, best first, and the rest."""

    candidates: tuple[NodeId, ...]
    skipped: tuple[Skipped, ...]


def parse_accept(text: str) -> Accept:
    """Return the acceptance policy called `text`; an unknown one is `Invalid`, never a default."""
    try:
        return Accept(text)
    except ValueError:
        names = ", ".join(Accept)
        raise Invalid(f"accept: {text!r} is not a policy; it is one of {names}", field="accept") from None


def choose(items: Iterable[Item], *, accept: Accept, agent: AgentId) -> Choice:
    """Return which of `items` this agent is to try, in their order, and why each of the others is left."""
    judged = [(item.id, refusal(item, accept=accept, agent=agent)) for item in items]
    free = [node for node, reason in judged if reason is None]
    return Choice(
        candidates=tuple(free[:CANDIDATES_MAX]),
        skipped=tuple(Skipped(node, reason) for node, reason in judged if reason is not None),
    )


def refusal(item: Item, *, accept: Accept, agent: AgentId) -> str | None:
    """Return why `agent` is not to take the item, or None when it may."""
    if item.type == "question":
        return "a question is for a person to answer"
    if item.readiness == "human":
        return "it needs a person"
    if item.suggest == "blocked":
        return "something still blocks it"
    if item.lease_state == "in_progress":
        return "it is being worked on already"
    if item.assigned and agent not in item.assigned:
        return f"it is routed to {', '.join(item.assigned)}"
    if declines := [finding for finding in item.findings if finding.startswith(reports.DECLINE_PREFIX)]:
        return f"it was declined and nobody has answered that: {', '.join(declines)}"
    if accept is Accept.READY and item.readiness != "agent":
        return "nobody has made it ready for an agent"
    return None
