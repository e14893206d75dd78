"""The calls about records and their fields (D38); `client.calls` says what a call is.

A record is named by its path, `class/id`, as text or parsed; a name that cannot
be one is refused here, before anything is sent. Whatever changes something takes
`based_on`: what must still hold for it to be done (D33), made by `fence`,
`fence_at` and `seen`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET

from batonpass.client.calls import LEASE_S_MAX, READ_S_MAX, Call, Repeat, body_of, change, query_of
from batonpass.core.errors import Invalid
from batonpass.core.premises import Premise
from batonpass.core.records import RecordPath, parse_class_name, parse_field_name, parse_record_path
from batonpass.wire import paths, records

T = TypeVar("T")

# --- premises --------------------------------------------------------------------------------------------------------


def fence(field: str, epoch: int) -> Premise:
    """Return the premise that the caller still has this tenure of a task. Renewals leave it whole."""
    return Premise(parse_field_name(field), epoch=epoch, fence=True)


def fence_at(field: str, version: int) -> Premise:
    """Return the premise that the caller still has a task and that it is at this version: its last answer's."""
    return Premise(parse_field_name(field), version=version, fence=True)


def seen(field: str, version: int) -> Premise:
    """Return the premise that a field is still as it was read, at this version."""
    return Premise(parse_field_name(field), version=version)


# --- reads -----------------------------------------------------------------------------------------------------------


def get(record: RecordPath | str, *, fields: Sequence[str] = ()) -> Call[records.RecordReply]:
    """Read a record's fields, of those that the caller may read all or the ones named."""
    return Call("GET", _filled(paths.RECORD, record), records.RecordReply, query_of(fields=fields))


def field(
    record: RecordPath | str, name: str, *, wait: int = 0, version: int | None = None, held: bool | None = None
) -> Call[records.FieldReply]:
    """Read one field; with `wait` when it is no longer at `version`, after so many seconds at the latest.

    `held` says whether a task was held when it was seen, so that a lapse between the two is no news missed.
    """
    query = query_of(wait=wait or None, version=version, held=None if held is None else int(held))
    path = _filled(paths.RECORD_FIELD, record, name)
    return Call("GET", path, records.FieldReply, query, answer_s_max=READ_S_MAX + wait)


