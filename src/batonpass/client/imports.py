"""Nodes from files into a graph: read, put in an order in which they can be written, sent in batches, and told about.

Everything is read before anything is sent, since a node may need another that
comes later, and edges that are given by their inverse belong on the other
node: where that is among those that are imported, it gets them before it is
sent. So an import that is repeated says the same of every node, and what is
there already is unchanged; one that was cut off is begun again, and goes on.

What is refused is told with its file, and stops nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from batonpass.client import node_calls
from batonpass.client.client import Client
from batonpass.client.sources import PassedOver, Refused, Source, Text, sources
from batonpass.core import edges as edge_law
from batonpass.core.edges import EDGE_TYPES
from batonpass.core.errors import BatonError, InvalidNode, NotFound
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.order import in_order
from batonpass.wire import markdown
from batonpass.wire.markdown import Flipped, Reading
from batonpass.wire.nodes import NODES_MAX, IfExists, PutResult

BATCH_BYTES_MAX: Final = 900_000
"""How large a request gets: below the limit of a body, with room for what is around the nodes."""
_NOT_YET: Final = frozenset({"transition_denied", "invalid_node", "not_found"})
"""Why an entry may be refused that another one, refused with it, would have made possible."""

Outcome = Literal["created", "updated", "unchanged", "kept", "refused", "passed over", "would be created",
                  "would be unchanged", "differs"]  # fmt: skip
"""What becomes of a file. A node is `kept` that is there already and differs, when that is what was asked for."""
FAILED: Final[frozenset[Outcome]] = frozenset({"refused"})


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one file: `reasons` say why it was not written, `warnings` what was changed on the way."""

    file: str
    outcome: Outcome
    id: str | None = None
    revision: str | None = None
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """How an import goes about what it finds."""

    if_exists: IfExists = "error"
    keep_attribution: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Item:
    """A readable file on its way."""

    file: str
    authored: Authored
    warnings: tuple[str, ...] = ()
    flipped: tuple[Flipped, ...] = ()
    stamped: Mapping[str, object] = field(default_factory=dict)


def imported(client: Client, paths: Sequence[Path], wish: Wish) -> Iterator[Told]:
    """Import everything under `paths`, telling of each file as soon as it is decided; see the module's page.

    Raises what ends the whole of it: no server, no right, a path that is not
    there. What was told until then stands.
    """
    items: list[_Item] = []
    for source in sources(list(paths)):
        match _read(source):
            case Told() as told:
                yield told
            case item:
                items.append(item)
    once = yield from _each_once(items)
    ready = _in_order(_with_inverse_edges(once))
    yield from _compared(client, ready) if wish.dry_run else _sent(client, ready, wish)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(source: Source) -> Told | _Item:
    match source:
        case Refused(name, why):
            return Told(name, "refused", reasons=(why,))
        case PassedOver(name, why):
            return Told(name, "passed over", reasons=(why,))
        case Text():
            pass
    try:
        reading = _reading(source)
    except BatonError as error:
        return Told(source.name, "refused", reasons=error.details or (error.message,))
    warnings = (*reading.warnings, *_misnamed(source.name, reading.authored.id))
    return _Item(source.name, reading.authored, warnings, reading.flipped, reading.stamped)


def _reading(source: Text) -> Reading:
    if not source.is_json:
        return markdown.read(source.text)
    try:
        return markdown.read_json(msgspec.json.decode(source.text, type=dict[str, object]))
    except msgspec.MsgspecError as error:
        raise InvalidNode(f"not a JSON object: {error}") from error


def _misnamed(file: str, node: NodeId) -> tuple[str, ...]:
    stem = PurePosixPath(file).stem
    return () if stem == node else (f"id: {node} is not what the file is called",)


def _each_once(items: Iterable[_Item]) -> Generator[Told, None, list[_Item]]:
    """Yield a refusal for each file whose id another has taken; return the others."""
    first: dict[NodeId, _Item] = {}
    for item in items:
        known = first.setdefault(item.authored.id, item)
        if known is not item:
            same = known.authored == item.authored
            why = f"{item.authored.id} is in {known.file} too" + ("" if same else ", and not the same")
            yield Told(item.file, "passed over" if same else "refused", item.authored.id, reasons=(why,))
    return list(first.values())


def _with_inverse_edges(items: Sequence[_Item]) -> list[_Item]:
    """Return `items` with the edges given by their inverse on the nodes they lead from, where those are among them."""
    found = {item.authored.id: item for item in items}
    for item in items:
        elsewhere = []
        for flip in item.flipped:
            if (other := found.get(flip.src)) is None:
                elsewhere.append(flip)
            else:
                found[flip.src] = replace(other, authored=_with_edge(other.authored, flip))
        found[item.authored.id] = replace(found[item.authored.id], flipped=tuple(elsewhere))
    return list(found.values())


