"""Node bodies and replies: the batch door, a node read whole, its edges, the one-scalar verbs (companion 1.7 to 4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import msgspec

from batonpass.core.clock import iso
from batonpass.core.edges import Edge
from batonpass.core.errors import BadRequest, BatonError, Invalid
from batonpass.core.ids import Fence, NodeId, Resource, json_type, parse_resource
from batonpass.core.kept import Kept
from batonpass.core.leases import LeaseView
from batonpass.core.nodes import HOLD_ENDS, Node
from batonpass.core.resolution import Resolution
from batonpass.wire.kept import kept
from batonpass.wire.leases import LeaseBody, lease_body
from batonpass.wire.markdown import Claim, Reading, front_matter, raw, read, read_json
from batonpass.wire.schemas import Entry as Given
from batonpass.wire.schemas import Epoch, Label, Premise, Slug

NODES_MAX: Final = 100
"""How many entries one batch takes."""
_ID_LINE: Final = re.compile(r"^id:[ \t]*[\"']?([a-z0-9][a-z0-9-]{0,199})[\"']?[ \t\r]*$", re.MULTILINE | re.ASCII)
_ID_CHARS: Final = 2000

IfExists = Literal["error", "skip", "update"]
Cycles = Literal["refuse", "warn"]
Outcome = Literal["created", "updated", "skipped", "error"]
Missing = Literal["deleted", "unwritten"]
"""Why an edge leads to no node."""


# --- requests --------------------------------------------------------------------------------------------------------


class Standing(msgspec.Struct, kw_only=True):
    """What a write stands on besides its token: a tenure of the node, and fences of task fields (D20a, D33)."""

    if_epoch: Epoch | None = None
    based_on: list[Premise] = []


class PutRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/nodes`. An entry is markdown, a node as JSON, or a `PutEntry`.

    Imports say the last two: `cycles` what becomes of `blocks` edges that close
    one (D41), and `keep_attribution`, an admin's, that authors, stamps and
    times are those of the entries (D12).
    """

    nodes: list[Given]
    if_exists: IfExists = "error"
    based_on: list[Premise] = []
    cycles: Cycles = "refuse"
    keep_attribution: bool = False


class PutEntry(msgspec.Struct, kw_only=True):
    """One entry with its own conditions: `revision` is the one an update expects, `if_epoch` a tenure it stands on."""

    node: str | dict[str, Any]
    if_exists: IfExists | None = None
    revision: str | None = None
    if_epoch: Epoch | None = None


class EdgeRequest(Standing, kw_only=True):
    """Body of `POST /v1/nodes/{id}/edges`."""

    type: str
    to: Slug
    attrs: dict[str, Any] = {}


class EdgeRemoval(Standing, kw_only=True):
    """Body of `DELETE /v1/nodes/{id}/edges`."""

    type: str
    to: Slug


class StatusRequest(Standing, kw_only=True):
    """Body of `POST /v1/nodes/{id}/status`; null or an empty word takes the status away."""

    status: str | None
    session: Label | None = None
    dispatch: Label | None = None


class PriorityRequest(Standing, kw_only=True):
    """Body of `POST /v1/nodes/{id}/priority`."""

    priority: str | None


class ReadinessRequest(Standing, kw_only=True):
    """Body of `POST /v1/nodes/{id}/readiness`."""

    readiness: str | None


class CommitRequest(Standing, kw_only=True):
    """Body of `POST /v1/nodes/{id}/commits`."""

    repo: str
    sha: str


