"""Briefings: what is told to whoever begins on a node, and in which order (companion 5, D40).

Selection is pure. The server reads what `core.walk` asks for and what is said
here, and everything that decides is decided on those values: the same graph
gives the same digest, on either database.

The order of the sections is fixed: what earlier runs reported, then
corrections, what is pinned, the lineage the walk found, what is alike without
being joined (the outside view), and in a full one the norms. Within a section
the higher score goes first, then the newer, then the id. A project's briefing
has its brief first, and instead of a lineage what is newest of each kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from batonpass.core.ids import Instant, NodeId
from batonpass.core.node_types import NODE_TYPES, is_dead
from batonpass.core.reports import DECLINE_PREFIX, REPORT_PREFIX
from batonpass.core.walk import Probe, Reached, last_of_chain

FULL_BODY_AT: Final = 0.6
"""The score from which a full briefing shows a node's body."""
MATCHES_MAX: Final = 4
MATCH_COSINE_MIN: Final = 0.04
SEED_PULLS: Final = (0.9, 0.85, 0.8)
"""At what pull the nodes that are most like a query enter the walk."""
MIN_SIM: Final = 0.08
"""How like a query something must be for there to be an answer at all, unless the caller says otherwise."""
SAME_PROJECT: Final = 1.25
LINEAGE_MAX: Final = 60
"""How many nodes of the walk are looked at more closely, the strongest first."""
REPORTS_MAX: Final = 5
CORRECTIONS_MAX: Final = 20
PINS_MAX: Final = 20
GLOBAL: Final = "global"
UNKNOWN: Final = Instant(0)
OF_PROJECT: Final = "project:"
REPORT_PREFIXES: Final = (f"{REPORT_PREFIX}-", f"{DECLINE_PREFIX}-")
"""What the ids of filed reports and declines begin with."""


GIVEN_UP: Final = frozenset("abandoned deprecated dismissed rejected retired superseded".split())
"""Statuses that a reader is warned of; of the other words that retire a node, done and merged among them, none is."""


class Section(StrEnum):
    """The parts of a briefing, in their order."""

    BRIEF = "brief"
    REPORTS = "earlier runs"
    CORRECTIONS = "corrections"
    PINNED = "pinned"
    LINEAGE = "lineage"
    OUTSIDE = "outside view"
    RECENT = "lately"
    NORMS = "norms"


@dataclass(frozen=True, slots=True)
class Card:
    """A node as a briefing shows it, with what other nodes say of it. `date` is YYYY-MM-DD or ""."""

    id: NodeId
    type: str
    title: str
    summary: str
    body: str = ""
    status: str | None = None
    date: str = ""
    created_at: Instant = UNKNOWN
    project: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    agent: str | None = None
    resolved_by: NodeId | None = None
    superseded_by: NodeId | None = None
    pin: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    target: str | None = None
    """Of a correction: a node's id, ``project:<slug>`` or ``global``."""

    @property
    def newness(self) -> tuple[str, Instant]:
        """What the newer of two nodes has more of."""
        return (self.date, self.created_at)

    @property
    def given_up(self) -> bool:
        """Whether the node's own status says that nobody stands behind it any more; what is finished still counts."""
        return self.status in GIVEN_UP

    @property
    def retired(self) -> bool:
        """Whether the node's own status takes it out of use."""
        kind = NODE_TYPES.get(self.type)
        return kind is not None and is_dead(kind, self.status)


@dataclass(frozen=True, slots=True)
class Match:
    """A node whose words are like those that were asked about."""

    node: NodeId
    cosine: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A node in its place. `edge` is the last one of the path that led to it, None where none did."""

    card: Card
    score: float
    edge: str | None = None
    corrected_by: tuple[NodeId, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether a full briefing shows the body as well."""
        return self.score >= FULL_BODY_AT


@dataclass(frozen=True, slots=True)
class Orders:
    """What the root and the corrections say about the selection itself."""

    pinned: tuple[NodeId, ...]
    excluded: frozenset[NodeId]
    unread: int = 0
    """How many more are pinned."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that was read for one briefing.

    `cards` has every node that may be shown; what is not in it is not there
    any more. `successors` leads from a superseded node to the one in its place.
    """

    cards: Mapping[NodeId, Card]
    root: NodeId | None = None
    reports: Sequence[NodeId] = ()
    corrections: Sequence[NodeId] = ()
    orders: Orders = field(default_factory=lambda: Orders((), frozenset()))
    seeds: Mapping[NodeId, float] = field(default_factory=dict)
    reached: Sequence[Reached] = ()
    matches: Sequence[Match] = ()
    successors: Mapping[NodeId, NodeId] = field(default_factory=dict)
    norms: Sequence[NodeId] = ()
    norms_left: int = 0
    crowded: Sequence[Probe] = ()
    more: frozenset[Section] = frozenset()
    """Sections of which there is more than was read."""
    project: str | None = None
    """The slug whose nodes are nearer than others; None is blind to projects."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a briefing tells, before it is put into words and cut to its size."""

    root: Card | None
    sections: Mapping[Section, Sequence[Entry]]
    crowded: Sequence[Probe] = ()
    more: frozenset[Section] = frozenset()
    unread: int = 0
    """How many nodes the walk reached that were too weak to be looked at."""
    norms_left: int = 0
    top_sim: float = 0.0

    @property
    def node_ids(self) -> list[NodeId]:
        """Every node of every section, in order."""
        return [entry.card.id for entries in self.sections.values() for entry in entries]


