"""The vocabulary of the graph as one document: what may be written, and what each word does (D10a).

All of it is read off core's tables, at the moment it is asked for: there is
nothing here that could say something else than the law does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import fields
from typing import Final

import msgspec

from batonpass.core import edges as edge_law
from batonpass.core import nodes as node_law
from batonpass.core.edges import ADMIN_ONLY, EDGE_TYPES, REVIEW_OUTCOMES, EdgeType
from batonpass.core.errors import NotFound
from batonpass.core.history import PREFIX_HEX_MIN, REASON_CHARS_MAX
from batonpass.core.ids import LABEL_CHARS_MAX, NODE_ID_BYTES_MAX
from batonpass.core.leases import Happened, Kind, Verb
from batonpass.core.node_types import NODE_TYPES, NodeType, dead_statuses, unknown_type
from batonpass.core.queue import Accept, Suggest
from batonpass.core.readiness import Ready

EVERY_NODE: Final = ("id", "type", "title", "summary")
"""The keys that no node is without."""
_BESIDES: Final = frozenset({"requires", "extra", "edges", "body"})
SCALAR_KEYS: Final = tuple(field.name for field in fields(node_law.Authored) if field.name not in _BESIDES)


class GateBody(msgspec.Struct):
    """`statuses` need a live inbound `edge` from a node of one of `resolver_types`, at the moment they are entered."""

    statuses: list[str]
    edge: str
    resolver_types: list[str]


class TypeBody(msgspec.Struct):
    """One node type. `statuses` null means that any word will do; none at all is always allowed, and means live.

    `dead` statuses take a node out of the queue, `non_resolving` ones keep it
    from completing others, `terminal` ones end its own life. `judged_by` is
    what says that it is complete: an edge onto it, or its status.
    """

    name: str
    prefixes: list[str]
    statuses: list[str] | None
    queueable: bool
    queueable_in: list[str] | None
    claimable: bool
    in_progress: str | None
    completion: str | None
    gate: GateBody | None
    judged_by: str
    non_resolving: list[str]
    terminal: list[str]
    dead: list[str]
    traversable: bool
    for_admins: bool
    required: list[str]
    expected: list[str]


class AdminOnlyBody(msgspec.Struct):
    """Edges that only an admin may write: out of ids that begin with `src_prefix`, onto `dst` if that is given."""

    src_prefix: str
    dst: str | None
    reason: str


class EdgeTypeBody(msgspec.Struct):
    """One edge type. `weight` is its pull in a briefing, null where none walks along it.

    `resolving` says which targets an edge of it completes: nothing, any, or
    questions. Of the types with `one_of_review` at most one stands between a
    node and a person.
    """

    name: str
    aliases: list[str]
    inverse: str | None
    weight: float | None
    resolving: str
    blocking: bool
    one_of_review: bool
    attrs: list[str]
    admin_only: list[AdminOnlyBody]


class KeyBody(msgspec.Struct):
    """One key of front matter. `holds` is text, flag, list, commits or edges; `stamped` ones are the server's."""

    name: str
    holds: str
    stamped: bool


class LimitBody(msgspec.Struct):
    """One limit: at most so many of a unit, or with `at_least` no fewer."""

    name: str
    value: int
    unit: str
    at_least: bool = False


class SchemaReply(msgspec.Struct):
    """Reply of `GET /v1/schema`; `vocabularies` are the words of leases and queue, and those that clear a value."""

    types: list[TypeBody]
    edges: list[EdgeTypeBody]
    keys: list[KeyBody]
    limits: list[LimitBody]
    vocabularies: dict[str, list[str]]


