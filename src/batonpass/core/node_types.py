"""Node types: every type the graph knows, its statuses, and which moves the law allows (companion 1.5, 1.6).

Three partitions of a type's statuses are kept apart on purpose: *dead* words
take a node out of the queue, *non-resolving* words keep a node from retiring
what it claims to resolve, and *terminal* words end the type's own lifecycle.
No status at all is always allowed and means live.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from batonpass.core.errors import InvalidNode
from batonpass.core.ids import NodeId, shown

RETIRED_WORDS: Final = frozenset(
    "abandoned answered closed completed deprecated dismissed done merged rejected resolved retired superseded".split()
)
"""The register of statuses that take a node of any type out of the queue."""


class JudgedBy(StrEnum):
    """What says that a node of a type is complete: a resolving edge, or its own status (D17)."""

    EDGE = "edge"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class CompletionGate:
    """`statuses` need a live inbound `edge` from a node of one of `resolver_types`."""

    statuses: frozenset[str]
    edge: str = "resolves"
    resolver_types: frozenset[str] = frozenset({"decision", "artifact"})


@dataclass(frozen=True, slots=True)
class NodeType:
    """One registered type.

    `statuses` None means that any token will do. `inert` None means that the
    terminal statuses are the dead ones. `queueable_in` narrows a queueable
    type to some of its statuses. `identity` marks the types that say who
    somebody is: they are written by the routes for people and agents.
    """

    name: str
    prefixes: tuple[str, ...]
    queueable: bool = False
    queueable_in: frozenset[str] | None = None
    claimable: bool = False
    statuses: frozenset[str] | None = None
    in_progress: str | None = None
    non_resolving: frozenset[str] = frozenset()
    terminal: frozenset[str] = frozenset()
    inert: frozenset[str] | None = None
    completion: str | None = None
    gate: CompletionGate | None = None
    judged_by: JudgedBy = JudgedBy.STATUS
    traversable: bool = True
    identity: bool = False
    required: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    """Keys whose absence is worth a warning, never a refusal."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NODE_TYPES: Final[Mapping[str, NodeType]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            NodeType(
                "task",
                ("task-",),
                queueable=True,
                claimable=True,
                statuses=_words("open active done abandoned"),
                in_progress="active",
                non_resolving=_words("abandoned"),
                completion="done",
                gate=CompletionGate(_words("done")),
                judged_by=JudgedBy.EDGE,
            ),
            NodeType(
                "issue",
                ("issue-",),
                queueable=True,
                claimable=True,
                statuses=_words("open active resolved"),
                in_progress="active",
                completion="resolved",
                gate=CompletionGate(_words("resolved")),
                judged_by=JudgedBy.EDGE,
            ),
            NodeType("incident", ("inc-",), queueable=True, claimable=True, judged_by=JudgedBy.EDGE),
            NodeType(
                "question",
                ("question-",),
                queueable=True,
                claimable=True,
                statuses=_words("open answered"),
                completion="answered",
                judged_by=JudgedBy.EDGE,
            ),
            NodeType(
                "capture-pending",
                ("cap-",),
                queueable=True,
                claimable=True,
                statuses=_words("merged rejected"),
                terminal=_words("merged rejected"),
            ),
            NodeType("finding", ("find-",), queueable=True, claimable=True),
            NodeType(
                "decision",
                ("dec-",),
                claimable=True,
                statuses=_words("active superseded rejected settled"),
                non_resolving=_words("rejected"),
                terminal=_words("superseded rejected settled"),
                # A settled decision keeps surfacing: it ended its own lifecycle, not its use.
                inert=_words("superseded rejected"),
            ),
            NodeType(
                "artifact",
                ("art-", "spec-"),
                statuses=_words("in-review approved merged released done active"),
                non_resolving=_words("in-review approved"),
                terminal=_words("merged released done"),
            ),
            NodeType("norm", ("norm-",)),
            NodeType(
                "correction",
                ("corr-",),
                statuses=_words("active applied"),
                terminal=_words("applied"),
                traversable=False,
                required=("target",),
            ),
            NodeType("briefing", ("brief-",), traversable=False),
            NodeType("workflow", ("wf-", "workflow-"), queueable=True, statuses=_words("proposed active retired")),
            NodeType(
                "workflow-run",
                ("run-",),
                queueable=True,
                statuses=_words("running held succeeded failed cancelled"),
                # Nothing in the register says that a run is over, and one that is must not stay queued for ever.
                terminal=_words("succeeded failed cancelled"),
            ),
            NodeType("factory", ("factory-",), statuses=_words("proposed active retired")),
            NodeType("gate", ("gate-",), statuses=_words("proposed active retired")),
            NodeType(
                "schema",
                ("schema-",),
                queueable=True,
                queueable_in=_words("proposed"),
                statuses=_words("proposed active"),
            ),
            NodeType("person", ("person-",), identity=True, expected=("name", "email")),
            NodeType("organization", ("org-",), identity=True),
            NodeType("agent", ("agent-",), identity=True),
            NodeType("profile", ("profile-",)),
            NodeType("routine", ("routine-",)),
            NodeType("project", ("proj-",)),
            NodeType("repo", ("repo-",)),
            NodeType("lens", ("lens-",)),
            NodeType("workspace", ("workspace-",)),
        )
    }
)

