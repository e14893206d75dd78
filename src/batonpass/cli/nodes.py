"""Nodes and edges: add, show, list, link, unlink, set, priority, ready."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from batonpass.cli.context import ask, connected
from batonpass.cli.exits import Exit, UsageError, exit_of_code
from batonpass.cli.leases import held_by
from batonpass.cli.options import COMMON, STDIN, Common, Flag, Node, read_file
from batonpass.cli.render import Column, again, cut_short, print_fields, print_json, print_table, print_text, say, warn
from batonpass.client import node_calls
from batonpass.client.client import Answer
from batonpass.core.errors import Invalid
from batonpass.core.ids import NODE_ID_BYTES_MAX, parse_node_id
from batonpass.core.node_types import require_type
from batonpass.wire.nodes import ChangeReply, EdgeBody, NodeReply, PutReply

COLUMNS: Final = (
    Column("node"),
    Column("type"),
    Column("status"),
    Column("priority"),
    Column("project"),
    Column("date"),
    Column("title", cut=True),
)
EDGE_COLUMNS: Final = (Column("edge"), Column("node"), Column("status"), Column("title", cut=True))
EDGES_SHOWN: Final = 50
MISSING: Final = {"deleted": "(deleted)", "unwritten": "(not written yet)"}
STEM_CHARS_MAX: Final = 60
"""How much of a title an id made of it takes over."""
_WORD: Final = re.compile(r"[a-z0-9]+")

Many = Parameter(negative=())
Entry = dict[str, object]


def add(
    title: str | None = None,
    /,
    *,
    type_: Annotated[str, Parameter(name="--type")] = "task",
    id_: Annotated[Node | None, Parameter(name="--id")] = None,
    project: str | None = None,
    summary: str | None = None,
    body: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    priority: Literal["p1", "p2", "p3"] | None = None,
    status: str | None = None,
    ready: Flag = False,
    needed_by: str | None = None,
    wake: str | None = None,
    link: Annotated[list[str] | None, Many] = None,
    file: Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)] = None,
    if_exists: Literal["error", "skip", "update"] = "error",
    revision: str | None = None,
    common: Common = COMMON,
) -> int:
    """Add a node: from a title and options, or whole ones from markdown files.

    Of several files each is written on its own, in order, so an item's
    resolver goes before the item it completes.

    Args:
        title: what it is, in a line.
        type_: task, issue, question, decision, artifact, finding, incident …
        id_: its id; without it one is made of type and title.
        project: the project it belongs to.
        summary: what it is, standing alone; the title unless given.
        body: the rest of it; "-" reads standard input.
        priority: p1, p2 or p3.
        status: in the words of its type.
        ready: agents may take it.
        needed_by: the day it is needed, as 2027-01-31.
        wake: the day before which it stays out of the queue.
        link: an edge, as resolves:task-1; may be given several times.
        file: a file with front matter; "-" reads standard input; may be given several times.
        if_exists: what to do when there is a node of this id.
        revision: for an update: the revision it replaces.

    """
    if (title is None) is (file is None):
        raise UsageError("give a title, or --file with a whole node")
    if file is not None:
        entries: list[str | Entry] = [_text(name) for name in file]
    else:
        assert title is not None, "one of the two is there"
        entries = [
            {
                "id": id_ or made_id(type_, title),
                "type": type_,
                "title": title,
                "summary": summary or title,
                "date": datetime.now(UTC).date().isoformat(),
                **_given(project=project, priority=priority, status=status, needed_by=needed_by, wake=wake),
                **_given(readiness="agent" if ready else None, body=_text(body) if body == STDIN else body),
                "edges": [_edge(text) for text in link or ()],
            }
        ]
    if revision is not None:
        if len(entries) != 1:
            raise UsageError("--revision is of one node")
        entries = [{"node": entries[0], "revision": revision}]
    return _print_put(ask(common, node_calls.put_nodes(entries, if_exists=if_exists)), common)


def show(node: Node, /, *, common: Common = COMMON) -> None:
    """Show a node: who holds it, what became of it, its text and its edges.

    Args:
        node: which.

    """
    with connected(common) as client:
        answer = client.answer(node_calls.node(node))
        if common.json:
            print_json(answer.raw)
            return
        edges = client.edges(node, limit=EDGES_SHOWN)
    print_fields(dict(_standing(answer.value)))
    print_text(answer.value.raw)
    if edges.edges:
        say("")
        rows = [
            (f"{edge.type} →", edge.to, edge.status, _title(edge))
            if edge.direction == "out"
            else (f"← {edge.type}", edge.src, edge.status, _title(edge))
            for edge in edges.edges
        ]
        print_table(EDGE_COLUMNS, rows, empty="")
    if edges.next is not None:
        say(f"… only the first {edges.count} edges")


def list_(
    *,
    types: Annotated[list[str] | None, Parameter(name="--type", negative=())] = None,
    status: str | None = None,
    project: str | None = None,
    assignee: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List nodes, in order of their ids.

    Args:
        types: only of this type; may be given several times.
        status: only with this status.
        project: only of this project.
        assignee: only what is assigned to this person or agent; "me" for yourself.
        text: only with this in title or summary.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    call = node_calls.list_nodes(
        types=types or (), status=status, project=project, assignee=assignee, text=text, limit=limit, after=after
    )
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    nodes = answer.value.nodes
    rows = [(each.id, each.type, each.status, each.priority, each.project, each.date, each.title) for each in nodes]
    print_table(COLUMNS, rows, empty="no node is like that")
    more = again("baton list", type=types, status=status, project=project, assignee=assignee, text=text)
    cut_short(answer.value.count, more, after=answer.value.next)


def link(node: Node, edge: str, other: Node, /, *, common: Common = COMMON) -> None:
    """Add an edge, as in: baton link dec-1 resolves task-1.

    Args:
        node: where it begins.
        edge: its type, or an inverse such as blocked-by.
        other: where it leads.

    """
    _print_change(ask(common, node_calls.add_edge(node, edge, other)), "linked", "was there already", common)


def unlink(node: Node, edge: str, other: Node, /, *, common: Common = COMMON) -> None:
    """Remove an edge.

    Args:
        node: where it begins.
        edge: its type, or an inverse such as blocked-by.
        other: where it leads.

    """
    _print_change(ask(common, node_calls.remove_edge(node, edge, other)), "unlinked", "was not there", common)


def set_(
    node: Node,
    /,
    *,
    status: str | None = None,
    priority: Literal["p1", "p2", "p3", "none"] | None = None,
    common: Common = COMMON,
) -> None:
    """Set a node's status or priority. An in-progress status claims the node.

    Args:
        node: which.
        status: in the words of its type; "none" takes it away.
        priority: p1, p2 or p3; "none" takes it away.

    """
    if (status is None) is (priority is None):
        raise UsageError("set one thing: --status or --priority")
    if status is not None:
        call = node_calls.set_status(node, None if status == "none" else status)
    else:
        call = node_calls.set_priority(node, None if priority == "none" else priority)
    _print_change(ask(common, call), f"is {status or priority}", "is that already", common)


def priority(node: Node, priority: Literal["p1", "p2", "p3", "none"], /, *, common: Common = COMMON) -> None:
    """Set a node's priority, or take it away.

    Args:
        node: which.
        priority: p1, p2 or p3; "none" takes it away.

    """
    answer = ask(common, node_calls.set_priority(node, None if priority == "none" else priority))
    done = "has no priority" if priority == "none" else f"is {priority}"
    _print_change(answer, done, "is that already", common)


def ready(node: Node, /, *, needs_input: Flag = False, common: Common = COMMON) -> None:
    """Say that agents may take a node, or with --needs-input that they may not.

    Args:
        node: which.
        needs_input: take the word back: somebody has to look first.

    """
    answer = ask(common, node_calls.set_readiness(node, None if needs_input else "agent"))
    _print_change(answer, "needs input" if needs_input else "is ready for agents", "is that already", common)


def made_id(type_: str, title: str) -> str:
    """Return an id made of a node's type and title; `UsageError` when the title has nothing an id may hold."""
    try:
        prefix = require_type(type_).prefixes[0]
    except Invalid as error:
        raise UsageError(error.message) from error
    plain = unicodedata.normalize("NFKD", title).lower()
    stem = "-".join(_WORD.findall(plain.encode("ascii", "ignore").decode()))[:STEM_CHARS_MAX].strip("-")
    if not stem:
        raise UsageError("no id can be made of this title: give one with --id")
    return f"{prefix}{stem}"[:NODE_ID_BYTES_MAX]


