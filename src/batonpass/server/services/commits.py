"""Which nodes carry a commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.store import commits
from batonpass.store.base import Store
from batonpass.store.commits import Carrier

PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class CarrierPage:
    """Nodes in order of id, and where the next page begins."""

    nodes: tuple[Carrier, ...]
    next: str | None


class Commits:
    """The look-up of a commit, one call of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def nodes_with(self, sha: str, *, repo: str | None, after: str, limit: int) -> CarrierPage:
        """Return a page of the nodes that carry `sha`, of one repository or any."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            found = await commits.nodes_with(tx, sha, repo=repo, after=after, most=most + 1)
        page = tuple(found[:most])
        return CarrierPage(page, page[-1].id if len(found) > most else None)
