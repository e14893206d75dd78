"""`baton events`: what happened lately, or what happens from now on."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import ask, connected
from batonpass.cli.options import COMMON, Common
from batonpass.cli.render import Column, again, print_json, print_table, say
from batonpass.client import feed, feed_calls
from batonpass.core.durations import parse_duration
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, parse_node_id
from batonpass.wire.events import FROM_NOW, EventBody

LATELY: Final = "1h"
COLUMNS: Final = (
    Column("at"),
    Column("kind"),
    Column("node"),
    Column("project"),
    Column("by"),
    Column("what", cut=True),
)
GAP: Final = "  "
LATELY_ONLY: Final = " in the last hour; further back: baton events --since 3d"
"""What to say of nothing when nobody has said since when."""


def events(
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=(), show_default=False)] = False,
    since: str | None = None,
    project: str | None = None,
    kinds: Annotated[list[str] | None, Parameter(name="--kind", negative=())] = None,
    node: str | None = None,
    limit: int | None = None,
    common: Common = COMMON,
) -> None:
    """Show what happened, and with --follow what happens from now on.

    Args:
        follow: go on with what happens from now on, until interrupted; with --json one event a line.
        since: begin so long ago, as 2h or 3d, or at a moment with its offset, or behind a position, the `next` of an
            answer; the last hour unless given, and with --follow now.
        project: only this project's.
        kinds: only events of this kind, node.status say, or of a family, lease say; may be given several times.
        node: only this node's.
        limit: how many at most; 100 unless given.

    """
    about = parse_node_id(node, field="node") if node is not None else None
    if follow:
        _follow(common, since=_begin(since or FROM_NOW), project=project, kinds=kinds or (), node=about)
        return
    asked = feed_calls.get_events(
        after=_begin(since or LATELY), project=project, kinds=kinds or (), node=about, limit=limit
    )
    answer = ask(common, asked)
    if common.json:
        print_json(answer.raw)
        return
    empty = "nothing happened" if since is not None else f"nothing happened{LATELY_ONLY}"
    print_table(COLUMNS, [_row(event) for event in answer.value.events], empty=empty)
    if answer.value.more:
        most = None if limit is None else str(limit)
        same = again("baton events", project=project, kind=kinds, node=about, limit=most)
        say(f"there is more: {same} --since {answer.value.next}")


def _follow(
    common: Common, *, since: str, project: str | None, kinds: list[str] | tuple[()], node: NodeId | None
) -> None:
    with connected(common) as client:
        for event in feed.follow(client, after=since, project=project, kinds=kinds, node=node):
            if common.json:
                print_json(msgspec.json.encode(event))
            else:
                say(GAP.join(part or "-" for part in _row(event)))
            sys.stdout.flush()


def _begin(since: str) -> str:
    """Return where to begin as the server takes it: a duration is counted back from now."""
    try:
        return (datetime.now(UTC) - parse_duration(since, field="since")).isoformat()
    except Invalid:  # then it is a moment or a position, which are the server's to read
        return since


def _row(event: EventBody) -> tuple[str, str, str | None, str | None, str, str | None]:
    data = msgspec.json.decode(event.data)
    what = [f"{name} {_shown(value)}" for name, value in data.items()] if isinstance(data, dict) else []
    epoch = [f"epoch {event.epoch}"] if event.epoch is not None else []
    return event.at, event.kind, event.node, event.project, event.actor, ", ".join([*epoch, *what]) or None


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