def _edge(text: str) -> dict[str, str]:
    """Return ``type:node`` as an edge."""
    kind, separator, other = text.partition(":")
    if not separator or not kind:
        raise UsageError(f"--link {text}: write it as type:node, for instance resolves:task-1")
    try:
        return {"type": kind, "to": parse_node_id(other, field="--link")}
    except Invalid as error:
        raise UsageError(error.message) from error


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``."""
    try:
        return read_file(name).decode()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8: {error.reason} at byte {error.start}") from error


def _title(edge: EdgeBody) -> str | None:
    """Return the title of an edge's other end, or why there is none."""
    return edge.title if edge.missing is None else MISSING[edge.missing]


def _standing(node: NodeReply) -> Iterator[tuple[str, str]]:
    """Return what the graph says about a node besides its text."""
    if node.lease is not None:
        what = "reserved by" if node.lease.reserved else "held by"
        yield what, f"{held_by(node.lease)} until {node.lease.expires_at} (epoch {node.lease.epoch})"
    if node.execution_hold is not None:
        yield "under execution", node.execution_hold.execution
    if node.resolution is not None:
        yield "resolved", node.resolution.note
    for other in node.superseded_by or ():
        yield "superseded by", f"{other.id} {other.title}"
    for other in node.open_findings or ():
        yield "open finding", f"{other.id} {other.title}"


def _print_put(answer: Answer[PutReply], common: Common) -> int:
    """Print what became of each entry; return 1, or the code of the only reason, when one failed."""
    results = answer.value.results
    ends = {exit_of_code(result.code or "") for result in results if not result.ok}
    code = Exit.OK if not ends else ends.pop() if len(ends) == 1 else Exit.FAILED
    if common.json:
        print_json(answer.raw)
        return code
    for result in results:
        if result.ok:
            say(f"{result.id} {result.status}")
        else:
            _warn_all(f"{result.id or 'an entry'}: {result.message}", result.details or ())
        _warn_all(None, [f"{result.id}: {warning}" for warning in result.warnings])
    return code


def _print_change(answer: Answer[ChangeReply], done: str, skipped: str, common: Common) -> None:
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    say(f"{reply.id} {done if reply.status == 'updated' else skipped}")
    if reply.lease is not None:
        say(f"{reply.id} is held by {held_by(reply.lease)} until {reply.lease.expires_at} (epoch {reply.lease.epoch})")
    _warn_all(None, reply.warnings)


def _warn_all(first: str | None, rest: Sequence[str]) -> None:
    for line in [first, *rest] if first is not None else rest:
        warn(line)
