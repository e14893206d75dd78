"""Edges: every type the graph knows, and what each one does (companion 2, D10a).

The table is the law. A name is looked up with `normalise`, which accepts
aliases and inverse labels and refuses everything else, so that no edge is ever
stored under a name that nothing reads.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from batonpass.core.errors import InvalidNode
from batonpass.core.ids import NodeId, json_type, shown

ATTRS_MAX: Final = 10
ATTR_CHARS_MAX: Final = 100
_ATTR_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_ATTR_VALUE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

ORG_ROOT: Final = NodeId("org-root")
"""The organization's node; who stewards it is an admin (D40)."""


class Resolving(StrEnum):
    """What an inbound edge of a type says about the completion of its target."""

    NOTHING = "nothing"
    ANY = "any"
    QUESTIONS = "questions"


@dataclass(frozen=True, slots=True)
class EdgeType:
    """One registered type. `weight` is its pull in a briefing; None keeps the edge out of every walk."""

    name: str
    weight: float | None
    aliases: tuple[str, ...] = ()
    inverse: str | None = None
    resolving: Resolving = Resolving.NOTHING
    blocking: bool = False
    attrs: frozenset[str] = frozenset()
    """Attributes the system itself reads; others are stored and returned as they are."""

    @property
    def traversable(self) -> bool:
        """Whether a briefing walks along edges of this type."""
        return self.weight is not None


EDGE_TYPES: Final[Mapping[str, EdgeType]] = MappingProxyType(
    {
        edge.name: edge
        for edge in (
            EdgeType("supersedes", 1.0, aliases=("supercedes",), inverse="superseded-by"),
            EdgeType("constrained-by", 1.0),
            EdgeType("governed-by", 0.95),
            EdgeType("derived-from", 0.9, aliases=("derives-from",)),
            EdgeType("decided-in", 0.9),
            EdgeType("resolves", 0.9, resolving=Resolving.ANY),
            EdgeType("performs", 0.8),
            EdgeType("answers", 0.7, inverse="answered-by", resolving=Resolving.QUESTIONS),
            EdgeType("blocks", 0.7, inverse="blocked-by", blocking=True),
            EdgeType("triggered-by", 0.7),
            EdgeType("member-of-program", 0.7, inverse="has-program-member"),
            EdgeType("relates-to", 0.5, aliases=("related-to",), attrs=frozenset({"was"})),
            EdgeType("mentions", 0.5),
            EdgeType("assigned", 0.5, attrs=frozenset({"profile"})),
            EdgeType("reviewed-by", 0.5, aliases=("approved-by",)),
            EdgeType("changes-requested-by", 0.5),
            EdgeType("stewards", 0.4),
            EdgeType("review-requested", 0.3),
            EdgeType("routed-to", 0.3),
            EdgeType("owned-by", 0.3, inverse="owns"),
            EdgeType("uses-profile", 0.3),
            EdgeType("grouped-under", 0.3, inverse="groups"),
            EdgeType("member-of-org", 0.3, inverse="has-org-member"),
            EdgeType("focuses-on", 0.2),
            EdgeType("compiled-for", None),
            EdgeType("shaped-by", None),
        )
    }
)

REVIEW_OUTCOMES: Final = frozenset({"reviewed-by", "changes-requested-by", "review-requested"})
"""At most one of these stands between a node and a person: adding one takes the place of another."""


@dataclass(frozen=True, slots=True)
class AdminOnly:
    """Edges of `type` that only an admin may add or remove: out of ids with `src_prefix`, onto `dst` if it is given."""

    type: str
    reason: str
    src_prefix: str = ""
    dst: NodeId | None = None

    def covers(self, src: NodeId, edge_type: str, dst: NodeId) -> bool:
        """Whether the edge from `src` to `dst` is one of these."""
        return edge_type == self.type and src.startswith(self.src_prefix) and self.dst in {None, dst}


ADMIN_ONLY: Final = (
    AdminOnly("stewards", "it makes an admin", dst=ORG_ROOT),
    AdminOnly("owned-by", "it says whose agent this is, and so who may act on its leases", src_prefix="agent-"),
)


