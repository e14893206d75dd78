"""Briefings: reads what `core.digest` selects from, hop by hop, in one snapshot and a bounded number of statements.

    root, reports, groupings → corrections → hop 1 → hop 2 → hop 3 → what is alike → successors, norms → cards

Nothing is changed, nothing is cached: the same graph gives the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core import digest as law
from batonpass.core.digest import Card, Match, Material, Orders, Section, Selection
from batonpass.core.digest_text import Mode, render
from batonpass.core.errors import InvalidNode
from batonpass.core.ids import NodeId
from batonpass.core.node_types import type_of
from batonpass.core.norms import PROJECT_PREFIX, Setting, ride_along, slug_of
from batonpass.core.similarity import Scale, foremost, matches, telling, weights
from batonpass.core.walk import Walk
from batonpass.core.words import counts
from batonpass.store import digest as reads
from batonpass.store import search
from batonpass.store.base import Reader, Store
from batonpass.store.search import Worded

CANDIDATES_MAX: Final = 60
"""How many nodes that share a telling word are compared, the newest first."""
MATCHES_READ_MAX: Final = 12
"""How many of the most alike are read: a few more than are shown, since some stand for one another."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a briefing is to be about: a node, or a question; which project it is for; how much it shows."""

    root: NodeId | None = None
    query: str = ""
    project: str | None = None
    min_sim: float | None = None
    mode: Mode = Mode.DIGEST


@dataclass(frozen=True, slots=True)
class Digest:
    """A briefing; without anything found its text is empty."""

    text: str
    node_ids: Sequence[NodeId]
    top_sim: float

    @property
    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.text)


