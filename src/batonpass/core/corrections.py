"""Corrections: what one can be about, and what its id is made of (companion 5.1, 5.3).

A correction is a person's or an agent's word against what a briefing says: of
one node, of a project, or of everything. It stands until its status is `applied`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.filing import NUMBER_CHARS
from batonpass.core.ids import NODE_ID_BYTES_MAX, NodeId, parse_node_id, shown
from batonpass.core.nodes import parse_slug

PREFIX: Final = "corr-"
GLOBAL: Final = "global"
OF_PROJECT: Final = "project:"
ACTIVE: Final = "active"
APPLIED: Final = "applied"


@dataclass(frozen=True, slots=True)
class Target:
    """What a correction is about, as it is written: a node's id, ``project:<slug>`` or ``global``."""

    text: str
    node: NodeId | None = None
    project: str | None = None

    @property
    def stem(self) -> str:
        """What the ids of its corrections begin with."""
        named = self.text.replace(":", "-")
        return f"{PREFIX}{named}"[: NODE_ID_BYTES_MAX - NUMBER_CHARS].rstrip("-")

    @property
    def ids(self) -> Iterator[NodeId]:
        """The ids of its corrections, numbered from 1 without end."""
        stem = self.stem
        return (NodeId(f"{stem}-{n}") for n in count(1))


def parse_target(text: object, *, field: str = "target") -> Target:
    """Return what `text` names as a correction's target; `Invalid` when it is none of the three forms."""
    if text == GLOBAL:
        return Target(GLOBAL)
    if isinstance(text, str) and text.startswith(OF_PROJECT):
        slug = parse_slug(text.removeprefix(OF_PROJECT), name=field)
        return Target(f"{OF_PROJECT}{slug}", project=slug)
    if isinstance(text, str) and ":" in text:
        raise Invalid(f"{field}: {shown(text)} is neither a node's id, project:<slug>, nor global", field=field)
    node = parse_node_id(text, field=field)
    return Target(node, node=node)
