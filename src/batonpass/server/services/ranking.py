"""Keeping the queue's index true: within the change what decides eligibility, right after it the rest (D16).

`Stirred.settle` runs at the end of a change, when its edges are written and
before its events. It locks the items that the change may touch, in order, and
derives them in a statement of its own. Two changes that meet only over two
hops, one adding the edge that the other's effect would travel along, can miss
each other there: each sees the graph without the other. So both also note the
nodes they changed, in a table where nothing waits, and after COMMIT the same
process runs `refresh`: whichever of the two commits last sees both. It also
derives what counts the changed nodes from further up, and what a change
touches beyond `FANOUT_MAX` items. If the process is killed in between, the
notes are there, and any server takes them up (`keep_ranking`, and every other
change's refresh).

Until then a row may lag. A page and `next` judge what they show and take on
the facts, so a lagging row can keep an item out of sight for a moment, and
never shows one that is blocked, done or held.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import points
from batonpass.core.clock import moment
from batonpass.core.edges import Edge
from batonpass.core.ids import Instant, NodeId
from batonpass.core.node_types import type_of
from batonpass.core.nodes import Authored
from batonpass.core.queue import keep
from batonpass.core.ranking import day_number
from batonpass.store import items, queue
from batonpass.store.base import SYSTEM, Fences, Row, Statement, Store, Tx, now_asked, retried
from batonpass.store.items import What

log = logging.getLogger(__name__)

FANOUT_MAX: Final = 256
"""How many items a change derives within its own transaction, besides those of the nodes it writes."""
NOTES_MAX: Final = 128
"""How many notes one transaction of a refresh deals with."""
ROUNDS_MAX: Final = 4
"""How many such transactions a change makes before it answers; what is left is the next one's."""
EVERY_S: Final = 2.0
"""How often a server looks for notes that nobody has dealt with, and for items whose day has come."""
ROUNDS_OF_HOUSE: Final = 400
"""How many transactions a server makes each time at most: some fifty thousand items."""
TURNED_MAX: Final = 1000
"""How many of those that have turned are noted at a time."""
CARRIES: Final = frozenset({"blocks", "resolves", "answers", "supersedes"})
"""Edges along which one node decides whether another is an item."""
ARCHIVED: Final = "archived"


@dataclass(slots=True)
class Stirred:
    """The nodes that a change has written, those whose change may decide about others, and the ends of their edges."""

    written: set[NodeId] = field(default_factory=set)
    telling: set[NodeId] = field(default_factory=set)
    across: set[NodeId] = field(default_factory=set)
    projects: set[str] = field(default_factory=set)

    def write(self, before: Authored | None, after: Authored | None, edges: Iterable[Edge]) -> None:
        """Note that a node was written, or deleted when there is no `after`, and which of its edges came or went.

        Of what stands in a node others only read its status, and that it is there.
        """
        node = after or before
        assert node is not None, "a node that neither was nor is"
        self.written.add(node.id)
        for edge in edges:
            if edge.type in CARRIES or _asks(node.id) or _asks(edge.to):
                self.across |= {node.id, edge.to}
        if before is None or after is None or before.status != after.status:
            self.telling.add(node.id)
        was, is_ = (one.status if one is not None else None for one in (before, after))
        if node.type in {"repo", "project"} and (was == ARCHIVED) != (is_ == ARCHIVED):
            self.projects.add(node.id.partition("-")[2])

    async def settle(self, tx: Tx, now: Instant) -> bool:
        """Derive what the change decides; return whether something is left to be derived after COMMIT."""
        if self.projects:
            items.note(tx, self.projects, What.PROJECT)
        telling = self.telling | self.across
        if not telling:
            await derive_alone(tx, _queueable(self.written), now)
            return False
        # Mostly nothing is affected but what was written, so that is read along, behind the locks.
        certain = _queueable(self.written | self.across)
        lock = items.affected_locked(self.written | telling, most=FANOUT_MAX + 1)
        note = items.changes_noted(self.across, telling - self.across)
        affected, noted = await derive(tx, certain, now, before=[lock], behind=[note])
        reached = items.affected(affected)
        if len(reached) > FANOUT_MAX:
            tx.put(items.changes_noted(telling - self.across, ()))
        await derive(tx, _queueable(reached[:FANOUT_MAX]) - certain, now)
        return bool(noted or self.projects or len(reached) > FANOUT_MAX)


