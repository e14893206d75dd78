"""Keeping the queue's index: which rows a change touches, what they are now, and notes of what is left to do (D16)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from batonpass.core import ranking
from batonpass.core.ids import NodeId, Resource
from batonpass.core.queue import Kept
from batonpass.store.base import Row, Statement, Tx, as_json, q

SPREAD_MAX: Final = 10_000
"""How many items upstream of a change have their score derived anew; further ones keep what they had (a hint, D16)."""


class What(StrEnum):
    """What a note is about: an item, a node whose change may touch others, or every item of a project."""

    ITEM = "item"
    CHANGE = "change"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that may have to be derived anew."""

    number: int
    name: str
    what: What


def affected_locked(changed: Iterable[NodeId], *, most: int) -> Statement:
    """Ask for the items whose eligibility a change of `changed` may touch, at most so many, locked; see `affected`."""
    return q("ranking.lock_affected", changes=as_json(sorted(changed)), most=most)


def affected(rows: Sequence[Row]) -> list[NodeId]:
    """Return the answer to `affected_locked`, in order."""
    return [NodeId(row[0]) for row in rows]


def lock_asked(ids: Iterable[NodeId]) -> Statement:
    """Ask for items' rows, locked in order."""
    return q("ranking.lock_items", ids=as_json(sorted(ids)))


def put(tx: Tx, kept: Sequence[Kept]) -> None:
    """Write what the index keeps of items, which are locked or new."""
    if kept:
        tx.put(q("ranking.put_items", rows=as_json([_row(one) for one in kept])))


def marked(busy: Collection[Resource], free: Collection[Resource]) -> Statement:
    """Return the statement that marks items as held and as held no more; it waits for nobody (D44)."""
    return q("ranking.mark", busy=as_json(sorted(busy)), free=as_json(sorted(free)))


def changes_noted(certain: Iterable[NodeId], perhaps: Iterable[NodeId]) -> Statement:
    """Return the statement that notes changed nodes, of `perhaps` only those with edges that carry eligibility.

    It has a row for each it noted.
    """
    return q("ranking.note_changes", certain=as_json(sorted(certain)), perhaps=as_json(sorted(perhaps)))


def note(tx: Tx, names: Iterable[str], what: What) -> None:
    """Note something to be derived anew after COMMIT."""
    tx.put(q("ranking.note", names=as_json(sorted(names)), what=what))


def notes_asked(*, most: int) -> Statement:
    """Ask for the oldest notes that nobody else is dealing with; see `notes_of`."""
    return q("ranking.take_notes", most=most)


def notes_of(rows: Sequence[Row]) -> list[Note]:
    """Return the answer to `notes_asked`."""
    return [Note(n, name, What(what)) for n, name, what in rows]


def drop_notes(tx: Tx, notes: Iterable[Note]) -> None:
    """Remove notes that have been dealt with."""
    tx.put(q("ranking.drop_notes", numbers=as_json([one.number for one in notes])))


def spread(tx: Tx, notes: Sequence[Note]) -> None:
    """Note every item that notes of changes and projects are about."""
    if changes := {one.name for one in notes if one.what is What.CHANGE}:
        depth = ranking.BLOCKING_DEPTH_MAX
        tx.put(q("ranking.spread_changes", names=as_json(sorted(changes)), depth=depth, most=SPREAD_MAX))
    if projects := {one.name for one in notes if one.what is What.PROJECT}:
        tx.put(q("ranking.spread_projects", names=as_json(sorted(projects))))


def note_turned(tx: Tx, today: int, *, most: int) -> None:
    """Note items whose day to turn has come."""
    tx.put(q("ranking.note_turned", today=today, most=most))


def any_turned(today: int) -> Statement:
    """Ask whether any item's day to turn has come: a row if so."""
    return q("ranking.any_turned", today=today)


def any_notes() -> Statement:
    """Ask whether anything is noted: a row if so."""
    return q("ranking.any_notes")


def _row(kept: Kept) -> dict[str, object]:
    return {
        "node": kept.id,
        "type": kept.type,
        "project": kept.project,
        "readiness": kept.ready,
        "live_blockers": kept.blockers,
        "base": kept.base,
        "born": kept.born,
        "lane": kept.lane,
        "place": kept.place,
        "turns": kept.turns,
        "stale": kept.stale,
        "busy": kept.busy,
    }
