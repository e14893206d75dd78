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
from batonpass.core.ids import parse_node_id
from batonpass.core.records import parse_class_name, parse_field_name, parse_record_path
from batonpass.wire.events import FROM_NOW, EventBody

LATELY: Final = "1h"
COLUMNS: Final = (
    Column("at"),
    Column("kind"),
    Column("about"),
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
    record: str | None = None,
    record_class: Annotated[str | None, Parameter(name="--class")] = None,
    field: str | None = None,
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
        record: only this record's, as CLASS/ID, and of it what you may read.
        record_class: only those of records of this class.
        field: only those of a record's field of this name.
        limit: how many at most; 100 unless given.

    """
    about = feed_calls.About(
        project=project,
        kinds=kinds or (),
        node=parse_node_id(node, field="node") if node is not None else None,
        record=parse_record_path(record) if record is not None else None,
        record_class=parse_class_name(record_class) if record_class is not None else None,
        field=parse_field_name(field) if field is not None else None,
    )
    if follow:
        _follow(common, since=_begin(since or FROM_NOW), about=about)
        return
    asked = feed_calls.get_events(after=_begin(since or LATELY), limit=limit, **about)
    answer = ask(common, asked)
    if common.json:
        print_json(answer.raw)
        return
    empty = "nothing happened" if since is not None else f"nothing happened{LATELY_ONLY}"
    print_table(COLUMNS, [_row(event) for event in answer.value.events], empty=empty)
    if answer.value.more:
        most = None if limit is None else str(limit)
        options = {"kind": kinds, "node": node, "record": record, "class": record_class, "field": field, "limit": most}
        same = again("baton events", project=project, **options)
        say(f"there is more: {same} --since {answer.value.next}")


def _follow(common: Common, *, since: str, about: feed_calls.About) -> None:
    with connected(common) as client:
        for event in feed.follow(client, after=since, **about):
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
    version = [f"v{event.version}"] if event.version is not None else []
    return event.at, event.kind, _about(event), event.project, event.actor, ", ".join([*version, *epoch, *what]) or None


def _about(event: EventBody) -> str | None:
    """Return the node, the record or the record's field that it is about."""
    if event.record is None or event.field is None:
        return event.node or event.record
    return f"{event.record}#{event.field}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
