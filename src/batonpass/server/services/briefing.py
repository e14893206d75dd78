"""A project's briefing, read in one snapshot and a bounded number of statements."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from batonpass.core.briefing import GraphStatus, Subject, compose, subject_of, version_of
from batonpass.core.digest import GLOBAL, OF_PROJECT
from batonpass.core.digest_text import Mode, render
from batonpass.core.ids import NodeId
from batonpass.core.norms import PROJECT_PREFIX, Setting, ride_along, slug_of
from batonpass.store import digest as reads
from batonpass.store.base import Reader, Store


@dataclass(frozen=True, slots=True)
class Briefing:
    """A project's briefing in words, and that of the project its repository belongs to; "" is nothing to tell."""

    body: str
    of_grouping: str
    status: GraphStatus

    @property
    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.body or self.of_grouping)

    @property
    def version(self) -> str | None:
        """What tells this briefing apart from any other."""
        return version_of(self.body, self.of_grouping) if self.found else None


class Briefings:
    """The briefings of projects. Its public method is one call of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, name: str, *, fingerprints: Collection[str] = ()) -> Briefing:
        """Return the briefing of a repository or project, by its node's id or a bare slug."""
        async with self._store.read_aside() as tx:
            (repo_rows,) = await tx.fetch(reads.repos_asked())
            subject = subject_of(name, reads.repos_of(repo_rows), fingerprints)
            (grouping_rows,) = await tx.fetch(reads.groupings_asked(subject.slug))
            groupings = [node for node in reads.ids_of(grouping_rows) if subject.node != node]
            body, status = await _own(tx, subject, groupings)
            of_grouping = await _of_grouping(tx, groupings[0]) if subject.bare and groupings else ""
        return Briefing(body, of_grouping, status)


async def _own(tx: Reader, subject: Subject, groupings: list[NodeId]) -> tuple[str, GraphStatus]:
    """Return the project's own briefing in words, and what the graph knows of it."""
    projects = [subject.slug, *map(slug_of, groupings)]
    brief_rows, correction_rows, recent_rows, norm_rows, belonging = await tx.fetch(
        reads.brief_asked(subject.node),
        reads.corrections_asked([subject.node, *(OF_PROJECT + slug for slug in projects), GLOBAL]),
        reads.recent_asked(subject.slug),
        reads.norms_asked(),
        reads.belongs_asked(subject.slug),
    )
    brief, recent = map(reads.ids_of, (brief_rows, recent_rows))
    corrections, more = reads.corrections_of(correction_rows)
    repo = None if subject.node.startswith(PROJECT_PREFIX) else subject.slug
    norms, left = ride_along(reads.norms_of(norm_rows), Setting(repo=repo, projects=frozenset(projects)))
    shown = [*brief[:1], *corrections, *recent, *norms]
    (rows,) = await tx.fetch(reads.cards_asked([*shown, subject.node], whole=shown))
    cards = reads.cards_of(rows)
    selection = compose(
        cards,
        brief=next(iter(brief), None),
        corrections=corrections,
        recent=recent,
        norms=norms,
        norms_left=left,
        more=more,
    )
    known = GraphStatus.EMPTY if subject.node in cards else GraphStatus.UNKNOWN
    return render(selection, Mode.FULL), GraphStatus.READY if belonging[0][0] else known


async def _of_grouping(tx: Reader, node: NodeId) -> str:
    """Return what is told of the project that a repository belongs to: its brief and its corrections."""
    brief_rows, correction_rows = await tx.fetch(
        reads.brief_asked(node), reads.corrections_asked([node, OF_PROJECT + slug_of(node)])
    )
    brief, (corrections, more) = reads.ids_of(brief_rows), reads.corrections_of(correction_rows)
    shown = [*brief[:1], *corrections]
    (rows,) = await tx.fetch(reads.cards_asked(shown, whole=shown))
    selection = compose(reads.cards_of(rows), brief=next(iter(brief), None), corrections=corrections, more=more)
    return render(selection, Mode.FULL)
