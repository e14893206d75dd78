"""Filing a new node within a change: an id that nobody has, what it leads to, and what its writer is at work on.

Questions, answers, corrections and captures are all filed here. Who files does
not choose the id, so two that file the same at once get one each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Final

from batonpass.core.clock import moment
from batonpass.core.edges import Edge
from batonpass.core.errors import Invalid, NotFound
from batonpass.core.identity import Principal
from batonpass.core.ids import NodeId, Resource
from batonpass.core.nodes import BODY_BYTES_MAX, Authored, Node
from batonpass.core.records import is_of_record
from batonpass.server.services.change import Change
from batonpass.server.services.editor import Deed, Editor, Step
from batonpass.store import filing
from batonpass.store.base import Retry, Tx

FIRST_LOOK: Final = 8
"""How many ids of a stem are looked up at first; each further look takes twice as many."""
CREATED: Final = Deed("put", "node.put", {"status": "created"}, authors=True)


async def free_id(tx: Tx, stem: str, ids: Iterator[NodeId]) -> NodeId:
    """Return the first of the endless `ids` that is no node's and never was; see `free_ids`."""
    (free,) = await free_ids(tx, stem, ((node,) for node in ids))
    return free


async def free_ids(tx: Tx, stem: str, sets: Iterator[tuple[NodeId, ...]]) -> tuple[NodeId, ...]:
    """Return the first of the endless `sets` of ids in which none is a node's or ever was.

    Nobody else files under `stem` before COMMIT. Somebody may still put a node
    of such an id by hand; `opened` notices.
    """
    filing.lock_stem(tx, stem)
    for look in count():
        wanted = list(islice(sets, FIRST_LOOK << look))
        taken = await filing.taken(tx, (node for ids in wanted for node in ids))
        free = next((ids for ids in wanted if taken.isdisjoint(ids)), None)
        if free is not None:
            return free
    raise AssertionError("unreachable: there is no end of numbers")


async def opened(
    change: Change, new: Collection[NodeId], known: Iterable[NodeId], edges: Sequence[tuple[NodeId, Edge]] = ()
) -> Editor:
    """Lock the ids `new` and the nodes `known`, and return their editor; `Retry` when somebody else made one of `new`.

    `edges` are those that are written on nodes of `known`, as for `Editor.over`.
    """
    editor = await Editor.over(change, {*new, *known}, new=frozenset(new), edges=edges)
    if lost := editor.nodes.keys() & set(new):
        raise Retry(f"{min(lost)} was made by somebody else at this moment; nothing was changed")
    return editor


async def file(editor: Editor, nodes: Sequence[Authored]) -> list[Node]:
    """Check new nodes by the law, then write them with history and events; the caller finishes the editor."""
    steps = [Step(None, authored) for authored in nodes]
    await editor.check(steps)
    return [await editor.carry_out(step, CREATED) for step in steps]


async def at_work(change: Change) -> NodeId | None:
    """Return the node that the caller is at work on: its run's, else the one it holds for its token's session."""
    by = change.caller.principal
    if by.run is not None:
        return None if is_of_record(by.run.resource) else NodeId(by.run.resource)
    if by.session is None:
        return None
    return await filing.at_work(change.tx, by.id, session=by.session, now=change.now)


def onto(principal: Principal, targets: Iterable[NodeId]) -> frozenset[Resource]:
    """Return what filing is a write onto: under a run token what the new node leads to, as for any edge (D2b)."""
    return frozenset(map(Resource, targets)) if principal.run is not None else frozenset()


def today(change: Change) -> str:
    """Return the day on the database's clock, which is the date of what is filed."""
    return moment(change.now).date().isoformat()


def require_known(editor: Editor, ids: Iterable[NodeId], *, field: str) -> None:
    """Raise `NotFound` naming every one of `ids` that there is no node of."""
    missing = [node for node in dict.fromkeys(ids) if node not in editor.nodes]
    if missing:
        raise NotFound(f"{field}: there is no node {', '.join(missing)}", details=missing, field=field)


def require_text(text: str, *, bytes_max: int | None = BODY_BYTES_MAX, way_out: str = "") -> str:
    """Return `text` if there is any, and not more of it than a body holds; `Invalid` otherwise."""
    if not text.strip():
        raise Invalid("text: required", field="text")
    size = len(text.encode())
    if bytes_max is not None and size > bytes_max:
        raise Invalid(f"text: {size} bytes; the limit is {bytes_max} bytes{way_out}", field="text")
    return text