async def derive(
    tx: Tx,
    ids: Collection[NodeId],
    now: Instant,
    *,
    before: Sequence[Statement] = (),
    behind: Sequence[Statement] = (),
) -> list[list[Row]]:
    """Write what the index is to keep of nodes, which are locked, or are by what is sent `before`.

    Return the rows of what goes along, before and behind.
    """
    wanted = sorted(ids)
    asked = queue.candidates_asked(wanted, now) if wanted else []
    if not (asked or before or behind):
        return []
    rows = await tx.fetch(*before, *asked, *behind)
    first, end = len(before), len(before) + len(asked)
    if wanted:
        candidates = queue.candidates_of(wanted, rows[first:end])
        items.put(tx, [keep(candidate, now) for candidate in candidates])
    return [*rows[:first], *rows[end:]]


async def derive_alone(tx: Tx, ids: Collection[NodeId], now: Instant) -> None:
    """Lock items, and write what the index is to keep of them."""
    if ids:
        await derive(tx, ids, now, before=[items.lock_asked(ids)])


async def refresh(store: Store, *, rounds: int = ROUNDS_MAX) -> bool:
    """Deal with notes, a bounded number of transactions; return whether there may be more.

    The change they come from is committed, so nothing that goes wrong here is
    its failure: it is logged, and the notes stay for whoever comes next.
    """
    try:
        for _ in range(rounds):
            if not await _round(store):
                return False
    except Exception:
        log.exception("ranking.failed")
    return True


async def keep_ranking(store: Store) -> None:
    """Take up what is left to derive and what has turned, now and every two seconds, until cancelled.

    Of a day on which very many turn, as after an import, no more than a moment is lost between one lot and the next.
    """
    while True:
        behind = False
        try:
            turned = await note_turned(store)
            if await _is_noted(store):  # a look takes no writer's turn
                behind = not await refresh(store, rounds=ROUNDS_OF_HOUSE) and turned
        except Exception:
            log.exception("ranking.failed")
        await asyncio.sleep(0 if behind else EVERY_S)


@retried
async def note_turned(store: Store) -> bool:
    """Note items whose day to turn has come, and return whether there are any.

    They grow at another pace now, have woken up, or have cooled.
    """
    async with store.read() as tx:
        today = day_number(moment(await tx.now()).date())
        (turned,) = await tx.fetch(items.any_turned(today))
    if turned:
        async with store.write(SYSTEM, Fences()) as tx:
            items.note_turned(tx, today, most=TURNED_MAX)
    return bool(turned)


@retried
async def _is_noted(store: Store) -> bool:
    async with store.read() as tx:
        (waiting,) = await tx.fetch(items.any_notes())
    return bool(waiting)


@retried
async def _round(store: Store) -> bool:
    """Deal with the oldest notes in one transaction; return whether there may be more."""
    async with store.write(SYSTEM, Fences()) as tx:
        rows, ((now,),) = await tx.fetch(items.notes_asked(most=NOTES_MAX), now_asked(tx.clock))
        notes = items.notes_of(rows)
        more = len(notes) == NOTES_MAX
        if wide := [note for note in notes if note.what is not What.ITEM]:
            items.spread(tx, wide)
            items.drop_notes(tx, wide)
            (rows,) = await tx.fetch(items.notes_asked(most=NOTES_MAX))
            notes = items.notes_of(rows)
            more = more or len(notes) == NOTES_MAX or any(note.what is not What.ITEM for note in notes)
            notes = [note for note in notes if note.what is What.ITEM]
        if notes:
            await derive_alone(tx, _queueable({NodeId(note.name) for note in notes}), Instant(now))
            items.drop_notes(tx, notes)
        await points.areach("rank.derived")
    return more


def _asks(node: NodeId) -> bool:
    return node.startswith("question-")


def _queueable(ids: Iterable[NodeId]) -> set[NodeId]:
    return {node for node in ids if (kind := type_of(node)) is not None and kind.queueable}
