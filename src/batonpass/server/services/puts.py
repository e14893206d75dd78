"""The entries of a batch, each carried out or refused on its own (companion 1.7, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from batonpass.core import edges as edge_law
from batonpass.core.edges import Edge
from batonpass.core.errors import BatonError, Conflict, Forbidden, Invalid, InvalidNode, NotFound
from batonpass.core.ids import NodeId, Resource
from batonpass.core.nodes import Authored, Node
from batonpass.server.services.editor import Deed, Editor, Step
from batonpass.store.base import Retry
from batonpass.wire import nodes as wire
from batonpass.wire.markdown import Flipped


async def result_of(editor: Editor, entry: wire.Entry) -> wire.PutResult:
    """Carry out one entry of a batch, or say why not; what the database itself cannot do fails the batch."""
    if isinstance(entry, wire.Unreadable):
        return _refusal(entry.error, entry.id, None, entry.warnings)
    authored = entry.reading.authored
    try:
        return await _put(editor, entry)
    except (Conflict, Forbidden, Invalid, NotFound) as error:
        stored = editor.nodes.get(authored.id)
        return _refusal(error, authored.id, stored, entry.warnings)


def puts_edges(puts: Iterable[wire.Put]) -> list[tuple[NodeId, Edge]]:
    """Return every edge that the entries name, by the node it leads from."""
    flipped = [(flip.src, flip.edge) for put in puts for flip in put.reading.flipped]
    return [*flipped, *((put.node, edge) for put in puts for edge in put.reading.authored.edges)]


def require_foreseen(editor: Editor, updated: frozenset[NodeId], onto: frozenset[Resource]) -> None:
    """Raise `Retry` if a run's batch may take away an edge that came after it was looked for, onto who knows what."""
    if editor.change.caller.principal.run is None:
        return
    for node in updated & editor.nodes.keys():
        if not onto.issuperset(edge.to for edge in editor.nodes[node].authored.edges):
            raise Retry(f"{node} changed while it was looked at; nothing was changed")


async def _put(editor: Editor, put: wire.Put) -> wire.PutResult:
    authored, stored = put.reading.authored, editor.nodes.get(put.reading.authored.id)
    flips = _flip_steps(editor, put.reading.flipped)
    unchanged = stored is not None and stored.authored == authored and (not put.kept or put.kept.shows_in(stored))
    if stored is not None and (put.if_exists == "skip" or (unchanged and not flips)):
        return _put_result("skipped", stored, put.warnings)
    editor.require_unused(authored.id)
    _require_expected(put, stored)
    steps = [*([] if unchanged else [Step(stored, authored)]), *flips]
    if put.kept is not None and (findings := list(put.kept.findings(editor.change.now))):
        raise InvalidNode(findings[0], details=findings, field=findings[0].partition(":")[0])
    closed = await editor.check(steps)
    outcome: wire.Outcome = "updated" if stored is not None else "created"
    for step in steps:
        if step.after is authored:
            stored = await editor.carry_out(
                step, Deed("put", "node.put", {"status": outcome}, authors=True, kept=put.kept)
            )
        else:
            added = [{"type": edge.type, "to": edge.to} for edge in step.added]
            await editor.carry_out(step, Deed("edge_added", "node.edge_added", {"edges": added}))
    assert stored is not None, put
    return _put_result(outcome, stored, (*put.warnings, *closed))


def _require_expected(put: wire.Put, stored: Node | None) -> None:
    """Raise unless the node is there, or not there, as the entry expects (D12)."""
    node = put.reading.authored.id
    if stored is None:
        if put.revision is not None:
            raise NotFound(f"there is no node {node}, so none at revision {put.revision[:40]}")
        return
    if put.if_exists == "error":
        raise Conflict(f"{node} exists already, at revision {stored.revision}; update it, or choose another id")
    if put.revision is None:
        raise Invalid("revision: an update names the revision it was made from", field="revision")
    if put.revision != stored.revision:
        raise Conflict(f"{node} is at revision {stored.revision}, not {put.revision[:40]}; read it and try again")


def _flip_steps(editor: Editor, flipped: Iterable[Flipped]) -> list[Step]:
    """Return what the entry's inverse edges do to the nodes they belong on, which must exist."""
    after: dict[NodeId, Authored] = {}
    for flip in flipped:
        if flip.src not in editor.nodes:
            raise InvalidNode(f"edges: {flip.edge.type} belongs on {flip.src}, which does not exist", field="edges")
        authored = after.get(flip.src) or editor.nodes[flip.src].authored
        kept = [edge for edge in authored.edges if edge.key != flip.edge.key]
        after[flip.src] = replace(authored, edges=edge_law.in_order([*kept, flip.edge]))
    return [
        Step(editor.nodes[node], authored)
        for node, authored in after.items()
        if authored != editor.nodes[node].authored
    ]


def _put_result(outcome: wire.Outcome, node: Node, warnings: Sequence[str]) -> wire.PutResult:
    return wire.PutResult(ok=True, status=outcome, id=node.id, revision=node.revision, warnings=list(warnings))


def _refusal(error: BatonError, node: str | None, stored: Node | None, warnings: Sequence[str]) -> wire.PutResult:
    return wire.PutResult(
        ok=False,
        status="error",
        id=node,
        revision=stored.revision if stored is not None else None,
        warnings=list(warnings),
        code=error.code,
        message=error.message,
        details=list(error.details) or None,
    )
