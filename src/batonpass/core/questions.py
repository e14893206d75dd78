"""Questions: to whom one is routed, and which project it belongs to (companion 3.8, 6.3).

The routing law, in order; the first rule that finds somebody counts:

    to        whoever it was addressed to
    mention   a person it mentions
    steward   who stewards what it mentions, else that node's repository or project; without mentions, the question's
    owner     who owns what it mentions, or has it assigned to them by hand
    author    who wrote what it mentions

Within a rule the mentions count in the order in which they were given. Nobody
is routed their own question, but an agent's goes to its person like to anybody
else. A question that no rule finds somebody for is unrouted: it stands in
everybody's inbox until somebody answers or routes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from batonpass.core.errors import InvalidNode
from batonpass.core.identity import PERSON_PREFIX
from batonpass.core.ids import HolderId, NodeId, PersonId
from batonpass.core.nodes import Node

OPEN: Final = "open"
ANSWERED: Final = "answered"
OWNING: Final = frozenset({"owned-by", "assigned"})
"""The edges out of a node that say whose it is, when they lead to a person."""


class Via(StrEnum):
    """By which rule a question was routed."""

    TO = "to"
    MENTION = "mention"
    STEWARD = "steward"
    OWNER = "owner"
    AUTHOR = "author"
    UNROUTED = "unrouted"


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A node that a question mentions, as far as routing needs it."""

    id: NodeId
    project: str | None = None
    owners: tuple[PersonId, ...] = ()
    author: PersonId | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a question is routed by.

    `asker` is the person who asks, None when it is an agent. `seats` are the
    nodes that stand for a project: its repository, its project, what those are
    grouped under. `stewards` are the people on mentioned nodes and seats.
    """

    asker: PersonId | None
    to: PersonId | None = None
    mentioned: Sequence[Mentioned] = ()
    project: str | None = None
    seats: Mapping[str, Sequence[NodeId]] = field(default_factory=lambda: MappingProxyType({}))
    stewards: Mapping[NodeId, Sequence[PersonId]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Route:
    """To whom a question goes, and by which rule; to nobody in particular when it is unrouted."""

    to: PersonId | None
    via: Via


def route(facts: Facts) -> Route:
    """Return to whom a question goes by the first rule that finds somebody."""
    if facts.to is not None:
        return Route(facts.to, Via.TO)
    for via, found in _RULES:
        to = next((person for person in found(facts) if person != facts.asker), None)
        if to is not None:
            return Route(to, via)
    return Route(None, Via.UNROUTED)


def project_of(given: str | None, mentioned: Sequence[Mentioned], at_work: str | None) -> str | None:
    """Return a question's project: the given one, else that of all mentions, else of the node its asker works on.

    Mentions agree when all that have a project have the same one.
    """
    if given is not None:
        return given
    projects = {each.project for each in mentioned if each.project is not None}
    if projects:
        return projects.pop() if len(projects) == 1 else None
    return at_work


def mentioned(node: Node) -> Mentioned:
    """Return what routing needs of a node that is mentioned."""
    owners = [_person(edge.to) for edge in node.authored.edges if edge.type in OWNING]
    return Mentioned(
        node.id,
        node.authored.project,
        tuple(owner for owner in owners if owner is not None),
        node.attribution.author,
    )


def require_question(node: Node) -> None:
    """Raise `InvalidNode` unless `node` is a question."""
    if node.authored.type != "question":
        raise InvalidNode(f"{node.id} is a {node.authored.type}, and only a question is answered", field="id")


def _person(node: NodeId) -> PersonId | None:
    return PersonId(HolderId(node)) if node.startswith(PERSON_PREFIX) else None


def _mentions(facts: Facts) -> Iterator[PersonId]:
    for each in facts.mentioned:
        if (person := _person(each.id)) is not None:
            yield person


def _stewards(facts: Facts) -> Iterator[PersonId]:
    """Yield the stewards of each mentioned node and then of its project, nearest first."""
    for each in facts.mentioned:
        yield from facts.stewards.get(each.id, ())
        yield from _seated(facts, each.project)
    if not facts.mentioned:
        yield from _seated(facts, facts.project)


def _seated(facts: Facts, project: str | None) -> Iterator[PersonId]:
    for seat in facts.seats.get(project or "", ()):
        yield from facts.stewards.get(seat, ())


def _owners(facts: Facts) -> Iterator[PersonId]:
    for each in facts.mentioned:
        yield from each.owners


def _authors(facts: Facts) -> Iterator[PersonId]:
    for each in facts.mentioned:
        if each.author is not None:
            yield each.author


_RULES: Final[tuple[tuple[Via, Callable[[Facts], Iterator[PersonId]]], ...]] = (
    (Via.MENTION, _mentions),
    (Via.STEWARD, _stewards),
    (Via.OWNER, _owners),
    (Via.AUTHOR, _authors),
)