@dataclass(frozen=True, slots=True)
class Put:
    """A readable entry of a batch and its conditions."""

    reading: Reading
    if_exists: IfExists = "error"
    revision: str | None = None
    if_epoch: int | None = None
    warnings: tuple[str, ...] = ()
    kept: Kept | None = None

    @property
    def node(self) -> NodeId:
        """The node that the entry is about."""
        return self.reading.authored.id


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that says no node: why, and the id it seems to be about."""

    error: BatonError
    id: str | None
    warnings: tuple[str, ...] = ()


Entry = Put | Unreadable


def entries(request: PutRequest, *, warnings: Sequence[str] = ()) -> list[Entry]:
    """Return every entry of a batch in order, each read on its own; `Invalid` when there are none or too many.

    `warnings` are those of the body as a whole; each goes to the entry it names.
    """
    count = len(request.nodes)
    if not 0 < count <= NODES_MAX:
        raise Invalid(f"nodes: {count} entries; one call takes 1 to {NODES_MAX} entries", field="nodes")
    named = [f"nodes[{i}]" for i in range(count)]
    return [
        _entry(item, request, name, tuple(warning for warning in warnings if warning.startswith(name)))
        for name, item in zip(named, request.nodes, strict=True)
    ]


def fences(node: NodeId | None, *, if_epoch: int | None, based_on: Sequence[object]) -> tuple[Fence, ...]:
    """Return what a body says the write stands on; `BadRequest` for a premise of another kind or shape (D33)."""
    tenure = () if node is None or if_epoch is None else (Fence(Resource(node), if_epoch),)
    return (*tenure, *(_premise(premise, f"based_on[{i}]") for i, premise in enumerate(based_on)))


def _entry(item: object, request: PutRequest, name: str, warnings: tuple[str, ...]) -> Entry:
    try:
        options = _options(item, name)
        reading = read(options.node) if isinstance(options.node, str) else read_json(options.node)
        past = kept(reading.stamped) if request.keep_attribution else None
    except BatonError as error:
        return Unreadable(error, _id_of(item), warnings)
    return Put(
        reading,
        if_exists=options.if_exists or request.if_exists,
        revision=options.revision,
        if_epoch=options.if_epoch,
        warnings=(*warnings, *_overlooked(item, name), *reading.warnings),
        kept=past,
    )


def _options(item: object, name: str) -> PutEntry:
    match item:
        case str():
            return PutEntry(node=item)
        case {"node": _}:
            try:
                return msgspec.convert(item, PutEntry)
            except msgspec.ValidationError as error:
                raise Invalid(f"{name}: {error}", field=name) from error
        case dict():
            return PutEntry(node=item)
        case _:
            raise Invalid(f"{name}: must be markdown or an object, not {json_type(item)}", field=name)


def _overlooked(item: object, name: str) -> list[str]:
    """Return a warning for each field beside `node` that is no condition of an entry (D16b)."""
    if not isinstance(item, dict) or "node" not in item:
        return []
    return [f"{name}.{key}: not a field of an entry; ignored" for key in item if key not in PutEntry.__struct_fields__]


def _id_of(item: object) -> str | None:
    """Return the id an unreadable entry seems to be about, so that its result can be told from the others."""
    match item:
        case {"node": inner}:
            return _id_of(inner)
        case {"id": str(text)} if len(text) <= _ID_CHARS:
            return text
        case str(text):
            found = _ID_LINE.search(text, 0, _ID_CHARS)
            return found[1] if found is not None else None
        case _:
            return None


def _premise(premise: object, name: str) -> Fence:
    match premise:
        case {"kind": "fence", "field": str(field), "epoch": int(epoch), **rest} if not rest and not isinstance(
            epoch, bool
        ):
            try:
                return Fence(parse_resource(field, field=f"{name}.field"), epoch)
            except Invalid as error:
                raise BadRequest(error.message, field=name) from error
        case _:
            raise BadRequest(
                f'{name}: must be {{"kind": "fence", "field": "record:<class>/<id>#<field>", "epoch": <number>}}',
                field=name,
            )


# --- replies ---------------------------------------------------------------------------------------------------------


class PutResult(msgspec.Struct, omit_defaults=True):
    """What became of one entry. On a conflict `revision` is the one the node has now."""

    ok: bool
    status: Outcome
    id: str | None
    revision: str | None
    warnings: list[str]
    code: str | None = None
    message: str | None = None
    details: list[str] | None = None


class PutReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/nodes`: one result an entry, in order; `warnings` are those of the request as a whole."""

    http_status: ClassVar[int] = 200

    results: list[PutResult]
    warnings: list[str] = []


class PartialPutReply(PutReply):
    """The same, when an entry failed."""

    http_status: ClassVar[int] = 207


class ChangeReply(msgspec.Struct, omit_defaults=True):
    """Reply of the edge routes and the one-scalar verbs. `id` is the node written, `lease` the claim a status made."""

    http_status: ClassVar[int] = 200

    status: Literal["updated", "skipped"]
    id: str
    revision: str
    warnings: list[str]
    lease: LeaseBody | None = None
    expires_in_ms: int | None = None


class ResolutionBody(msgspec.Struct):
    """Who resolved a node; `lagging` says that its own status does not show it."""

    by: str
    edge: str
    date: str | None
    summary: str
    title: str
    lagging: bool
    note: str


class NodeRef(msgspec.Struct):
    """Another node, as far as a reader of this one needs it."""

    id: str
    title: str
    status: str | None


class ExecutionHoldBody(msgspec.Struct):
    """The controller's execution that an item is held by."""

    execution: str
    note: str


HELD_NOTE: Final = "an outcome stands on it and resolves nothing: let one resolve it, or say what is left to do"


class HeldBody(msgspec.Struct):
    """What was written about an open task and resolves nothing, so that somebody is to say what becomes of it."""

    outcomes: list[str]
    note: str


