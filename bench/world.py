"""A graph of any size, made up the same way each time: what a year of work leaves behind.

Nodes come in *cells* of twenty, each of one project, filed one after the other
over a year. Eleven of a cell are open: work ready for agents, work nobody has
looked at, a chain of three blockers, something that sleeps, something that is
due, an issue, a finding, at times a question. The others are what was done,
what resolved it, and decisions. So a queue grows with its graph, which is the
worst that can happen to a page of it.

`World` also says what the queue's index keeps of each, since it knows every
edge; `bench.bulk` checks a sample of that against what the server derives.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Final

from batonpass.core import readiness
from batonpass.core.clock import micros, moment
from batonpass.core.edges import Edge
from batonpass.core.ids import Instant, NodeId, PersonId
from batonpass.core.nodes import Attribution, Authored, Node, Stamp
from batonpass.core.queue import Candidate, day
from batonpass.core.ranking import BLOCKING_DEPTH_MAX
from batonpass.wire import markdown

CELL: Final = 20
PROJECTS: Final = 10
SPAN: Final = timedelta(days=364)
COLD_AFTER: Final = timedelta(days=30)
HUB: Final = NodeId("issue-hub")
HUB_NEIGHBOURS: Final = 5_000
EPIC: Final = NodeId("issue-epic")
EPIC_CHILDREN: Final = 20
EPIC_GRANDCHILDREN: Final = 24
CHAIN: Final = 10_000
OPEN_FROM: Final = 4
"""From which place in its cell on a task is open."""
PLAIN: Final = 7
HELD: Final = 9
READY: Final = (OPEN_FROM, PLAIN, 8, HELD)
"""Which of a cell are for agents and free; the first blocks others."""
DUE: Final = 10
SLEEPING: Final = 11
ASKED_ABOUT: Final = 12
ISSUE: Final = 14
QUESTION: Final = 15
FINDING: Final = 16
KINDS: Final = ("task",) * 13 + ("issue", "issue", "question", "finding", "artifact", "artifact", "decision")
PREFIXES: Final = {
    "task": "task", "issue": "issue", "question": "question", "finding": "find", "artifact": "art", "decision": "dec",
}  # fmt: skip
DONE: Final = {0: "done", 1: "done", 2: "done", 3: "done", 13: "resolved", 17: "merged", 18: "merged", 19: "settled"}
EDGES: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    4: (("blocks", 5),),
    5: (("blocks", 6),),
    QUESTION: (("relates-to", ASKED_ABOUT),),
    FINDING: (("relates-to", ISSUE),),
    17: (("derived-from", 19), ("resolves", 0), ("resolves", 1)),
    18: (("resolves", 2), ("resolves", 3)),
    19: (("resolves", 13),),
}
PRIORITIES: Final = (None, None, "p3", None, "p2", "p3", None, "p3", None, "p2", None, None, "p1")
BLOCKED_BY: Final = {5: 4, 6: 5}
BLOCKING: Final = {4: 2, 5: 1}
RARE: Final = "xylograph"
"""A word that five nodes hold, wherever they lie; `COMMON` is in most."""
COMMON: Final = "retry"
PAIR: Final = ("lantern", "harbor")
"""Two words of which one node in fifty holds each, and few both."""
BEGUN: Final = "conn"
WORDS: Final = 4_000
BODY_WORDS: Final = 24
HAN: Final = "部署流水线在重试之后没有释放连接池中的租约"
"""In the title of every tenth decision: a sentence in a script without blanks."""


@dataclass(frozen=True, slots=True)
class Made:
    """A node, and what the queue is to judge it by; None for one that is never an item."""

    node: Node
    candidate: Candidate | None


@dataclass(frozen=True)
class World:
    """A graph of `size` nodes, filed by `author` in the year before `now`; `shapes` adds an epic and a chain."""

    size: int
    now: Instant
    author: PersonId
    byline: str
    shapes: bool = False
    words: Sequence[str] = field(default_factory=lambda: tuple(_vocabulary()))

    @property
    def cells(self) -> int:
        """How many whole cells there are."""
        return self.size // CELL

    @property
    def hub_neighbours(self) -> int:
        """How many nodes relate to the hub."""
        return len(range(0, self.cells, self._hub_stride))

    @cached_property
    def _hub_stride(self) -> int:
        return max(1, self.cells // HUB_NEIGHBOURS)

    def node_id(self, number: int) -> NodeId:
        """Return the id of a node by its number."""
        return NodeId(f"{PREFIXES[KINDS[number % CELL]]}-w{number}")

    def held(self, most: int) -> list[NodeId]:
        """Return at most `most` items, spread over all projects, that somebody is to hold."""
        step = -(-self.cells // most) | 1  # odd, so that no project is left out
        return [self.node_id(cell * CELL + HELD) for cell in range(0, self.cells, step)]

    def made(self) -> Iterator[Made]:
        """Yield every node in the order in which they were filed."""
        yield self._made(self._authored(HUB, "issue", self._at(0), number=0), self._at(0))
        if self.shapes:
            yield from self._epic()
            yield from self._chain()
        chance = random.Random(20)  # noqa: S311 — no secret
        for number in range(self.cells * CELL):
            yield self._of_cell(number, chance)

    def _at(self, number: int) -> Instant:
        return Instant(self.now - micros(SPAN) + micros(SPAN) * number // self.size)

    def _of_cell(self, number: int, chance: random.Random) -> Made:
        cell, place = divmod(number, CELL)
        first = cell * CELL
        edges = [Edge(kind, self.node_id(first + to)) for kind, to in EDGES.get(place, ())]
        targets = [first + to for _, to in EDGES.get(place, ())]
        if OPEN_FROM <= place <= ASKED_ABOUT and cell >= PROJECTS:
            before = (cell - PROJECTS) * CELL + CELL - 1
            edges.append(Edge("relates-to", self.node_id(before)))
            targets.append(before)
        if place == ASKED_ABOUT and cell % self._hub_stride == 0:
            edges.append(Edge("relates-to", HUB))
            targets.append(0)
        at = self._at(number)
        authored = self._authored(self.node_id(number), KINDS[place], at, number=number, edges=edges)
        title, body = self._text(number, place, chance)
        return self._made(
            replace(
                authored,
                title=title,
                body=body,
                status=DONE.get(place, "answered" if place == QUESTION and cell % 3 else None),
                readiness="agent" if place in READY else None,
                priority=PRIORITIES[number % len(PRIORITIES)],
                wake=self._day(20) if place == SLEEPING and cell % 5 == 0 else None,
                needed_by=self._day(cell % 70 - 10) if place == DUE and cell % 4 == 0 else None,
                extra={"commits": (f"{authored.project}@{number:012x}",)} if KINDS[place] == "artifact" else {},
            ),
            at,
            cold=sum(self._at(target) < self.now - micros(COLD_AFTER) for target in targets),
            blocked_by=[self.node_id(first + BLOCKED_BY[place])] if place in BLOCKED_BY else (),
            blocking=BLOCKING.get(place, 0),
            questions=[self.node_id(first + QUESTION)] if place == ASKED_ABOUT and cell % 3 == 0 else (),
            findings=[self.node_id(first + FINDING)] if place == ISSUE else (),
        )

    def _text(self, number: int, place: int, chance: random.Random) -> tuple[str, str]:
        drawn = [self.words[int(len(self.words) * chance.random() ** 3)] for _ in range(BODY_WORDS + 3)]
        body = f"The {' '.join(drawn[:8])}.\n\nThen {' '.join(drawn[8:BODY_WORDS])}."
        if number % 3:
            body += f" A {COMMON} is due."
        for word, every in ((PAIR[0], 50), (PAIR[1], 49), (f"{BEGUN}ection", 31), (f"{BEGUN}ector", 83)):
            body += f" {word.capitalize()}." if number % every == 0 else ""
        if (number + 1) % max(1, self.size // 5) == 0:
            body += f" {RARE.capitalize()}."
        title = f"{' '.join(drawn[BODY_WORDS:]).capitalize()} {number}"
        return (HAN if place == CELL - 1 and number // CELL % 10 == 0 else title), body

    def _authored(self, node: NodeId, kind: str, at: Instant, *, number: int, edges: Iterable[Edge] = ()) -> Authored:
        return Authored(
            id=node,
            type=kind,
            title=f"{node} and what belongs to it",
            summary=f"Filed as number {number}",
            date=moment(at).date().isoformat(),
            project=f"p{number // CELL % PROJECTS}",
            edges=tuple(sorted(edges, key=lambda edge: edge.key)),
        )

    def _made(
        self,
        authored: Authored,
        at: Instant,
        *,
        cold: int = 0,
        blocked_by: Sequence[NodeId] = (),
        blocking: int = 0,
        questions: Sequence[NodeId] = (),
        findings: Sequence[NodeId] = (),
    ) -> Made:
        """Return a node as one that was put and never touched again, and what the queue judges it by."""
        stamp = Stamp(self.byline, at, "cli")
        ready = authored.readiness is not None
        made = Node(
            authored,
            markdown.revision(authored),
            Attribution(self.author, "cli"),
            created_at=at,
            updated_at=at,
            priority_stamp=stamp if authored.priority else None,
            readiness_stamp=stamp if ready else None,
            ready_by_person=ready,
        )
        if not made.kind.queueable:
            return Made(made, None)
        consent = readiness.Consent(self.byline, by_person=True) if ready else None
        candidate = Candidate(
            id=made.id,
            type=authored.type,
            title=authored.title,
            status=authored.status,
            project=authored.project,
            priority=authored.priority,
            priority_by=self.byline if authored.priority else None,
            priority_via="cli" if authored.priority else None,
            born=_midnight(at),
            wake=day(authored.wake),
            needed_by=day(authored.needed_by),
            profile=None,
            lease=None,
            ready=readiness.Facts(authored.type, consent=consent, open_questions=questions),
            blocked_by=tuple(blocked_by),
            blocking=blocking,
            findings=tuple(findings),
            resolved=authored.status is not None,
            retired=authored.status is not None,
            edges=len(authored.edges),
            cold_neighbors=cold,
        )
        return Made(made, candidate)

    def _day(self, ahead: int) -> str:
        return (moment(self.now).date() + timedelta(days=ahead)).isoformat()

    def _epic(self) -> Iterator[Made]:
        """Yield an epic with its descendants: each derived from the one above, its children blocking it."""
        children = [NodeId(f"task-epic-{child}") for child in range(EPIC_CHILDREN)]
        at = self._at(self.size // 2)
        cold = int(at < self.now - micros(COLD_AFTER))
        yield self._made(self._authored(EPIC, "issue", at, number=0), at, blocked_by=children)
        for child in children:
            onto = [Edge("blocks", EPIC), Edge("derived-from", EPIC)]
            yield self._made(self._ready(child, at, edges=onto), at, cold=2 * cold, blocking=1)
            for grandchild in range(EPIC_GRANDCHILDREN):
                below = self._ready(NodeId(f"{child}-{grandchild}"), at, edges=[Edge("derived-from", child)])
                yield self._made(below, at, cold=cold)

    def _chain(self) -> Iterator[Made]:
        """Yield tasks each of which blocks the next."""
        at = self._at(self.size // 2)
        cold = int(at < self.now - micros(COLD_AFTER))
        for link in range(CHAIN):
            follows = [Edge("blocks", link_of(link + 1))] if link < CHAIN - 1 else []
            yield self._made(
                self._ready(link_of(link), at, number=CELL, edges=follows),
                at,
                cold=cold * len(follows),
                blocked_by=[link_of(link - 1)] if link else (),
                blocking=min(BLOCKING_DEPTH_MAX, CHAIN - 1 - link),
            )

    def _ready(self, node: NodeId, at: Instant, *, number: int = 0, edges: Iterable[Edge]) -> Authored:
        return replace(self._authored(node, "task", at, number=number, edges=edges), readiness="agent")


def plain_item(cell: int) -> NodeId:
    """Return the item of a cell that is free, ready for agents and in no way special."""
    return NodeId(f"task-w{cell * CELL + PLAIN}")


def link_of(number: int) -> NodeId:
    """Return the id of a link of the chain."""
    return NodeId(f"task-chain-{number}")


def _midnight(at: Instant) -> Instant:
    begun = moment(at).replace(hour=0, minute=0, second=0, microsecond=0)
    return Instant(at - micros(moment(at) - begun))


def _vocabulary() -> Iterator[str]:
    """Yield words that can be told apart and begin in many ways."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    syllables = [first + second for first in consonants for second in vowels]
    for number in range(WORDS):
        rest, first = divmod(number, len(syllables))
        yield syllables[first] + syllables[(rest * 7 + first) % len(syllables)] + syllables[rest % len(syllables)]