def _with_edge(authored: Authored, flip: Flipped) -> Authored:
    """Return a node with one more edge, unless it says the same edge in its own way."""
    if any(edge.key == flip.edge.key for edge in authored.edges):
        return authored
    return replace(authored, edges=edge_law.in_order([*authored.edges, flip.edge]))


def _in_order(items: Sequence[_Item]) -> list[_Item]:
    by_id = {item.authored.id: item for item in items}
    return [by_id[authored.id] for authored in in_order([item.authored for item in items])]


# --- sending ---------------------------------------------------------------------------------------------------------


def _sent(client: Client, items: Iterable[_Item], wish: Wish) -> Iterator[Told]:
    for batch in _batches(items, wish):
        results = _put(client, batch, wish, {})
        if wish.if_exists == "update" and (stale := _to_update(results)):
            refused = [place for place, result in enumerate(results) if _may_go_better(result, stale)]
            again = _put(client, [batch[place] for place in refused], wish, stale)
            for place, result in zip(refused, again, strict=True):
                results[place] = result
        yield from (_told(item, result) for item, result in zip(batch, results, strict=True))


def _put(client: Client, batch: Sequence[_Item], wish: Wish, revisions: Mapping[str, str]) -> list[PutResult]:
    """Send one batch and return its results; those in `revisions` replace the revision named there."""
    entries = []
    for item in batch:
        entry: dict[str, object] = {"node": _fields(item, wish)}
        if (revision := revisions.get(item.authored.id)) is not None:
            entry |= {"if_exists": "update", "revision": revision}
        entries.append(entry)
    reply = client.send(
        node_calls.put_nodes(
            entries,
            if_exists="skip" if wish.if_exists == "skip" else "error",
            cycles="warn",
            keep_attribution=wish.keep_attribution,
        )
    )
    return list(reply.results)


def _to_update(results: Iterable[PutResult]) -> dict[str, str]:
    """Return the revision of each node that is there and differs."""
    return {
        result.id: result.revision
        for result in results
        if result.code == "conflict" and result.id is not None and result.revision is not None
    }


def _may_go_better(result: PutResult, stale: Mapping[str, str]) -> bool:
    return not result.ok and (result.id in stale or result.code in _NOT_YET)


def _batches(items: Iterable[_Item], wish: Wish) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    size = 0
    for item in items:
        length = len(msgspec.json.encode(_fields(item, wish)))
        if batch and (len(batch) == NODES_MAX or size + length > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def _fields(item: _Item, wish: Wish) -> dict[str, object]:
    """Return a node as it is sent: JSON, with what is written on other nodes by their inverse names."""
    fields = markdown.fields(item.authored)
    if item.flipped:
        own = fields.get("edges")
        assert own is None or isinstance(own, list), own
        fields["edges"] = [*(own or ()), *(_inverse(flip) for flip in item.flipped)]
    return {**fields, **item.stamped} if wish.keep_attribution else fields


def _inverse(flip: Flipped) -> dict[str, str]:
    label = EDGE_TYPES[flip.edge.type].inverse
    assert label is not None, flip
    return {"type": label, "to": flip.src, **flip.edge.attrs}


def _told(item: _Item, result: PutResult) -> Told:
    warnings = tuple(dict.fromkeys((*item.warnings, *result.warnings)))
    told = Told(item.file, "refused", item.authored.id, result.revision, warnings=warnings)
    match result.status:
        case "created" | "updated" as done:
            return replace(told, outcome=done)
        case "skipped":
            same = result.revision == markdown.revision(item.authored)
            why = () if same else (f"it is there already, at revision {result.revision}",)
            return replace(told, outcome="unchanged" if same else "kept", reasons=why)
        case "error":
            message = result.message or "refused without a word"
            return replace(told, reasons=tuple(result.details or ()) or (message,))


# --- looking only ----------------------------------------------------------------------------------------------------


def _compared(client: Client, items: Iterable[_Item]) -> Iterator[Told]:
    """Say of each node what is there in its place; nothing is sent, so what the graph would refuse is not known."""
    for item in items:
        try:
            revision = client.node(item.authored.id).revision
        except NotFound:
            revision = None
        told = Told(item.file, "differs", item.authored.id, revision, warnings=item.warnings)
        if revision is None:
            yield replace(told, outcome="would be created")
        elif revision == markdown.revision(item.authored):
            yield replace(told, outcome="would be unchanged")
        else:
            yield replace(told, reasons=(f"it is there already, at revision {revision}",))
