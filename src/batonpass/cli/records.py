"""`baton record …`: records and their fields, from the command line; here what only reads, and the list of all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter, Token

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Flag, checked
from batonpass.cli.render import Column, again, clean, cut_short, print_json, print_table, say, span, warn, width
from batonpass.client import record_calls
from batonpass.core.records import (
    ClassName,
    FieldName,
    RecordPath,
    parse_class_name,
    parse_field_name,
    parse_record_path,
)
from batonpass.wire.records import FieldBody, HistoryEntryBody, RecordReply

CLAIM_WIDTH: Final = 20
"""How wide names and owners are in the list of a record's claims, unless one of them is wider."""
SECONDS: Final = 19
"""Characters of a time as far as its seconds."""
GET_COLUMNS: Final = (
    Column("field"),
    Column("value", cut=True),
    Column("version"),
    Column("author"),
    Column("updated at"),
)
LIST_COLUMNS: Final = (Column("record"), Column("version"), Column("tasks"), Column("values", cut=True))
HISTORY_COLUMNS: Final = (
    Column("n"),
    Column("when"),
    Column("author"),
    Column("verb"),
    Column("field"),
    Column("version"),
    Column("value", cut=True),
    Column("note", cut=True),
)
BLAME_COLUMNS: Final = (
    Column("field"),
    Column("version"),
    Column("author"),
    Column("when"),
    Column("verb"),
    Column("n"),
)


def _record(_type: object, tokens: tuple[Token, ...]) -> RecordPath:
    return checked(parse_record_path, tokens[0], "record")


def _field(_type: object, tokens: tuple[Token, ...]) -> FieldName:
    return checked(parse_field_name, tokens[0], "field")


def _class(_type: object, tokens: tuple[Token, ...]) -> ClassName:
    return checked(parse_class_name, tokens[0], "class")


RecordArg = Annotated[RecordPath, Parameter(converter=_record, n_tokens=1, accepts_keys=False)]
"""Which record: `class/id`."""
FieldArg = Annotated[FieldName, Parameter(converter=_field)]
"""A field's name."""
ClassArg = Annotated[ClassName, Parameter(converter=_class)]
"""A class's name."""

app = App(
    name="record",
    help="Records: read and write their fields, and claim their tasks.",
    version_flags=[],
)
for _name, _path, _words in (
    ("put", "record_writes:put", "Put a register's value."),
    ("append", "record_writes:append", "Append a value to a list that only grows."),
    ("delete", "record_writes:delete", "Delete a record: its values go, its history stays."),
    ("claim", "record_tasks:claim", "Claim a task for yourself."),
    ("renew", "record_tasks:renew", "Renew your lease on a task: its end moves away, never nearer."),
    ("release", "record_tasks:release", "Hand a task back."),
    ("watch", "record_watch:watch", "Follow what happens to a record, or to one field of it."),
):
    app.command(f"batonpass.cli.{_path}", name=_name, help=_words)


@app.command(name="get")
def get(record: RecordArg, /, *fields: FieldArg, common: Common = COMMON) -> None:
    """Show a record: the fields that you may read, each with its version and who wrote it.

    Args:
        record: which, as class/id.
        fields: only these.

    """
    answer = ask(common, record_calls.get(record, fields=fields))
    if common.json:
        print_json(answer.raw)
        return
    shown = answer.value
    say(f"{shown.record} is at version {shown.record_version}, its class was at version {shown.class_version}")
    rows = [
        (name, _content(body), str(body.version), body.author, _seconds(body.updated_at))
        for name, body in shown.fields.items()
    ]
    print_table(GET_COLUMNS, rows, empty="nothing that you may read is written in it yet")