def orders_of(root: Card | None, corrections: Iterable[Card]) -> Orders:
    """Return what is pinned and what is left out, by the root's own keys and by every correction that is in force.

    What is both is left out: a correction is written because something misled.
    """
    sources = [*([root] if root is not None else ()), *(card for card in corrections if in_force(card))]
    excluded = frozenset(NodeId(node) for card in sources for node in card.exclude)
    pinned = dict.fromkeys(NodeId(node) for card in sources for node in card.pin)
    shut = excluded | ({root.id} if root is not None else set())
    forced = tuple(node for node in pinned if node not in shut)
    return Orders(forced[:PINS_MAX], excluded, max(0, len(forced) - PINS_MAX))


def in_force(correction: Card) -> bool:
    """Whether a correction still counts: none does once it is applied, retired or replaced."""
    return not correction.retired and correction.status != "applied" and correction.superseded_by is None


def correction_targets(root: NodeId | None, projects: Collection[str]) -> list[str]:
    """Return what a correction may be about to concern a briefing on `root`, for these projects."""
    return [*([root] if root is not None else ()), *(OF_PROJECT + slug for slug in sorted(projects)), GLOBAL]


def contenders(reached: Sequence[Reached]) -> list[NodeId]:
    """Return the nodes of a walk that are looked at more closely, the strongest first."""
    return [found.node for found in reached[:LINEAGE_MAX]]


def seeds_of(matches: Sequence[Match], *, min_sim: float) -> dict[NodeId, float]:
    """Return where a query's walk begins, with the pulls; nowhere when nothing is like it enough."""
    near = [match.node for match in ranked(matches) if match.cosine >= max(min_sim, MATCH_COSINE_MIN)]
    return dict(zip(near, SEED_PULLS, strict=False))


def ranked(matches: Iterable[Match]) -> list[Match]:
    """Return matches in order: the most alike first, then by id."""
    return sorted(matches, key=lambda match: (-match.cosine, match.node))


def select(material: Material, *, min_sim: float | None = None) -> Selection:
    """Return what a briefing tells: every node once, in the first section that has a reason to name it."""
    choice = _Choice(material)
    sections: dict[Section, Sequence[Entry]] = {
        Section.REPORTS: choice.listed(material.reports),
        Section.CORRECTIONS: choice.listed(
            node for node in material.corrections if node in material.cards and in_force(material.cards[node])
        ),
        Section.PINNED: choice.listed(material.orders.pinned, replaced=True),
        Section.LINEAGE: choice.lineage(),
        Section.OUTSIDE: choice.outside(MATCH_COSINE_MIN if min_sim is None else max(min_sim, MATCH_COSINE_MIN)),
        Section.NORMS: choice.listed(material.norms),
    }
    return Selection(
        root=material.cards.get(material.root) if material.root is not None else None,
        sections={section: entries for section, entries in sections.items() if entries},
        crowded=material.crowded,
        more=material.more | ({Section.PINNED} if material.orders.unread else set()),
        unread=max(0, len(material.reached) - LINEAGE_MAX),
        norms_left=material.norms_left,
        top_sim=max((match.cosine for match in material.matches), default=0.0),
    )


class _Choice:
    """Goes through the sections in order and names no node twice."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._named: set[NodeId] = {material.root} if material.root is not None else set()
        self._corrected: dict[str, list[NodeId]] = {}
        for node in material.corrections:
            card = material.cards.get(node)
            if card is not None and card.target is not None and in_force(card):
                self._corrected.setdefault(card.target, []).append(node)

    def listed(self, nodes: Iterable[NodeId], *, replaced: bool = False) -> list[Entry]:
        """Return `nodes` in their own order, each at its whole length."""
        wanted = [self._stand_in(node) if replaced else node for node in nodes]
        return [entry for node in wanted if (entry := self._entry(node, 1.0, None)) is not None]

    def lineage(self) -> list[Entry]:
        """Return what the walk came by, and where a query's began, each by its pull or its successor's."""
        best: dict[NodeId, tuple[float, str | None]] = {}
        for node, pull, edge in self._walked():
            at = self._stand_in(node)
            if at not in best or best[at][0] < pull:
                best[at] = (pull, edge)
        return _in_order(self._scored(node, pull, edge) for node, (pull, edge) in best.items())

    def outside(self, cosine_min: float) -> list[Entry]:
        """Return what is alike and has not been named, at most `MATCHES_MAX`."""
        entries: list[Entry] = []
        for match in ranked(self._material.matches):
            if match.cosine < cosine_min or len(entries) == MATCHES_MAX:
                break
            entry = self._scored(self._stand_in(match.node), match.cosine, None)
            if entry is not None:
                entries.append(entry)
        return _in_order(entries)

    def _walked(self) -> Iterator[tuple[NodeId, float, str | None]]:
        yield from ((node, pull, None) for node, pull in self._material.seeds.items())
        yield from ((found.node, found.pull, found.edge) for found in self._material.reached[:LINEAGE_MAX])

    def _stand_in(self, node: NodeId) -> NodeId:
        return last_of_chain(node, self._material.successors)

    def _scored(self, node: NodeId, pull: float, edge: str | None) -> Entry | None:
        card = self._material.cards.get(node)
        near = card is not None and card.project is not None and card.project == self._material.project
        return self._entry(node, round(pull * SAME_PROJECT if near else pull, 4), edge)

    def _entry(self, node: NodeId, score: float, edge: str | None) -> Entry | None:
        card = self._material.cards.get(node)
        if card is None or node in self._named or node in self._material.orders.excluded:
            return None
        self._named.add(node)
        return Entry(card, score, edge, tuple(self._corrected.get(node, ())))


def _in_order(entries: Iterable[Entry | None]) -> list[Entry]:
    found = sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.card.id)
    found.sort(key=lambda entry: entry.card.newness, reverse=True)
    found.sort(key=lambda entry: entry.score, reverse=True)
    return found
