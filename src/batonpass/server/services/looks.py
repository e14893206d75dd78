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

from batonpass.store.base import retrieved

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Looks(Generic[K, V]):
    """Reads for all who ask while the read before is under way. A key that finds nothing is not in the answer.

    When a read fails, it fails for all who share it.
    """

    def __init__(self, read: Callable[[frozenset[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._asked: set[K] | None = None
        """What is asked of the next look; None as long as nobody needs one."""
        self._look: asyncio.Task[Mapping[K, V]] | None = None

    async def at(self, keys: Collection[K]) -> Mapping[K, V]:
        """Return what a read finds of `keys`, and perhaps of others', that begins after this was called."""
        if self._asked is None or self._look is None:
            # A task begins in the next turn of the loop: whoever was woken in the same one comes along.
            self._asked = set()
            self._look = asyncio.create_task(self._next(self._asked, after=self._look), name="look for those who wait")
            self._look.add_done_callback(retrieved)
        self._asked.update(keys)
        # Shielded: one caller that hangs up must not fail the others.
        return await asyncio.shield(self._look)

    async def _next(self, asked: set[K], *, after: asyncio.Task[Mapping[K, V]] | None) -> Mapping[K, V]:
        if after is not None:
            await asyncio.wait([after])
        self._asked = None
        return await self._read(frozenset(asked))