NON_RESOLVING: Final = frozenset({"superseded"}).union(*(kind.non_resolving for kind in NODE_TYPES.values()))
"""Statuses under which a node of whatever type retires nothing: what any type lists, and what says it was replaced."""


def require_type(name: str) -> NodeType:
    """Return the registered type called `name`; `InvalidNode` naming the nearest one, or all of them."""
    found = NODE_TYPES.get(name)
    if found is None:
        raise InvalidNode(unknown_type(name), field="type")
    return found


def unknown_type(name: str) -> str:
    """Return the finding for a type that is not registered."""
    close = difflib.get_close_matches(name[:100], NODE_TYPES, n=1)
    advice = f"; did you mean {close[0]}?" if close else f"; the types are {', '.join(NODE_TYPES)}"
    return f"type: {shown(name)} is not a node type{advice}"


def type_of(node: NodeId) -> NodeType | None:
    """Return the type that owns the prefix of `node`, which every stored id has, or None."""
    return next((kind for kind in NODE_TYPES.values() if node.startswith(kind.prefixes)), None)


def dead_statuses(kind: NodeType) -> frozenset[str]:
    """Return the statuses under which a node of this type is out of the queue."""
    return RETIRED_WORDS | (kind.terminal if kind.inert is None else kind.inert)


def is_dead(kind: NodeType, status: str | None) -> bool:
    """Whether a node of this type and status is retired by its own word."""
    return status in dead_statuses(kind)


def is_queueable(kind: NodeType, status: str | None) -> bool:
    """Whether a node of this type and status is an item of the queue at all, dead or not."""
    return kind.queueable and (kind.queueable_in is None or status in kind.queueable_in)


def resolves_others(status: str | None) -> bool:
    """Whether a node of this status retires what it resolves; the words count for every type."""
    return status not in NON_RESOLVING


def check_status(kind: NodeType, status: str | None) -> str | None:
    """Return the finding when the type's vocabulary has no such status, else None."""
    if status is None or kind.statuses is None or status in kind.statuses:
        return None
    return (
        f"status: {shown(status)} is not a status of {kind.name}; it takes {', '.join(sorted(kind.statuses))}, or none"
    )


def check_move(kind: NodeType, old: str | None, new: str | None, *, born: bool, has_resolver: bool) -> str | None:
    """Return why a node of this type may not go from `old` to `new`, or None when it may.

    A gated status needs its resolver at the moment it is entered, at birth
    (`born`) as much as later; leaving one, giving up and staying are free.
    """
    gate = kind.gate
    if gate is None or new not in gate.statuses or has_resolver or (new == old and not born):
        return None
    sources = " or ".join(sorted(gate.resolver_types))
    return (
        f"{kind.name} may not become {new} without a live {gate.edge} edge onto it from a resolving {sources};"
        " write that first"
    )
