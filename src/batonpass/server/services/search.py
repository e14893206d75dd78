"""Searching the graph by words, and reading into the index what an upgrade has left unread (D39, D42)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core import search as law
from batonpass.core.nodes import Node
from batonpass.core.search import FOUND_MAX, Question
from batonpass.store import ranking, search
from batonpass.store.base import SYSTEM, Fences, Reader, Store, retried
from batonpass.store.nodes import nodes_of

READ_AT_ONCE: Final = 25
"""How many nodes are read into the index in one transaction: on SQLite others wait for it."""
READ_BY_A_SEARCH_MAX: Final = 500
"""How many nodes a search reads into the index before it answers, if they are missing there: a second's work."""
MERGED_AT_ONCE: Final = 256
"""How many pages of the index, of 4 KB, are merged in one transaction: on SQLite others wait for it."""
MERGES_MAX: Final = 256
"""How many such transactions one call makes: the index of some hundred thousand nodes, and about ten seconds."""
BEGUN_ENOUGH: Final = 100
"""So many of the newest nodes with a word that is only begun are enough: as many as a page has at most."""
UNREAD_COUNTED_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Found:
    """A node that a query found: in which of its texts, and what stands around the place."""

    node: Node
    matched: tuple[str, ...]
    snippet: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of what was found.

    `count` is how many were, at most `FOUND_MAX`; `more` says that the list
    goes on behind this page. `unread` nodes are not in the index yet. `cut`
    says that of those with a word that is only begun the older are left out.
    """

    items: tuple[Found, ...]
    count: int
    more: bool
    unread: int = 0
    cut: bool = False


class Search:
    """The search of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, asked: Question, *, project: str | None = None, limit: int, offset: int) -> Page:
        """Return what `asked` finds from `offset` on, in all that goes by the name of `project` as in the queue.

        With nothing to look for it is nothing.
        """
        if asked.is_empty:
            return Page((), 0, more=False)
        page = await self._page(asked, project, limit=limit, offset=offset)
        if not page.unread:
            return page
        # Without a server that runs on, as in local mode, the first searches after an upgrade have to do it.
        await catch_up(self._store, most=READ_BY_A_SEARCH_MAX)
        return await self._page(asked, project, limit=limit, offset=offset)

    async def _page(self, asked: Question, project: str | None, *, limit: int, offset: int) -> Page:
        async with self._store.read_aside() as tx:
            if project is not None:
                asked = replace(asked, projects=await ranking.scope(tx, project))
                if not asked.projects:
                    return Page((), 0, more=False)
            unread = await search.unread(tx, most=UNREAD_COUNTED_MAX)
            order, cut = await _order(tx, asked)
            shown = await search.named(tx, order[offset : offset + limit])
            nodes = await nodes_of(tx, shown)
        items = tuple(_found(asked, nodes[node]) for node in shown if node in nodes)
        return Page(items, min(len(order), FOUND_MAX), more=offset + limit < len(order), unread=unread, cut=cut)


async def catch_up(store: Store, *, most: int | None = None) -> None:
    """Read nodes into the index that nobody has read yet, at most `most` or all, a few in each transaction."""
    read = 0
    while (most is None or read < most) and (some := await _read_some(store)):
        read += some


async def forget_for_good(store: Store) -> bool:
    """Take out of a SQLite file what rows and the index of words have dropped; return whether all of it is gone.

    Others write between the steps. It is not all gone when the index is very
    large or somebody still reads an older state: then calling again goes on.
    """
    left = await _merge(store, pages=-MERGED_AT_ONCE)
    for _ in range(MERGES_MAX):
        if not left:
            break
        left = await _merge(store, pages=MERGED_AT_ONCE)
    emptied = await store.empty_log()
    return emptied and not left


@retried
async def _merge(store: Store, *, pages: int) -> bool:
    async with store.write(SYSTEM, Fences()) as tx:
        return await search.merge(tx, pages=pages)


@retried
async def _read_some(store: Store) -> int:
    async with store.write(SYSTEM, Fences()) as tx:
        return await search.read_some(tx, most=READ_AT_ONCE)


async def _order(tx: Reader, asked: Question) -> tuple[Sequence[int], bool]:
    """Return the numbers of what is found, the best first, one more than is counted if there are more.

    And whether of those with a word that is only begun the older ones are left
    out: it is looked for last, and not at all when there is enough without it.
    """
    most, cut = FOUND_MAX + 1, False
    *exact, begun = law.tiers(asked)
    order = dict.fromkeys(await _named(tx, asked))
    if len(order) < most:
        for docs in await search.found(tx, exact, most=most):
            order |= dict.fromkeys(docs)
    if len(order) < most and asked.wanted.last is not None:
        docs, cut = await _begun(tx, asked, begun, most=most)
        order |= dict.fromkeys(docs)
    return list(order)[:most], cut


async def _begun(tx: Reader, asked: Question, condition: str, *, most: int) -> tuple[list[int], bool]:
    """Return what has the last word if that is only begun, and whether there may be older ones.

    An index of words reads all that a beginning completes to, which may be
    half the graph. So the newest nodes that have its first letters are looked
    through before: the index is asked only if they have it rarely.
    """
    if (nearby := law.nearby(asked)) is not None:
        docs, are_all = await search.begun(tx, nearby)
        if are_all or len(docs) >= BEGUN_ENOUGH:
            return docs, not are_all
    (docs,) = await search.found(tx, [condition], most=most)
    return docs, False


async def _named(tx: Reader, asked: Question) -> list[int]:
    if asked.id is None:
        return []
    return await search.by_id(tx, asked.id, projects=asked.projects, types=asked.types)


def _found(asked: Question, node: Node) -> Found:
    texts = law.texts(node.authored)
    return Found(node, law.matched(asked, texts), law.snippet(asked, texts))
