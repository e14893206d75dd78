"""Nodes by their words: what a search and a comparison of texts read. What a word is, is `core.words`' to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from batonpass.core.ids import NodeId
from batonpass.core.words import counts
from batonpass.store.base import Reader, q

SAMPLE: Final = 1024
"""Among how many of the newest nodes words are counted: enough to tell a rare word from a common one."""


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


async def frequencies(reader: Reader, words: Collection[str]) -> Frequencies:
    """Return in how many nodes each of `words` stands, counted among the `SAMPLE` newest; every word has its entry."""
    newest = await _newest(reader)
    standing = Counter(word for node in newest for word in node.counts)
    return Frequencies({word: standing[word] for word in words}, len(newest))


async def holding(reader: Reader, words: Collection[str], *, most: int) -> list[Worded]:
    """Return the `most` newest nodes that hold any of `words`, newest first, each with its words counted.

    Ask for the rarest few words of a text, not for all: of a common one this
    gives only the newest nodes.
    """
    return [node for node in await _newest(reader) if not node.counts.keys().isdisjoint(words)][:most]


async def _newest(reader: Reader) -> list[Worded]:
    (rows,) = await reader.fetch(q("search.texts", most=SAMPLE))
    return [Worded(NodeId(node), counts(f"{title}\n{summary}\n{body}")) for node, title, summary, body in rows]
