"""What many ask for at the same moment, looked up once for all of them.

Hundreds who wait hear of the same commit in the same instant, and each must
know how things stand *after* it. A look that began before somebody asked may
be too old for them; whoever asks while one is under way shares the next.

    fields = Looks(read)                     # read: the keys asked for, to what is found of each
    found = await fields.at({key})           # as it was committed when this was called, or later
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Looks(Generic[K, V]):
    """Reads for all who ask while the read before is under way. A key that finds nothing is not in the answer."""

    def __init__(self, read: Callable[[frozenset[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._turn = asyncio.Lock()
        self._asked: set[K] = set()
        self._looked_at: frozenset[K] = frozenset()
        self._found: Mapping[K, V] = {}
        self._begun = 0

    async def at(self, keys: Collection[K]) -> Mapping[K, V]:
        """Return what a look finds of `keys`, and perhaps of others', that began after this was called."""
        begun = self._begun
        self._asked.update(keys)
        async with self._turn:  # in the order in which they asked, so nobody's answer is replaced before it is taken
            if self._begun == begun or not self._looked_at.issuperset(keys):
                await self._look(keys)
            return self._found

    async def _look(self, keys: Collection[K]) -> None:
        self._begun += 1
        wanted, self._asked = self._asked.union(keys), set()
        self._looked_at = frozenset()  # should it fail, those who share it look for themselves
        self._found = await self._read(frozenset(wanted))
        self._looked_at = frozenset(wanted)
