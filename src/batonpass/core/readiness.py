"""Readiness: whether an item is meant for an agent, for a person, or not yet decided (companion 3.8, D9, D22, D41).

`human` always wins. Consent is a person's: what an agent wrote makes an item
ready only where the project's policy says so. The edge that shows a claim is
no routing and never counts (D4), so a crashed worker's item reads exactly as
it did before it was claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from batonpass.core.ids import NodeId


class Ready(StrEnum):
    """Whom an item is meant for. On the wire `UNTRIAGED` is the absence of the field."""

    AGENT = "agent"
    HUMAN = "human"
    UNTRIAGED = "untriaged"


@dataclass(frozen=True, slots=True)
class Consent:
    """A ``readiness: agent`` stamp: who wrote it, and whether that was a person."""

    by: str
    by_person: bool


@dataclass(frozen=True, slots=True)
class Routing:
    """A stored `assigned` edge, hand-made, never the view of a claim."""

    to: NodeId
    to_agent: bool
    by_person: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What readiness is derived from, all of it read in one transaction.

    `held` is companion 3.6's front self-limit; `lapses` counts what D9 counts,
    `runs` what D22 does; `open_questions` are the live questions one hop away.
    """

    node_type: str
    requires: Sequence[str] = ()
    consent: Consent | None = None
    routings: Sequence[Routing] = ()
    open_questions: Sequence[NodeId] = ()
    held: bool = False
    lapses: int = 0
    lapse_limit: int = 5
    runs: int = 0
    run_limit: int = 10
    agents_may_ready: bool = False


@dataclass(frozen=True, slots=True)
class Readiness:
    """The verdict and its reasons; `ignored` says what looks like consent and is none."""

    value: Ready
    reasons: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def derive(facts: Facts) -> Readiness:
    """Return whom the item is meant for, and every reason that made it so."""
    ignored = tuple(_ignored(facts))
    if human := tuple(_human_reasons(facts)):
        return Readiness(Ready.HUMAN, human, ignored)
    if agent := tuple(_agent_reasons(facts)):
        return Readiness(Ready.AGENT, agent, ignored)
    return Readiness(Ready.UNTRIAGED, (), ignored)


def _human_reasons(facts: Facts) -> Iterator[str]:
    if "human" in facts.requires:
        yield "requires human"
    yield from (f"assigned to {routing.to}" for routing in facts.routings if not routing.to_agent)
    if facts.held:
        yield "held: an outcome that resolves nothing stands on it"
    if facts.node_type == "question":
        yield "open question awaiting an answer"
    if facts.node_type == "capture-pending":
        yield "capture awaiting triage"
    yield from (f"open question {question} in neighborhood" for question in facts.open_questions)
    if facts.lapses >= facts.lapse_limit:
        yield f"lapsed {facts.lapses} times"
    if facts.runs >= facts.run_limit:
        yield f"run {facts.runs} times"


def _agent_reasons(facts: Facts) -> Iterator[str]:
    if (consent := facts.consent) is not None and (consent.by_person or facts.agents_may_ready):
        yield f"marked ready by {consent.by}"
    for routing in facts.routings:
        if routing.to_agent and (routing.by_person or facts.agents_may_ready):
            yield f"assigned to agent {routing.to}"


def _ignored(facts: Facts) -> Iterator[str]:
    if facts.agents_may_ready:
        return
    if facts.consent is not None and not facts.consent.by_person:
        yield f"marked ready by {facts.consent.by}, who is not a person"
    for routing in facts.routings:
        if routing.to_agent and not routing.by_person:
            yield f"assigned to agent {routing.to}, but not by a person"
