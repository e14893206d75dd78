"""`baton schema`: what may be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common
from batonpass.cli.render import Column, print_fields, print_json, print_table, say
from batonpass.client import graph_calls
from batonpass.core.errors import Invalid, NotFound
from batonpass.core.node_types import require_type
from batonpass.wire.schema import SchemaReply, TypeBody

TYPE_COLUMNS: Final = (Column("type"), Column("ids begin with"), Column("statuses"), Column("is"))
EDGE_COLUMNS: Final = (Column("edge"), Column("the other way round"), Column("also written"), Column("does"))


def schema(type_: str | None = None, /, *, common: Common = COMMON) -> None:
    """Show what may be written: node types, statuses, edges, limits.

    Args:
        type_: a node type, such as task.

    """
    answer = ask(common, graph_calls.get_schema())
    if type_ is not None:
        kind = _named(answer.value, type_)
        return print_json(msgspec.json.encode(kind)) if common.json else _print_type(kind)
    if common.json:
        return print_json(answer.raw)
    return _print_all(answer.value)


def _named(found: SchemaReply, name: str) -> TypeBody:
    kind = next((kind for kind in found.types if kind.name == name), None)
    if kind is None:
        try:
            require_type(name)
        except Invalid as error:
            raise NotFound(error.message, field="type") from error
        raise NotFound(f"type: the server does not know {name}; it may be older than this program", field="type")
    return kind


def _print_all(found: SchemaReply) -> None:
    rows = [(kind.name, ", ".join(kind.prefixes), _statuses(kind), ", ".join(_traits(kind))) for kind in found.types]
    print_table(TYPE_COLUMNS, rows, empty="")
    say("")
    edges = [
        (edge.name, edge.inverse, ", ".join(edge.aliases), _does(edge.resolving, blocking=edge.blocking))
        for edge in found.edges
    ]
    print_table(EDGE_COLUMNS, edges, empty="")
    say("")
    print_fields({limit.name: _limit(limit.value, limit.unit, at_least=limit.at_least) for limit in found.limits})
    say("")
    print_fields({name: _words(words) for name, words in found.vocabularies.items()})


def _print_type(kind: TypeBody) -> None:
    gate = kind.gate
    print_fields(
        {
            "type": kind.name,
            "ids begin with": ", ".join(kind.prefixes),
            "statuses": _statuses(kind),
            "is": ", ".join(_traits(kind)),
            "claimed by": kind.in_progress,
            "completed by": kind.completion,
            "which needs": (
                f"{gate.edge} onto it, from {' or '.join(gate.resolver_types)}, first" if gate is not None else None
            ),
            "judged by": "its status" if kind.judged_by == "status" else "an edge onto it",
            "out of the queue": ", ".join(kind.dead),
            "resolves nothing as": ", ".join(kind.non_resolving),
            "required": ", ".join(kind.required),
            "usual": ", ".join(kind.expected),
        }
    )


def _statuses(kind: TypeBody) -> str:
    return "any word" if kind.statuses is None else ", ".join(kind.statuses)


def _traits(kind: TypeBody) -> list[str]:
    queued = f"queued while {', '.join(kind.queueable_in)}" if kind.queueable_in else "queued"
    traits = {queued: kind.queueable, "claimable": kind.claimable, "for admins to write": kind.for_admins}
    return [trait for trait, has in traits.items() if has]


def _does(resolving: str, *, blocking: bool) -> str:
    if blocking:
        return "blocks"
    return {"any": "completes", "questions": "completes questions"}.get(resolving, "")


def _limit(value: int, unit: str, *, at_least: bool) -> str:
    return f"at {'least' if at_least else 'most'} {value} {unit}"


def _words(words: Sequence[str]) -> str:
    return ", ".join(word or '""' for word in words)
