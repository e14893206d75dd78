"""The inbox: what waits for a person's word, as far as the graph says so (companion 3.2).

    questions, findings, pending    routed to the person, and those routed to nobody, which are everybody's
    asked                           questions that the person or one of its agents has asked
    reviews                         what the person was asked to review, by an edge

An entry follows from its own node alone, so it is written with the node. What
else ends one, a resolver or a successor, is judged when the inbox is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from batonpass.core.identity import PERSON_PREFIX
from batonpass.core.ids import Instant
from batonpass.core.node_types import is_dead
from batonpass.core.nodes import Node

NOBODY: Final = ""
"""Whose box an entry is in that was routed to nobody."""


class Box(StrEnum):
    """One list of an inbox."""

    QUESTIONS = "questions"
    ASKED = "asked"
    FINDINGS = "findings"
    PENDING = "pending"
    REVIEWS = "reviews"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A node's place in somebody's box: `person` is an id or `NOBODY`, `at` the node's creation."""

    box: Box
    person: str
    at: Instant


ROUTED: Final[Mapping[str, Box]] = MappingProxyType(
    {"question": Box.QUESTIONS, "finding": Box.FINDINGS, "capture-pending": Box.PENDING}
)
"""The types of node that are routed, each to a box of its own."""
SHARED: Final = frozenset(ROUTED.values())
"""The boxes in which what is routed to nobody is everybody's."""


def entries(node: Node | None) -> frozenset[Entry]:
    """Return every entry that follows from `node`; none when it is retired by its own word, or not there."""
    if node is None or is_dead(node.kind, node.authored.status):
        return frozenset()
    return frozenset(Entry(box, person, node.created_at) for box, person in _places(node))


def _places(node: Node) -> Iterator[tuple[Box, str]]:
    if (box := ROUTED.get(node.authored.type)) is not None:
        # A route to anybody but a person would be an entry that nobody reads.
        routed = _people(node, "routed-to") or (NOBODY,)
        yield from ((box, person) for person in routed)
    if node.authored.type == "question" and node.attribution.author is not None:
        yield Box.ASKED, node.attribution.author
    yield from ((Box.REVIEWS, person) for person in _people(node, "review-requested"))


def _people(node: Node, edge_type: str) -> tuple[str, ...]:
    """Return the people that edges of a type lead to."""
    return tuple(
        edge.to for edge in node.authored.edges if edge.type == edge_type and edge.to.startswith(PERSON_PREFIX)
    )
