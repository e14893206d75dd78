"""The node and edge routes: the batch door, reads, edges, and the one-scalar verbs (companion 1.7 to 4, D12, D41)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.responses import Response

from batonpass.core.edges import EDGE_TYPES, normalise
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, parse_label, parse_node_id
from batonpass.core.node_types import require_type
from batonpass.core.nodes import parse_slug
from batonpass.server.http.bodies import Body
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.services.change import Caller, Replayed
from batonpass.server.services.graph import EdgePage
from batonpass.server.services.views import body_of
from batonpass.store.edges import Direction
from batonpass.store.nodes import Filter
from batonpass.wire import nodes as wire

LIMIT_DEFAULT: Final = 100
TEXT_CHARS_MAX: Final = 200
DIRECTIONS: Final[tuple[Direction, ...]] = ("in", "out")

S = TypeVar("S", bound=wire.Standing)


async def put(call: Call) -> Response:
    """Write nodes in order, each on its own; every entry has its result."""
    body = await call.body(wire.PutRequest)
    entries = wire.entries(body.value, warnings=body.warnings)
    fences = wire.fences(None, if_epoch=None, based_on=body.value.based_on)
    caller = call.caller(body.raw, warnings=body.overlooked).standing_on(*fences)
    asked = body.value
    return changed(await call.services.graph.put(caller, entries, cycles=asked.cycles, keeping=asked.keep_attribution))


async def get(call: Call) -> Response:
    """Read a node, with what the graph says about it."""
    return reply(body_of(await call.services.graph.get(call.node_id())))


async def listed(call: Call) -> Response:
    """List nodes that match everything asked for, in order of their ids."""
    asked = call.query
    assignee, project, text = asked.get("assignee"), asked.get("project"), asked.get("text")
    if text is not None and len(text) > TEXT_CHARS_MAX:
        raise Invalid(f"text: {len(text)} code points; the limit is {TEXT_CHARS_MAX} code points", field="text")
    if assignee == "me":
        assignee = call.principal.id
    page = await call.services.graph.listed(
        Filter(
            types=tuple(require_type(name).name for name in _names(asked["type"])) if "type" in asked else None,
            status=asked.get("status"),
            project=parse_slug(project, name="project") if project is not None else None,
            assignee=parse_node_id(assignee, field="assignee") if assignee is not None else None,
            text=text,
        ),
        after=asked.get("after", ""),
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    return reply(wire.NodesReply([wire.listed_node(node) for node in page.nodes], len(page.nodes), page.next))


async def edges(call: Call) -> Response:
    """List the edges of a node, both ways."""
    asked = call.query
    node = call.node_id()
    page = await call.services.graph.edges_of(
        node,
        direction=_direction(asked.get("direction")),
        types=[_edge_type(name) for name in _names(asked["type"])] if "type" in asked else None,
        after=_place(asked.get("after")),
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    shown = _edge_bodies(node, page)
    return reply(wire.EdgesReply(node, shown, len(shown), "|".join(page.next) if page.next is not None else None))


async def add_edge(call: Call) -> Response:
    """Add an edge to a node; one that is there is skipped."""

    async def write(caller: Caller, node: NodeId, asked: wire.EdgeRequest) -> wire.ChangeReply | Replayed:
        other = parse_node_id(asked.to, field="to")
        return await call.services.graph.add_edge(caller, node, asked.type, other, attrs=asked.attrs)

    return await _verb(call, wire.EdgeRequest, write)


async def add_live_edge(call: Call) -> Response:
    """Add an edge if the node it leads to is live: neither retired by its status, nor superseded, nor resolved."""

    async def write(caller: Caller, node: NodeId, asked: wire.EdgeRequest) -> wire.ChangeReply | Replayed:
        other = parse_node_id(asked.to, field="to")
        return await call.services.graph.add_edge(caller, node, asked.type, other, attrs=asked.attrs, live=True)

    return await _verb(call, wire.EdgeRequest, write)


async def remove_edge(call: Call) -> Response:
    """Remove an edge from a node; one that is not there is skipped."""

    async def write(caller: Caller, node: NodeId, asked: wire.EdgeRemoval) -> wire.ChangeReply | Replayed:
        other = parse_node_id(asked.to, field="to")
        return await call.services.graph.remove_edge(caller, node, asked.type, other)

    return await _verb(call, wire.EdgeRemoval, write)


async def status(call: Call) -> Response:
    """Set the status of a node; an in-progress one claims it."""

    async def write(caller: Caller, node: NodeId, asked: wire.StatusRequest) -> wire.ChangeReply | Replayed:
        return await call.services.graph.set_status(
            caller,
            node,
            asked.status or None,
            session=_label(asked.session, "session"),
            dispatch=_label(asked.dispatch, "dispatch"),
            if_epoch=asked.if_epoch,
        )

    return await _verb(call, wire.StatusRequest, write)


async def priority(call: Call) -> Response:
    """Set the priority of a node, or none."""

    async def write(caller: Caller, node: NodeId, asked: wire.PriorityRequest) -> wire.ChangeReply | Replayed:
        return await call.services.graph.set_priority(caller, node, asked.priority)

    return await _verb(call, wire.PriorityRequest, write)


async def readiness(call: Call) -> Response:
    """Say that agents may take a node, or take that back."""

    async def write(caller: Caller, node: NodeId, asked: wire.ReadinessRequest) -> wire.ChangeReply | Replayed:
        return await call.services.graph.set_readiness(caller, node, asked.readiness)

    return await _verb(call, wire.ReadinessRequest, write)


async def commits(call: Call) -> Response:
    """Note a commit on a node; one that is noted is skipped."""

    async def write(caller: Caller, node: NodeId, asked: wire.CommitRequest) -> wire.ChangeReply | Replayed:
        return await call.services.graph.add_commit(caller, node, f"{asked.repo}@{asked.sha}")

    return await _verb(call, wire.CommitRequest, write)


# --- shared ----------------------------------------------------------------------------------------------------------

Write = Callable[[Caller, NodeId, S], Awaitable[wire.ChangeReply | Replayed]]


async def _verb(call: Call, kind: type[S], write: Write[S]) -> Response:
    """Answer a route that changes one node: read its body as `kind`, take the fences it names, and `write`."""
    node = call.node_id()
    body: Body[S] = await call.body(kind)
    fences = wire.fences(node, if_epoch=body.value.if_epoch, based_on=body.value.based_on)
    return changed(await write(call.caller(body.raw, warnings=body.notices).standing_on(*fences), node, body.value))


def _edge_bodies(node: NodeId, page: EdgePage) -> list[wire.EdgeBody]:
    shown = [
        wire.edge_body(
            seen.src,
            seen.edge,
            seen_from=seen.direction,
            title=seen.title,
            status=seen.status,
            missing=seen.missing,
        )
        for seen in page.edges
    ]
    if page.claim is not None:
        shown.append(wire.claim_edge_body(node, page.claim))
        shown.sort(key=lambda edge: (edge.direction, edge.type, edge.to if edge.direction == "out" else edge.src))
    return shown


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _direction(text: str | None) -> Direction | None:
    for direction in DIRECTIONS:
        if text == direction:
            return direction
    if text is None:
        return None
    raise Invalid(f"direction: {text[:40]} is none of {', '.join(DIRECTIONS)}", field="direction")


def _edge_type(name: str) -> str:
    found = normalise(name)
    if found.inverted:
        raise Invalid(f"type: {name} is {found.type.name} seen from the other end; ask for that", field="type")
    return found.type.name


def _place(text: str | None) -> tuple[str, str, str]:
    """Return where a page of edges goes on: the `next` of the page before, given back as it was."""
    if text is None:
        return ("", "", "")
    match text.split("|"):
        case [direction, edge_type, other] if direction in DIRECTIONS and edge_type in EDGE_TYPES:
            return (direction, edge_type, parse_node_id(other, field="after"))
        case _:
            raise Invalid("after: is not the next of a page of edges", field="after")


def _label(value: str | None, field: str) -> str | None:
    return None if value is None else parse_label(value, field=field)