class NodeReply(msgspec.Struct, omit_defaults=True):
    """Reply of `GET /v1/nodes/{id}`."""

    id: str
    raw: str
    frontmatter: dict[str, Any]
    body: str
    revision: str
    resolution: ResolutionBody | None = None
    held: HeldBody | None = None
    open_findings: list[NodeRef] | None = None
    superseded_by: list[NodeRef] | None = None
    execution_hold: ExecutionHoldBody | None = None
    lease: LeaseBody | None = None


class EdgeBody(msgspec.Struct, rename={"src": "from"}, omit_defaults=True):
    """One edge as seen from a node. `title` and `status` are the other end's, null where there is no such node.

    `missing` says so then: the other end was deleted, or is yet to be written.
    """

    direction: Literal["in", "out"]
    type: str
    src: str
    to: str
    attrs: dict[str, str | int]
    title: str | None
    status: str | None
    missing: Missing | None = None


class EdgesReply(msgspec.Struct):
    """Reply of `GET /v1/nodes/{id}/edges`; `next` is the `after` of the next page, null at the end."""

    id: str
    edges: list[EdgeBody]
    count: int
    next: str | None


class ListedNode(msgspec.Struct):
    """One row of `GET /v1/nodes`."""

    id: str
    type: str
    title: str
    summary: str
    status: str | None
    project: str | None
    priority: str | None
    date: str | None
    revision: str
    updated_at: str


class NodesReply(msgspec.Struct):
    """Reply of `GET /v1/nodes`; `next` is the `after` of the next page, null at the end."""

    nodes: list[ListedNode]
    count: int
    next: str | None


def put_reply(results: list[PutResult], *, warnings: Sequence[str] = ()) -> PutReply:
    """Return the reply of a batch: 207 when an entry failed."""
    kind = PutReply if all(result.ok for result in results) else PartialPutReply
    return kind(results, list(warnings))


def node_reply(
    node: Node,
    *,
    lease: LeaseView | None,
    resolution: Resolution | None,
    open_findings: Sequence[NodeRef] = (),
    superseded_by: Sequence[NodeRef] = (),
    held_by: Sequence[str] = (),
) -> NodeReply:
    """Return `node` as it is read: everything shown, and what the graph says about it."""
    claim = claim_of(lease)
    return NodeReply(
        id=node.id,
        raw=raw(node, claim=claim),
        frontmatter=front_matter(node, claim=claim),
        body=node.authored.body,
        revision=node.revision,
        resolution=None if resolution is None else resolution_body(resolution),
        held=HeldBody(list(held_by), HELD_NOTE) if held_by else None,
        open_findings=list(open_findings) or None,
        superseded_by=list(superseded_by) or None,
        execution_hold=execution_hold_body(node),
        lease=None if lease is None else lease_body(lease),
    )


def claim_of(lease: LeaseView | None) -> Claim | None:
    """Return the edge that shows a lease, in force or lapsed; a reservation keeps it (D4)."""
    return None if lease is None else Claim(lease.by, lease.epoch)


def execution_hold_body(node: Node) -> ExecutionHoldBody | None:
    """Return which execution holds the item, if one does."""
    execution = node.authored.extra.get("execution")
    return ExecutionHoldBody(execution, HOLD_ENDS) if isinstance(execution, str) else None


def resolution_body(resolution: Resolution) -> ResolutionBody:
    """Return `resolution` as it goes over the wire."""
    lag = "; its own status still reads open" if resolution.lagging else ""
    return ResolutionBody(
        by=resolution.by,
        edge=resolution.edge,
        date=resolution.date,
        summary=resolution.summary,
        title=resolution.title,
        lagging=resolution.lagging,
        note=f"{resolution.by} {resolution.edge} this node{lag}",
    )


def edge_body(
    src: NodeId,
    edge: Edge,
    *,
    seen_from: Literal["in", "out"],
    title: str | None,
    status: str | None,
    missing: Missing | None,
) -> EdgeBody:
    """Return an edge out of `src` as seen from one of its ends."""
    return EdgeBody(
        direction=seen_from,
        type=edge.type,
        src=src,
        to=edge.to,
        attrs=dict(edge.attrs),
        title=title,
        status=status,
        missing=missing,
    )


def claim_edge_body(node: NodeId, lease: LeaseView) -> EdgeBody:
    """Return the edge that shows the lease of `node` (D4)."""
    attrs: dict[str, str | int] = {"via": "claim", "epoch": lease.epoch}
    return EdgeBody(
        direction="out", type="assigned", src=node, to=lease.by, attrs=attrs, title=lease.by_name, status=None
    )


def listed_node(node: Node) -> ListedNode:
    """Return `node` as a row of a list."""
    authored = node.authored
    return ListedNode(
        id=authored.id,
        type=authored.type,
        title=authored.title,
        summary=authored.summary,
        status=authored.status,
        project=authored.project,
        priority=authored.priority,
        date=authored.date,
        revision=node.revision,
        updated_at=iso(node.updated_at),
    )
