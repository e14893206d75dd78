"""Corrections: filed under a number of their target's, and listed while they stand (companion 5.1, 5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.core import corrections as law
from batonpass.core import filing as naming
from batonpass.core.corrections import Target
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored, Node
from batonpass.server.services import filing
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.store import corrections
from batonpass.store.base import Store, retried
from batonpass.wire import corrections as wire

PAGE_MAX: Final = 500
WAY_OUT: Final = "; file the rest as a node of its own, and name it"


@dataclass(frozen=True, slots=True)
class CorrectionPage:
    """Corrections that stand, in order of id, and where the next page begins."""

    nodes: tuple[Node, ...]
    next: NodeId | None


class Corrections:
    """The corrections of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def file(
        self, caller: Caller, target: Target, text: str, *, title: str | None
    ) -> wire.CorrectionReply | Replayed:
        """File a correction of `target` under its next number; `NotFound` when that is a node and isn't there."""
        text = filing.require_text(text, way_out=WAY_OUT)
        summary = naming.summary_of(text)
        # What it is about is named and not led to: nothing is written onto it.
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            node = await filing.free_id(made.tx, target.stem, target.ids)
            known = [target.node] if target.node is not None else []
            editor = await filing.opened(made, {node}, known)
            filing.require_known(editor, known, field="target")
            correction = Authored(
                id=node,
                type="correction",
                title=title or naming.title_of(text),
                summary=summary,
                status=law.ACTIVE,
                date=filing.today(made),
                project=editor.nodes[target.node].authored.project if target.node is not None else target.project,
                extra={"target": target.text},
                body=naming.body_of(text, summary),
            )
            (stored,) = await filing.file(editor, [correction])
            await editor.finish()
            return made.answer(wire.CorrectionReply("created", node, stored.revision, list(caller.warnings)))

    async def standing(self, target: Target | None, *, after: str, limit: int) -> CorrectionPage:
        """Return a page of the corrections that stand: those of `target`, or all."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            found = await corrections.standing(tx, target, after=after, most=most + 1)
        page = tuple(found[:most])
        return CorrectionPage(page, page[-1].id if len(found) > most else None)