LIMITS: Final = (
    LimitBody("id", NODE_ID_BYTES_MAX, "bytes"),
    LimitBody("title", node_law.TITLE_CHARS_MAX, "code points"),
    LimitBody("summary", node_law.SUMMARY_CHARS_MAX, "code points"),
    LimitBody("body", node_law.BODY_BYTES_MAX, "bytes"),
    LimitBody("status", node_law.STATUS_CHARS_MAX, "characters"),
    LimitBody("value", node_law.VALUE_CHARS_MAX, "code points"),
    LimitBody("list", node_law.LIST_ITEMS_MAX, "items"),
    LimitBody("edges", node_law.EDGES_MAX, "edges"),
    LimitBody("edge attributes", edge_law.ATTRS_MAX, "attributes"),
    LimitBody("edge attribute", edge_law.ATTR_CHARS_MAX, "characters"),
    LimitBody("commits", node_law.COMMITS_MAX, "commits"),
    LimitBody("commit", node_law.SHA_HEX_MIN, "hex digits", at_least=True),
    LimitBody("revision", PREFIX_HEX_MIN, "hex digits", at_least=True),
    LimitBody("reason", REASON_CHARS_MAX, "code points"),
    LimitBody("session", LABEL_CHARS_MAX, "characters"),
    LimitBody("dispatch", LABEL_CHARS_MAX, "characters"),
)


@functools.cache
def schema() -> SchemaReply:
    """Return the whole vocabulary."""
    return SchemaReply(
        types=[_type(kind) for kind in NODE_TYPES.values()],
        edges=[_edge_type(edge) for edge in EDGE_TYPES.values()],
        keys=list(_keys()),
        limits=list(LIMITS),
        vocabularies={
            "priority": list(node_law.PRIORITIES),
            "priority.clear": sorted(node_law.CLEAR_PRIORITY),
            "readiness": [node_law.READY],
            "readiness.clear": sorted(node_law.CLEAR_READINESS),
            "lease.kind": [kind.value for kind in Kind],
            "lease.verb": [verb.value for verb in Verb],
            "lease.event": [event.value for event in Happened],
            "queue.readiness": [ready.value for ready in Ready],
            "queue.suggest": [suggest.value for suggest in Suggest],
            "queue.accept": [accept.value for accept in Accept],
        },
    )


def type_named(name: str) -> TypeBody:
    """Return one node type; `NotFound` with the nearest name, or all of them."""
    for kind in schema().types:
        if kind.name == name:
            return kind
    raise NotFound(unknown_type(name), field="type")


def _type(kind: NodeType) -> TypeBody:
    gate = kind.gate
    return TypeBody(
        name=kind.name,
        prefixes=list(kind.prefixes),
        statuses=None if kind.statuses is None else sorted(kind.statuses),
        queueable=kind.queueable,
        queueable_in=None if kind.queueable_in is None else sorted(kind.queueable_in),
        claimable=kind.claimable,
        in_progress=kind.in_progress,
        completion=kind.completion,
        gate=None if gate is None else GateBody(sorted(gate.statuses), gate.edge, sorted(gate.resolver_types)),
        judged_by=kind.judged_by.value,
        non_resolving=sorted(kind.non_resolving),
        terminal=sorted(kind.terminal),
        dead=sorted(_possible(dead_statuses(kind), kind)),
        traversable=kind.traversable,
        for_admins=kind.identity,
        required=[*EVERY_NODE, *kind.required],
        expected=["date", *kind.expected],
    )


def _possible(statuses: Iterable[str], kind: NodeType) -> Iterable[str]:
    """Return those of `statuses` that a node of the type can have."""
    return statuses if kind.statuses is None else kind.statuses.intersection(statuses)


def _edge_type(edge: EdgeType) -> EdgeTypeBody:
    return EdgeTypeBody(
        name=edge.name,
        aliases=list(edge.aliases),
        inverse=edge.inverse,
        weight=edge.weight,
        resolving=edge.resolving.value,
        blocking=edge.blocking,
        one_of_review=edge.name in REVIEW_OUTCOMES,
        attrs=sorted(edge.attrs),
        admin_only=[
            AdminOnlyBody(rule.src_prefix, rule.dst, rule.reason) for rule in ADMIN_ONLY if rule.type == edge.name
        ],
    )


def _keys() -> Iterable[KeyBody]:
    yield from (KeyBody(name, "text", stamped=False) for name in SCALAR_KEYS)
    yield KeyBody("requires", "list", stamped=False)
    yield from (KeyBody(name, shape.value, stamped=False) for name, shape in node_law.EXTRA_KEYS.items())
    yield KeyBody("edges", "edges", stamped=False)
    yield from (KeyBody(name, "text", stamped=True) for name in sorted(node_law.STAMPED_KEYS))
