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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.search import any_word, entry
from batonpass.store.base import Reader, Statement, Tx, as_json, q
from batonpass.store.nodes import nodes_of

SAMPLE: Final = 512
"""Among how many of the newest nodes words are counted: enough to tell a rare word from a common one."""
STRETCH_BITS: Final = (10, 13, 16, 19, 22)
"""Stretches are of 2 to the power of these; the index has a token for each. Growing eightfold, few are ever read."""
IDS_LOOKED_AT_MAX: Final = 100
"""How many ids with one beginning are looked at: a page of them. All of them are found by their words as well."""


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
    """The numbers from `low` up to `high`, within whole stretches of 2 to the power of `bits`."""

    low: int
    high: int
    bits: int

    @property
    def tokens(self) -> str:
        """The condition that a node lies in one of those whole stretches."""
        whole = range(self.low >> self.bits, ((self.high - 1) >> self.bits) + 1)
        return " | ".join(f"'s{self.bits}.{at}'" for at in whole)


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
    docs: list[list[int]] = [[] for _ in conditions]
    for stretch in stretches(await _top(reader)):
        open_ones = [at for at, found in enumerate(docs) if len(found) < most]
        if not open_ones:
            break
        asked = [_newest(conditions[at], stretch, most=most - len(docs[at])) for at in open_ones]
        for at, rows in zip(open_ones, await reader.fetch(*asked), strict=True):
            docs[at] += [row[0] for row in rows]
    return docs


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


def stretches(top: int) -> Iterator[Stretch]:
    """Yield stretches from the number `top` down to the first, each behind the one before and longer."""
    high = top + 1
    for bits in (*STRETCH_BITS, *[STRETCH_BITS[-1]] * (high >> STRETCH_BITS[-1])):
        low = max(0, ((high - 1 >> bits) - 1) << bits)
        yield Stretch(low, high, bits)
        if low == 0:
            return
        high = low


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