@app.command(name="list")
def list_(
    record_class: ClassArg,
    /,
    *,
    free: FieldArg | None = None,
    holder: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List a class's records, in order of their ids.

    Args:
        record_class: of which class.
        free: only records whose task of this name nobody has.
        holder: only records of which this identity has a task, agent:agent-mill say; "me" for your own.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    answer = ask(common, record_calls.page(record_class, free=free, holder=holder, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    rows = [(each.record, str(each.record_version), _tasks(each), _values(each)) for each in answer.value.records]
    print_table(LIST_COLUMNS, rows, empty=f"there is no such record of {record_class}")
    cut_short(len(rows), again(f"baton record list {record_class}", free=free, holder=holder), after=answer.value.next)


@app.command(name="history")
def history(
    record: RecordArg,
    /,
    *,
    values: Flag = False,
    limit: int | None = None,
    before: int | None = None,
    common: Common = COMMON,
) -> None:
    """List what was done to a record, newest first: by whom, at which version, on what premises.

    Args:
        record: which, as class/id; it may have been deleted.
        values: show what was written, too.
        limit: how many at most.
        before: begin before this number, as the end of a list that was cut names it.

    """
    answer = ask(common, record_calls.history(record, limit=limit, before=before, values=values))
    if common.json:
        print_json(answer.raw)
        return
    page = answer.value
    rows = [
        (
            str(each.n),
            _seconds(each.at),
            each.author,
            each.verb,
            each.field,
            _number(each.version),
            shown_value(each),
            _note(each),
        )
        for each in page.entries
    ]
    print_table(HISTORY_COLUMNS, rows, empty="nothing was done to it yet")
    if page.next is not None:
        more = again(f"baton record history {record}", values=values)
        say(f"… only the first {len(rows)} of this list; more: {more} --before {page.next}")


@app.command(name="blame")
def blame(record: RecordArg, /, *, common: Common = COMMON) -> None:
    """Show of every field who wrote it last, and when.

    Args:
        record: which, as class/id.

    """
    answer = ask(common, record_calls.blame(record))
    if common.json:
        print_json(answer.raw)
        return
    rows = [
        (name, str(each.version), each.author, _seconds(each.updated_at), each.verb, _number(each.n))
        for name, each in answer.value.fields.items()
    ]
    print_table(BLAME_COLUMNS, rows, empty="nothing that you may read is written in it yet")


@app.command(name="claims")
def claims(record: RecordArg, /, *, common: Common = COMMON) -> None:
    """Show who has which task of a record, until when: held, lapsed, or free.

    Args:
        record: which, as class/id.

    """
    answer = ask(common, record_calls.get(record))
    tasks = {name: body for name, body in answer.value.fields.items() if is_task(body)}
    if common.json:
        print_json(msgspec.json.encode(msgspec.structs.replace(answer.value, fields=tasks)))
        return
    for line in claim_lines(tasks):
        say(line)
    if not tasks:
        say(f"nobody has ever claimed a task of {record} that you may see")
        warn(f"which it has: baton class show {record.record_class}")


def is_task(body: FieldBody) -> bool:
    """Whether a field is a task: those alone have no value."""
    return not isinstance(body.value, msgspec.Raw)


def claim_lines(tasks: Mapping[str, FieldBody]) -> Iterator[str]:
    """Yield a line for each task: field, owner, expiry, version, and what has become of it."""
    wide = max([CLAIM_WIDTH, *map(width, tasks)])
    owners = {name: clean(body.owner or "-") for name, body in tasks.items()}
    wide_owner = max([CLAIM_WIDTH, *map(width, owners.values())])
    for name, body in tasks.items():
        expiry = f"lease_expires_at={body.lease_expires_at}" if body.lease_expires_at is not None else ""
        parts = (name.ljust(wide), owners[name].ljust(wide_owner), expiry, f"v{body.version}", f"({state_of(body)})")
        yield " ".join(filter(None, parts))


def state_of(body: FieldBody) -> str:
    """Return in a word what has become of a task."""
    if body.owner is None:
        return "free"
    return "held" if body.held else "lapsed"


def shown_value(body: FieldBody | HistoryEntryBody) -> str | None:
    """Return a value as JSON on one line, None where there is none, as of a task."""
    return msgspec.json.encode(body.value).decode() if isinstance(body.value, msgspec.Raw) else None


def _content(body: FieldBody) -> str | None:
    """Return what there is to see of a field: its value, or who has it."""
    if not is_task(body):
        return shown_value(body)
    if body.owner is None:
        return "(free)"
    left = f" for {span(body.expires_in_ms)}" if body.held and body.expires_in_ms is not None else ""
    return f"({state_of(body)} by {body.owner}{left}, epoch {body.epoch})"


def _tasks(record: RecordReply) -> str | None:
    tasks = (
        f"{name} {state_of(body)}" + (f" by {body.owner}" if body.owner is not None else "")
        for name, body in record.fields.items()
        if is_task(body)
    )
    return ", ".join(tasks) or None


def _values(record: RecordReply) -> str | None:
    values = (f"{name} {shown}" for name, body in record.fields.items() if (shown := shown_value(body)) is not None)
    return ", ".join(values) or None


def _note(entry: HistoryEntryBody) -> str | None:
    taken = [f"took over from {entry.took_over_from}"] if entry.took_over_from is not None else []
    return ", ".join(itertools.chain(taken, map(_premise, entry.based_on))) or None


def _premise(premise: Mapping[str, object]) -> str:
    at = f"@{premise['version']}" if "version" in premise else f", epoch {premise.get('epoch')}"
    return f"{'under' if premise.get('kind') == 'fence' else 'seen'} {premise.get('field')}{at}"


def _seconds(at: str | None) -> str | None:
    return at[:SECONDS] if at is not None else None


def _number(number: int | None) -> str | None:
    return str(number) if number is not None else None
