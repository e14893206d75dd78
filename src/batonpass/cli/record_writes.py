"""`baton record put`, `append` and `delete`. A value is JSON, so that nobody has to guess what a word was read as."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import ask
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, STDIN, Common, FileArg, Flag
from batonpass.cli.premises import NO_PREMISES, Premises
from batonpass.cli.records import FieldArg, RecordArg
from batonpass.cli.render import print_json, say
from batonpass.client import record_calls

SHOWN: Final = 40
"""How much of a value that can't be read is quoted, in characters."""
ValueArg = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


def put(
    record: RecordArg,
    field: FieldArg,
    value: ValueArg = None,
    /,
    *,
    text: Flag = False,
    file: FileArg | None = None,
    premises: Premises = NO_PREMISES,
    common: Common = COMMON,
) -> None:
    """Put a register's value. A record that is not there is made.

    VALUE is JSON: 5, true, null, '"mitigated"', '{"step": 3}'. A plain word is
    none and is refused, not guessed at: say --text for a value that is text as it stands.

    Args:
        record: which, as class/id.
        field: which of its registers.
        value: the value as JSON; - reads it from standard input.
        text: the value is this very text, and no JSON.
        file: read the value from this file.

    """
    call = record_calls.put(record, field, given(value, file, text=text), based_on=premises.based_on())
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
    else:
        done = answer.value
        say(f"{record} {field} is put, at version {done.version}; the record is at version {done.record_version}")


def append(
    record: RecordArg,
    field: FieldArg,
    value: ValueArg = None,
    /,
    *,
    text: Flag = False,
    file: FileArg | None = None,
    premises: Premises = NO_PREMISES,
    common: Common = COMMON,
) -> None:
    """Append a value to a list that only grows. A record that is not there is made.

    VALUE is JSON, as `baton record put` has it; --text for text as it stands.

    Args:
        record: which, as class/id.
        field: which of its lists.
        value: the value as JSON; - reads it from standard input.
        text: the value is this very text, and no JSON.
        file: read the value from this file.

    """
    call = record_calls.append(record, field, given(value, file, text=text), based_on=premises.based_on())
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
    else:
        done = answer.value
        say(f"{record} {field} has a new value at {done.index}; it is at version {done.version}")


def delete(record: RecordArg, /, *, premises: Premises = NO_PREMISES, common: Common = COMMON) -> None:
    """Delete a record: its values go, its tasks end, its history stays.

    When it is written again its versions go on where they were.

    Args:
        record: which, as class/id.

    """
    answer = ask(common, record_calls.delete(record, based_on=premises.based_on()))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{record} is deleted, at version {answer.value.record_version}")


def given(value: str | None, file: Path | None, *, text: bool) -> msgspec.Raw:
    """Return the value that a command was given, as JSON; `UsageError` when it is none, or was given twice."""
    if (value is None) is (file is None):
        raise UsageError("give a value, or a file with --file; - reads standard input")
    raw, source = _read(value, file)
    try:
        words = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 at byte {error.start + 1}") from error
    if text:
        return msgspec.Raw(msgspec.json.encode(words))
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        short = words if len(words) <= SHOWN else f"{words[:SHOWN]}…"
        raise UsageError(
            f"{short!r} ({source}) is not JSON: {error}; say --text for a text as it stands, or put it in double quotes"
        ) from error
    return msgspec.Raw(raw)


def _read(value: str | None, file: Path | None) -> tuple[bytes, str]:
    """Return what was given, and where it came from, for people."""
    if file is not None:
        return file.read_bytes(), str(file)
    assert value is not None
    if value == STDIN:
        return sys.stdin.buffer.read(), "standard input"
    return value.encode(), "the value"
