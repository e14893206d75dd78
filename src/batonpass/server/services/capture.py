"""Capturing a text: it is kept whole, whatever it is, in one transaction (D16a)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

from batonpass.core import capture as law
from batonpass.core import filing as naming
from batonpass.core.capture import Capture
from batonpass.core.ids import NodeId
from batonpass.server.services import filing
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.server.services.editor import Editor
from batonpass.store.base import Store, retried
from batonpass.wire import capture as wire
from batonpass.wire.text import unix_newlines


@dataclass(frozen=True, slots=True)
class Wish:
    """A capture as it came in, its ids parsed."""

    text: str
    title: str | None = None
    project: str | None = None
    during: NodeId | None = None
    blocks: tuple[NodeId, ...] = ()
    date: str | None = None


class Captures:
    """The captures of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def keep(self, caller: Caller, wish: Wish) -> wire.CaptureReply | Replayed:
        """Keep a text in as many nodes as it takes; where it was found is what the caller says or is at work on."""
        text = filing.require_text(unix_newlines(wish.text), bytes_max=None)
        parts = list(naming.parts(text))
        given = [*wish.blocks, *([wish.during] if wish.during is not None else [])]
        async with change(self._store, caller, onto=filing.onto(caller.principal, given)) as made:
            if made.replayed is not None:
                return made.replayed
            during = wish.during or await filing.at_work(made)
            capture = Capture(
                text, wish.date or filing.today(made), title=wish.title, project=wish.project, blocks=wish.blocks
            )
            sets = (law.ids(capture.stem, n, len(parts)) for n in count(1))
            named = await filing.free_ids(made.tx, capture.stem, sets)
            editor = await filing.opened(made, named, {*wish.blocks, *_some(during)})
            filing.require_known(editor, wish.blocks, field="blocks")
            filing.require_known(editor, _some(wish.during), field="during")
            await filing.file(editor, law.nodes(_found(capture, editor, during), parts, named))
            await editor.finish()
            return made.answer(wire.CaptureReply("created", list(named), list(caller.warnings)))


def _found(capture: Capture, editor: Editor, during: NodeId | None) -> Capture:
    """Return `capture` with where it was found, whose project it has where it was given none."""
    node = editor.nodes.get(during) if during is not None else None
    if node is None:
        return capture
    return replace(capture, during=node.id, project=capture.project or node.authored.project)


def _some(node: NodeId | None) -> Iterable[NodeId]:
    return () if node is None else (node,)
