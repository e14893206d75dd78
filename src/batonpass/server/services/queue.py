"""The queue: pages for people and pollers, and `next`, which chooses and claims in one transaction (D13 to D16)."""

from __future__ import annotations

from batonpass.core.feed import QueueScope
from batonpass.core.identity import Principal
from batonpass.core.ids import NodeId
from batonpass.core.why import Explanation
from batonpass.server.services.change import Caller, require_writer
from batonpass.server.services.choosing import Choice, Wish
from batonpass.server.services.cuts import Cuts
from batonpass.server.services.paging import Page, View, read_page
from batonpass.server.services.taking import Taking
from batonpass.server.services.why import read_why
from batonpass.store import ranking
from batonpass.store.base import Store


class Queue:
    """The queue of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.taking = Taking(store)
        self._cuts = Cuts()

    async def page(self, viewer: Principal, asked: View) -> Page:
        """Return a page as `viewer` sees it, with what it hides counted."""
        snapshot = self._store.read_long() if asked.count_all else self._store.read()
        async with snapshot as tx:
            return await read_page(tx, viewer, asked, self._cuts)

    async def scope(self, project: str | None) -> QueueScope:
        """Return which events and moments may change what is in `project`, its siblings among it (companion 3.1).

        As they are grouped now. Who is grouped anew is heard of; what happens there later, by those who ask later.
        """
        if project is None:
            return QueueScope()
        async with self._store.glance() as tx:
            return QueueScope(frozenset(await ranking.scope(tx, project)))

    async def why(self, asker: Principal, node: NodeId) -> Explanation:
        """Return why a node is or isn't taken, as `asker` sees it."""
        async with self._store.read() as tx:
            return await read_why(tx, asker, node)

    async def next(self, caller: Caller, wish: Wish) -> Choice:
        """Choose the best item the caller may take and claim it, if there is one.

        The same live `dispatch` gets the same claim again, so a lost answer is
        asked for once more and costs nothing; the grant's horizon is a minute
        until its first renewal. `Paused` when nothing but a pause is in the way.
        """
        require_writer(caller.principal)
        return await self.taking.take(caller, wish)