def page(
    record_class: str,
    *,
    free: str | None = None,
    holder: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[records.RecordsReply]:
    """List a class's records by id: with `free` those whose task of that name nobody has.

    With `holder` those of which somebody, an identity or ``me``, has a task.
    """
    path = paths.fill(paths.RECORDS, record_class=parse_class_name(record_class))
    free = free if free is None else parse_field_name(free)
    query = query_of(free=free, holder=holder, limit=limit, after=after)
    return Call("GET", path, records.RecordsReply, query)


def history(
    record: RecordPath | str, *, limit: int | None = None, before: int | None = None, values: bool = False
) -> Call[records.RecordHistoryReply]:
    """List what was done to a record, newest first; with `values` what was written as well."""
    query = query_of(limit=limit, before=before, values=values)
    return Call("GET", _filled(paths.RECORD_HISTORY, record), records.RecordHistoryReply, query)


def blame(record: RecordPath | str) -> Call[records.RecordBlameReply]:
    """Ask who wrote each field last."""
    return Call("GET", _filled(paths.RECORD_BLAME, record), records.RecordBlameReply)


# --- writes ----------------------------------------------------------------------------------------------------------


def put(
    record: RecordPath | str, name: str, value: object, *, based_on: Sequence[Premise] = ()
) -> Call[records.FieldWriteReply]:
    """Put a register's value; the record is made when it is not there."""
    request = records.ValueRequest(value=_whole(value, name), based_on=_premises(based_on))
    return change("PUT", _filled(paths.RECORD_FIELD, record, name), request, records.FieldWriteReply)


def append(
    record: RecordPath | str, name: str, value: object, *, based_on: Sequence[Premise] = ()
) -> Call[records.FieldWriteReply]:
    """Append to a list that only grows; the reply's `index` is the place."""
    request = records.ValueRequest(value=_whole(value, name), based_on=_premises(based_on))
    return change("POST", _filled(paths.RECORD_FIELD, record, name), request, records.FieldWriteReply)


def write(
    record: RecordPath | str, writes: Sequence[Mapping[str, object]], *, based_on: Sequence[Premise] = ()
) -> Call[records.WritesReply]:
    """Make several writes or none of them, each `{"field": …, "put": …}` or `{"field": …, "append": …}`."""
    whole = [{key: _whole(value, str(each.get("field"))) for key, value in each.items()} for each in writes]
    request = records.WritesRequest(writes=whole, based_on=_premises(based_on))
    return change("POST", _filled(paths.RECORD, record), request, records.WritesReply)


def delete(record: RecordPath | str, *, based_on: Sequence[Premise] = ()) -> Call[records.DeleteRecordReply]:
    """Delete a record: its values go, its history stays, its versions never come back (D32)."""
    request = records.DeleteRecordRequest(based_on=_premises(based_on))
    return change("DELETE", _filled(paths.RECORD, record), request, records.DeleteRecordReply)


# --- tasks -----------------------------------------------------------------------------------------------------------


def claim(
    record: RecordPath | str, name: str, *, lease_s: int | None = None, based_on: Sequence[Premise] = ()
) -> Call[records.TaskReply]:
    """Claim a task for `lease_s` seconds, the class's lease without it.

    Who has the task is answered what it has, so a second sending after a lost
    answer changes nothing; only `took_over_from` is told by the first alone.
    """
    request = records.TaskRequest(lease_seconds=_lease(lease_s), based_on=_premises(based_on))
    return _task(record, name, request, Repeat.SAFE)


def renew(
    record: RecordPath | str, name: str, *, lease_s: int | None = None, based_on: Sequence[Premise] = ()
) -> Call[records.TaskReply]:
    """Move the end of a lease away. Without a fence among the premises a free task is claimed."""
    request = records.TaskRequest(lease_seconds=_lease(lease_s), renew=True, based_on=_premises(based_on))
    return _task(record, name, request, _repeat(based_on))


def release(record: RecordPath | str, name: str, *, based_on: Sequence[Premise] = ()) -> Call[records.TaskReply]:
    """Hand a task back. With a fence a second sending is told that the tenure is over, and ends no other."""
    request = records.TaskRequest(lease_seconds=0, based_on=_premises(based_on))
    return _task(record, name, request, _repeat(based_on))


def _task(record: RecordPath | str, name: str, request: records.TaskRequest, repeat: Repeat) -> Call[records.TaskReply]:
    path = _filled(paths.RECORD_CLAIM, record, name)
    return Call("PUT", path, records.TaskReply, body=body_of(request), repeat=repeat, answer_s_max=LEASE_S_MAX)


def _lease(lease_s: int | None) -> object:
    return UNSET if lease_s is None else lease_s


def _repeat(based_on: Sequence[Premise]) -> Repeat:
    """Return how a lease verb may be repeated: pinned to a tenure it is idempotent, without it it could acquire."""
    return Repeat.SAFE if any(premise.fence for premise in based_on) else Repeat.NEVER


def _whole(value: T, field: str) -> T:
    """Return what is to be written; `Invalid` for a float that JSON has no number for, which would be sent as null."""
    match value:
        case float() if not math.isfinite(value):
            raise Invalid(f"{field}: {value} is no JSON number; write null, or a text, if that is what is meant")
        case dict():
            for each in value.values():
                _whole(each, field)
        case list() | tuple():
            for each in value:
                _whole(each, field)
        case _:
            pass
    return value


def _premises(based_on: Sequence[Premise]) -> list[dict[str, object]] | None:
    return [premise.as_sent() for premise in based_on] or None


def _filled(template: str, record: RecordPath | str, name: str | None = None) -> str:
    """Return a path of `template`, whose class, id and, where it has one, field are these."""
    path = parse_record_path(record) if isinstance(record, str) else record
    names = {} if name is None else {"field": parse_field_name(name)}
    return paths.fill(template, record_class=path.record_class, id=path.id, **names)
