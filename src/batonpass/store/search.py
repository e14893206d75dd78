"""The index of words: kept in the transactions that change nodes, and read newest first.

A search reads *stretches* of the numbers in which nodes were filed, the newest
first and each longer than the one before, until it has found enough. So a word
that everything holds costs a short stretch, one that nothing holds a handful
of lookups, and neither grows with the graph. On PostgreSQL the stretches are
tokens of the index themselves, since a GIN index has no order; on SQLite the
full-text index is ordered by them.

What is kept, and what a condition means, is `core.search`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.search import Nearby, any_word, entry
from batonpass.store.base import Reader, Statement, Tx, as_json, q
from batonpass.store.nodes import nodes_of

SAMPLE: Final = 256
"""Among how many of the newest nodes words are counted: enough to tell a rare word from a common one."""
STRETCH_BITS: Final = (10, 13, 16, 19, 22)
"""The index has a token for each run of so many numbers as 2 to the power of these; a stretch is some such runs."""
GROWTH: Final = (2, 8)
"""How many times as long as the one before a stretch is, at least and at most: so few are ever read."""
SLACK: Final = 1.25
"""How much longer than what was found so far lets expect: rather a little too long than one stretch more."""
IDS_LOOKED_AT_MAX: Final = 100
"""How many ids with one beginning are looked at: a page of them. All of them are found by their words as well."""

BEGUN_LOOKED_AT_MAX: Final = 1000
"""How many nodes are looked through for a word that is only begun; each is read."""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """In how many of the `among` newest nodes each word stands; 0 is a word that is rare or new, not one unknown.

    An inverse document frequency is ``log((1 + among) / (1 + of[word]))``.
    """

    of: Mapping[str, int]
    among: int


@dataclass(frozen=True, slots=True)
class Worded:
    """A node and how often each telling word stands in its title, summary and body (`core.words.counts`)."""

    node: NodeId
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The numbers from `low` up to `high`, in whole runs of 2 to the power of `bits` that the index has tokens for."""

    low: int
    high: int
    bits: int

    @classmethod
    def newest(cls, top: int) -> Stretch:
        """Return the stretch down from the number `top`."""
        bits = STRETCH_BITS[0]
        return cls(max(0, (top >> bits) - 1 << bits), top + 1, bits)

    def before(self, numbers: float) -> Stretch | None:
        """Return the next one, older, of about so many numbers within `GROWTH`, or None when there are no more."""
        if self.low == 0:
            return None
        length = self.high - self.low
        wanted = int(min(max(numbers, GROWTH[0] * length), GROWTH[1] * length))
        # Half as long as the stretch or shorter: what stands beside its ends in the same runs is read in vain.
        bits = max((bits for bits in STRETCH_BITS if 2 << bits <= wanted), default=STRETCH_BITS[0])
        return Stretch(max(0, (self.low - wanted) >> bits << bits), self.low, bits)

    @property
    def tokens(self) -> str:
        """The condition that a node lies in one of those whole runs."""
        whole = range(self.low >> self.bits, ((self.high - 1) >> self.bits) + 1)
        return " | ".join(f"'s{self.bits}.{at}'" for at in whole)


@dataclass(slots=True)
class _Reading:
    """The numbers for one condition as far as they have been read; `most` are enough."""

    condition: str
    most: int
    docs: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        """How many are still to be found."""
        return self.most - len(self.docs)

    def numbers(self, seen: int) -> float:
        """Return among how many more numbers the rest may be expected, after `seen`."""
        return SLACK * self.left * seen / len(self.docs) if self.docs else math.inf


# --- keeping ---------------------------------------------------------------------------------------------------------


def index(tx: Tx, created: Iterable[Authored], changed: Iterable[Authored] = ()) -> None:
    """Write the entries of nodes that this transaction has made, in their order, and of locked ones with a new text."""
    changed = list(changed)
    rows = [_row(i, authored) for i, authored in enumerate((*created, *changed))]
    if changed:
        tx.put(q("search.take_out", nodes=as_json([authored.id for authored in changed])))
    if rows:
        tx.put(q("search.write", rows=as_json(rows)))
        tx.put(q("search.put_in", nodes=as_json([row["node"] for row in rows])))


def forget(tx: Tx, node: NodeId) -> None:
    """Remove the entry of a node that this transaction has locked and deletes."""
    tx.put(q("search.take_out", nodes=as_json([node])))
    tx.put(q("search.forget", node=node))


async def merge(tx: Tx, *, pages: int) -> bool:
    """Write about so many pages of the index anew, without the words that nothing has any more; return if more is left.

    SQLite keeps them until then. Less than 0 pages means as many, and that the
    whole index is to be written anew. On PostgreSQL there is nothing to do.
    """
    before, _, after = await tx.fetch(q("search.changes"), q("search.merge", pages=pages), q("search.changes"))
    return bool(after[0][0] - before[0][0] > 1)


async def read_some(tx: Tx, *, most: int) -> int:
    """Read at most `most` nodes that nobody has read into the index yet, the newest first; return how many.

    The entry is locked before its node is read, so a change that comes between
    waits for this one and then writes what is newer. Any number of processes
    may do this at once: on PostgreSQL each takes others.
    """
    (rows,) = await tx.fetch(q("search.take_unread", most=most))
    found = await nodes_of(tx, [NodeId(row[0]) for row in rows])
    index(tx, (), [node.authored for node in found.values()])
    return len(rows)