class Digests:
    """The briefings of the API. Each public method is one call of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compile(self, asked: Asked) -> Digest:
        """Return the briefing; `InvalidNode` when its root is not there."""
        async with self._store.read_aside() as tx:
            material = await _Reading(tx, asked).material()
        if asked.root is None and not material.seeds:
            # The gate of relevance: nothing is like the question enough, whatever else could be said (companion 5.2).
            return Digest("", (), max((match.cosine for match in material.matches), default=0.0))
        selection = law.select(material, min_sim=asked.min_sim)
        return _digest(selection, asked)


class _Reading:
    """The reads of one briefing, in their order."""

    def __init__(self, tx: Reader, asked: Asked) -> None:
        self._tx = tx
        self._asked = asked
        self._slug = slug_of(asked.project) if asked.project is not None else None
        self._cards: dict[NodeId, Card] = {}
        self._more: set[Section] = set()

    async def material(self) -> Material:
        """Return everything that the selection is made from."""
        root, reports, projects = await self._beginning()
        corrections = await self._corrections(law.correction_targets(self._asked.root, projects))
        orders = law.orders_of(root, (self._cards[node] for node in corrections))
        alike = await self._alike(self._asked.query if root is None else _text(root), orders)
        seeds = {root.id: 1.0} if root is not None else law.seeds_of(alike, min_sim=self._min_sim)
        walk = await self._walked(seeds, orders)
        reached = walk.reached()
        joined = {*seeds, *(found.node for found in reached)}
        apart = [match for match in law.ranked(alike) if match.node not in joined][:MATCHES_READ_MAX]
        named = [*reports, *orders.pinned, *law.contenders(reached), *seeds, *(match.node for match in apart)]
        successors, norms, norms_left = await self._around(named, self._setting(root, projects))
        shown = [*named, *successors.values(), *norms]
        corrections += [node for node in await self._shown(shown, reports) if node not in corrections]
        return Material(
            cards=self._cards,
            root=self._asked.root,
            reports=reports,
            corrections=corrections,
            orders=orders,
            seeds={} if root is not None else seeds,
            reached=reached,
            matches=[*(match for match in alike if match.node in joined), *apart],
            successors=successors,
            norms=norms,
            norms_left=norms_left,
            crowded=walk.crowded,
            more=frozenset(self._more),
            project=self._slug,
        )

    @property
    def _min_sim(self) -> float:
        return law.MIN_SIM if self._asked.min_sim is None else self._asked.min_sim

    async def _beginning(self) -> tuple[Card | None, list[NodeId], frozenset[str]]:
        """Return the root, what earlier runs reported on it, and the slugs that stand for the project."""
        root, slug = self._asked.root, self._slug
        asked = [reads.groupings_asked(slug or "")]
        if root is not None:
            asked += [reads.cards_asked([root], whole=[root]), reads.reports_asked(root)]
        grouping_rows, *rest = await self._tx.fetch(*asked)
        projects = frozenset({slug, *map(slug_of, reads.ids_of(grouping_rows))} if slug is not None else ())
        if root is None:
            return None, [], projects
        self._cards |= reads.cards_of(rest[0])
        if root not in self._cards:
            raise InvalidNode(f"root: there is no node {root}", field="root")
        reports = reads.ids_of(rest[1])
        if len(reports) > law.REPORTS_MAX:
            self._more.add(Section.REPORTS)
        return self._cards[root], reports[: law.REPORTS_MAX], projects

    async def _corrections(self, targets: Sequence[str]) -> list[NodeId]:
        """Return the corrections of `targets`, each read whole."""
        (rows,) = await self._tx.fetch(reads.corrections_asked(targets))
        found, more = reads.corrections_of(rows)
        if more:
            self._more.add(Section.CORRECTIONS)
        await self._read_cards(found, whole=found)
        return [node for node in found if node in self._cards]

    async def _alike(self, text: str, orders: Orders) -> list[Match]:
        """Return what is like `text` at all, found by its most telling words."""
        own = foremost(counts(text))
        if not own:
            return []
        known = await search.frequencies(self._tx, own.keys())
        found = await search.holding(self._tx, telling(own, known.of, known.among), most=CANDIDATES_MAX)
        others = ((worded.node, worded.counts) for worded in found if self._may_match(worded, orders))
        return matches(own, others, Scale.of(weights(known.of, known.among)), least=law.MATCH_COSINE_MIN)

    def _may_match(self, worded: Worded, orders: Orders) -> bool:
        kind = type_of(worded.node)
        walked = kind is not None and kind.traversable and not kind.identity
        return walked and worded.node != self._asked.root and worded.node not in orders.excluded

    async def _walked(self, seeds: Mapping[NodeId, float], orders: Orders) -> Walk:
        walk = Walk(seeds, closed=orders.excluded, floor=self._asked.root is not None)
        while probes := walk.ahead():
            steps, crowded = await reads.neighbours(self._tx, probes, most=walk.neighbours_max)
            walk.take(steps, crowded=crowded)
        return walk

    async def _around(
        self, named: Sequence[NodeId], setting: Setting
    ) -> tuple[dict[NodeId, NodeId], Sequence[NodeId], int]:
        """Return what stands in the place of superseded nodes, the norms that apply, and how many more do."""
        if self._asked.mode is Mode.DIGEST:
            (rows,) = await self._tx.fetch(reads.successors_asked(named))
            return reads.successors_of(rows), (), 0
        rows, norm_rows = await self._tx.fetch(reads.successors_asked(named), reads.norms_asked())
        return reads.successors_of(rows), *ride_along(reads.norms_of(norm_rows), setting)

    def _setting(self, root: Card | None, projects: frozenset[str]) -> Setting:
        """Return where norms have to apply: a project's node names no repository."""
        tags = frozenset(root.tags) if root is not None else frozenset()
        grouping = (self._asked.project or "").startswith(PROJECT_PREFIX)
        return Setting(tags=tags, repo=None if grouping else self._slug, projects=projects)

    async def _shown(self, nodes: Sequence[NodeId], reports: Sequence[NodeId]) -> list[NodeId]:
        """Read what may be shown, and return the corrections of it, read too."""
        whole = nodes if self._asked.mode is Mode.FULL else reports[:1]
        await self._read_cards(nodes, whole=whole)
        return await self._corrections(sorted({*nodes}))

    async def _read_cards(self, nodes: Iterable[NodeId], *, whole: Iterable[NodeId]) -> None:
        missing = {*nodes} - self._cards.keys()
        if missing:
            (rows,) = await self._tx.fetch(reads.cards_asked(missing, whole=missing & {*whole}))
            self._cards |= reads.cards_of(rows)


def _text(root: Card) -> str:
    return f"{root.title}\n{root.summary}\n{root.body}"


def _digest(selection: Selection, asked: Asked) -> Digest:
    text = render(selection, asked.mode, query=asked.query)
    return Digest(text, selection.node_ids if text else (), selection.top_sim)
