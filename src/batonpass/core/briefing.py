"""A project's briefing: what is told to a session that begins without an item (companion 5.1).

It opens with the stored brief, if somebody has written one, and goes on with
corrections, what is newest, and the norms that apply. The same selection and
the same words as for an item (`core.digest`, `core.digest_text`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from batonpass.core.digest import Card, Entry, Section, Selection, in_force
from batonpass.core.ids import NodeId
from batonpass.core.norms import PROJECT_PREFIX, REPO_PREFIX, slug_of

RECENT: Final = ("incident", "question", "decision", "finding", "artifact")
"""Which kinds of nodes are shown for being new, in this order."""
RECENT_MAX: Final = 6
"""How many of each."""
RECENT_SCORE: Final = 0.5
"""What is only new has its line and no body."""
VERSION_HEX: Final = 16


class GraphStatus(StrEnum):
    """What the graph knows of a project: nodes of it, only its own node, or nothing."""

    READY = "ready"
    EMPTY = "empty"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository's slug, the other names it goes by, and what tells its checkouts apart from others."""

    slug: str
    slugs: frozenset[str] = frozenset()
    fingerprints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose briefing it is: the node of a repository or a project. `bare` says that only a slug was given."""

    node: NodeId
    slug: str
    bare: bool


def subject_of(name: str, repos: Iterable[Repo], fingerprints: Collection[str]) -> Subject:
    """Return what `name` stands for: ``repo-<slug>``, ``proj-<slug>``, or a bare slug.

    A slug that no repository has may be another name of one; else a
    repository that has one of the fingerprints is meant.
    """
    if name.startswith((REPO_PREFIX, PROJECT_PREFIX)):
        return Subject(NodeId(name), slug_of(name), bare=False)
    known = sorted(repos, key=lambda repo: repo.slug)
    ways = (
        (repo for repo in known if repo.slug == name),
        (repo for repo in known if name in repo.slugs),
        (repo for repo in known if repo.fingerprints & set(fingerprints)),
    )
    slug = next((repo.slug for way in ways for repo in way), name)
    return Subject(NodeId(f"{REPO_PREFIX}{slug}"), slug, bare=True)


def compose(
    cards: Mapping[NodeId, Card],
    *,
    brief: NodeId | None,
    corrections: Sequence[NodeId],
    recent: Sequence[NodeId] = (),
    norms: Sequence[NodeId] = (),
    norms_left: int = 0,
    more: bool = False,
) -> Selection:
    """Return what a project's briefing tells; what is not among the `cards` is not there any more.

    `more` says that there are corrections which were not read.
    """
    sections = {
        Section.BRIEF: _entries(cards, [brief] if brief is not None else [], 1.0),
        Section.CORRECTIONS: [
            entry for entry in _entries(cards, corrections, 1.0) if in_force(entry.card) and entry.card.target
        ],
        Section.RECENT: _entries(cards, recent, RECENT_SCORE),
        Section.NORMS: _entries(cards, norms, 1.0),
    }
    return Selection(
        root=None,
        sections={section: entries for section, entries in sections.items() if entries},
        more=frozenset({Section.CORRECTIONS} if more else ()),
        norms_left=norms_left,
    )


def version_of(*texts: str) -> str:
    """Return what tells this text apart from any other: the same text has the same version."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:VERSION_HEX]


def _entries(cards: Mapping[NodeId, Card], nodes: Iterable[NodeId], score: float) -> list[Entry]:
    return [Entry(cards[node], score) for node in dict.fromkeys(nodes) if node in cards]