# --- searching -------------------------------------------------------------------------------------------------------


async def found(reader: Reader, conditions: Sequence[str], *, most: int) -> list[list[int]]:
    """Return for each condition the numbers of the `most` newest nodes that it holds for, newest first."""
    readings = [_Reading(condition, most) for condition in conditions]
    top = await _top(reader)
    stretch: Stretch | None = Stretch.newest(top)
    while stretch is not None and (wanting := [reading for reading in readings if reading.left > 0]):
        answers = await reader.fetch(*(_newest(one.condition, stretch, most=one.left) for one in wanting))
        for one, rows in zip(wanting, answers, strict=True):
            one.docs += [row[0] for row in rows]
        seen = top + 1 - stretch.low
        stretch = stretch.before(min((one.numbers(seen) for one in wanting if one.left > 0), default=0))
    return [reading.docs for reading in readings]


async def begun(reader: Reader, nearby: Nearby) -> tuple[list[int], bool]:
    """Return the numbers of the nodes that have a word with a beginning, newest first, and whether these are all.

    They are looked for among the `BEGUN_LOOKED_AT_MAX` newest nodes that may have one.
    """
    looked = _Reading(nearby.condition, BEGUN_LOOKED_AT_MAX)
    docs: list[int] = []
    top = await _top(reader)
    stretch: Stretch | None = Stretch.newest(top)
    while stretch is not None and looked.left > 0:
        (rows,) = await reader.fetch(
            q(
                "search.begun",
                condition=nearby.condition,
                beginning=nearby.beginning,
                within=stretch.tokens,
                low=stretch.low,
                high=stretch.high,
                looked=looked.left,
            )
        )
        looked.docs += [row[0] for row in rows]
        docs += [doc for doc, begins in rows if begins]
        stretch = stretch.before(looked.numbers(top + 1 - stretch.low))
    return docs, looked.left > 0


async def by_id(reader: Reader, typed: str, *, projects: Sequence[str], types: Sequence[str]) -> list[int]:
    """Return the numbers of the nodes whose ids `typed` is or begins, in the order of their ids.

    Of the first `IDS_LOOKED_AT_MAX` that it begins, those of the projects and types.
    """
    (rows,) = await reader.fetch(
        q(
            "search.by_id",
            begins=typed,
            ends=f"{typed}~",  # behind every character of an id
            projects=as_json(projects) if projects else None,
            types=as_json(types) if types else None,
            looked=IDS_LOOKED_AT_MAX,
        )
    )
    return [row[0] for row in rows]


async def named(reader: Reader, docs: Sequence[int]) -> list[NodeId]:
    """Return the nodes with these numbers, in their order."""
    (rows,) = await reader.fetch(q("search.named", docs=as_json(docs)))
    by_doc = {doc: NodeId(node) for doc, node in rows}
    return [by_doc[doc] for doc in docs]


async def unread(reader: Reader, *, most: int) -> int:
    """Return how many nodes no server has read into the index yet, counted up to `most`; a search misses them."""
    ((count,),) = (await reader.fetch(q("search.unread", most=most)))[0]
    return int(count)


# --- comparing texts -------------------------------------------------------------------------------------------------


async def frequencies(reader: Reader, words: Collection[str]) -> Frequencies:
    """Return in how many nodes each of `words` stands, counted among the `SAMPLE` newest; every word has its entry.

    It takes the same time for a thousand words as for one, and for any graph.
    """
    low = max(0, await _top(reader) - SAMPLE + 1)
    rows, ((among,),) = await reader.fetch(
        q("search.frequencies", words=as_json(sorted(words)), low=low), q("search.counted_from", low=low)
    )
    standing = dict(map(tuple, rows))
    return Frequencies({word: standing.get(word, 0) for word in words}, among)


async def holding(reader: Reader, words: Collection[str], *, most: int) -> list[Worded]:
    """Return the `most` newest nodes that hold any of `words`, newest first, each with its words counted.

    Ask for the rarest few words of a text, not for all: of a common one this
    gives only the newest nodes.
    """
    if not words:
        return []
    (docs,) = await found(reader, [any_word(sorted(words))], most=most)
    (rows,) = await reader.fetch(q("search.counts_of", docs=as_json(docs)))
    return [Worded(NodeId(node), _counts(counts)) for node, counts in rows]


async def _top(reader: Reader) -> int:
    ((top,),) = (await reader.fetch(q("search.top")))[0]
    return int(top)


def _newest(condition: str, stretch: Stretch, *, most: int) -> Statement:
    return q("search.newest", condition=condition, within=stretch.tokens, low=stretch.low, high=stretch.high, most=most)


def _row(i: int, authored: Authored) -> dict[str, object]:
    found = entry(authored)
    return {"i": i, "node": authored.id, "words": found.tokens, "counts": as_json(found.counts)}


def _counts(text: str) -> dict[str, int]:
    return msgspec.json.decode(text, type=dict[str, int])
