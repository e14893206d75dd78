"""`baton record watch`: what happens to a record from now on, a line each."""

from __future__ import annotations

import itertools
import sys
from typing import Final

import msgspec

from batonpass.cli.context import connected
from batonpass.cli.options import COMMON, Common, Count
from batonpass.cli.records import FieldArg, RecordArg
from batonpass.cli.render import clean, print_json, say, warn
from batonpass.client import feed, record_calls
from batonpass.client.client import Client
from batonpass.core.errors import NotFound
from batonpass.core.records import FieldName, RecordPath
from batonpass.wire.events import EventBody

GAP: Final = "  "
WORDLESS: Final = frozenset({"{}", "null"})
"""What an event's data is that says nothing more."""


def watch(
    record: RecordArg, field: FieldArg | None = None, /, *, count: Count | None = None, common: Common = COMMON
) -> None:
    """Follow what happens to a record, or to one field of it, from now on, until interrupted.

    Renewals are no news; whatever else is done to a field that you may read is a line.

    Args:
        record: which, as class/id.
        field: only this field.
        count: end after so many.

    """
    with connected(common) as client:
        _require_to_be_seen(client, record, field)
        following = feed.follow(client, record=record, field=field)
        sys.stdout.flush()
        warn(f"watching {record}{f' {field}' if field is not None else ''}")
        sys.stderr.flush()
        for event in itertools.islice(following, count):
            if common.json:
                print_json(msgspec.json.encode(event))
            else:
                say(line_of(event))
            sys.stdout.flush()


def _require_to_be_seen(client: Client, record: RecordPath, field: FieldName | None) -> None:
    """Refuse what would be waited for in vain: another class, or field, than there is, or than one may read.

    The record itself may be made later.
    """
    try:
        client.send(record_calls.get(record) if field is None else record_calls.field(record, field))
    except NotFound as error:
        if error.field != "record":
            raise


def line_of(event: EventBody) -> str:
    """Return an event of a record in one line: when, what, of which field, at which version, by whom."""
    data = bytes(event.data).decode()
    parts = (
        event.at,
        event.kind,
        event.field or "-",
        f"v{event.version}" if event.version is not None else "-",
        event.actor,
        "" if data in WORDLESS else data,
    )
    return clean(GAP.join(filter(None, parts)))