@dataclass(frozen=True, slots=True)
class Normalised:
    """A type under its canonical name; `inverted` says the edge belongs on the other node, pointing back."""

    type: EdgeType
    inverted: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """One outbound edge of a node, under its canonical type."""

    type: str
    to: NodeId
    attrs: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, NodeId]:
        """What makes the edge unique on its node: type and target; attributes may be replaced."""
        return (self.type, self.to)


_NAMES: Final[Mapping[str, Normalised]] = MappingProxyType(
    {name: Normalised(edge, inverted=False) for edge in EDGE_TYPES.values() for name in (edge.name, *edge.aliases)}
    | {edge.inverse: Normalised(edge, inverted=True) for edge in EDGE_TYPES.values() if edge.inverse is not None}
)


def normalise(name: object, *, field: str = "type") -> Normalised:
    """Return the registered type that `name`, an alias or inverse label stands for; `InvalidNode` when none does."""
    if isinstance(name, str) and (found := _NAMES.get(name)) is not None:
        return found
    if not isinstance(name, str):
        raise InvalidNode(f"{field}: must be a string, not {json_type(name)}", field=field)
    close = difflib.get_close_matches(name[:ATTR_CHARS_MAX], _NAMES, n=1)
    advice = f"; did you mean {close[0]}?" if close else f"; the types are {', '.join(EDGE_TYPES)}"
    raise InvalidNode(f"{field}: {shown(name)} is not an edge type{advice}", field=field)


def is_claim(edge_type: object, attrs: Mapping[str, object]) -> bool:
    """Whether an edge is the view of a lease, which nobody stores (D4)."""
    return edge_type == "assigned" and attrs.get("via") == "claim"


def admin_only(src: NodeId, edge_type: str, dst: NodeId) -> str | None:
    """Return why only an admin may write this edge, or None when anybody may."""
    for rule in ADMIN_ONLY:
        if rule.covers(src, edge_type, dst):
            return f"{src} {edge_type} {dst}: only an admin may write this edge, since {rule.reason}"
    return None


def check_attrs(attrs: Mapping[str, object], *, field: str = "attrs") -> list[str]:
    """Return every finding about an edge's attributes: their number, and each key and value a short token."""
    findings = []
    if len(attrs) > ATTRS_MAX:
        findings.append(f"{field}: {len(attrs)} attributes; the limit is {ATTRS_MAX} attributes")
    for key, value in attrs.items():
        if not _ATTR_KEY.fullmatch(key) or len(key) > ATTR_CHARS_MAX or key in {"type", "to"}:
            findings.append(
                f"{field}: {shown(key)} cannot name an attribute; names are letters, digits, _ and -,"
                f" begin with a letter and take at most {ATTR_CHARS_MAX} characters"
            )
        elif not isinstance(value, str):
            findings.append(f"{field}.{key}: must be a string, not {json_type(value)}")
        elif len(value) > ATTR_CHARS_MAX:
            findings.append(f"{field}.{key}: {len(value)} characters; the limit is {ATTR_CHARS_MAX} characters")
        elif not _ATTR_VALUE.fullmatch(value):
            findings.append(f"{field}.{key}: {shown(value)} is not a token of letters, digits, _ and -")
    return findings


def in_order(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return `edges` in the canonical order: by type, then target."""
    return tuple(sorted(edges, key=lambda edge: edge.key))


def find_cycle(src: NodeId, dst: NodeId, blocks: Mapping[NodeId, Iterable[NodeId]]) -> tuple[NodeId, ...] | None:
    """Return the cycle that ``src blocks dst`` would close, as the ids along it, or None (D41).

    `blocks` holds the stored edges downstream of `dst`: node to the nodes it
    blocks. The cycle begins and ends with `src`.
    """
    came_from: dict[NodeId, NodeId | None] = {dst: None}
    reached = [dst]
    for node in reached:
        if node == src:
            return (src, *reversed(_way_back(node, came_from)))
        for after in sorted(blocks.get(node, ())):
            if after not in came_from:
                came_from[after] = node
                reached.append(after)
    return None


def _way_back(node: NodeId, came_from: Mapping[NodeId, NodeId | None]) -> list[NodeId]:
    way = [node]
    while (before := came_from[way[-1]]) is not None:
        way.append(before)
    return way
