"""Records: reading them, and every write but those of tasks (D38)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET
from starlette.responses import Response

from batonpass.core.clock import MICROS_PER_MS, iso
from batonpass.core.errors import Invalid
from batonpass.core.ids import Instant, json_type, parse_label, shown
from batonpass.core.premises import parse_premises
from batonpass.core.record_waits import FieldAt
from batonpass.core.record_writes import WRITES_MAX, Write, WriteVerb, require_short, require_sound
from batonpass.core.records import (
    FieldKind,
    FieldName,
    Identity,
    RecordPath,
    holder_of,
    parse_class_name,
    parse_field_name,
    parse_record_id,
)
from batonpass.server.http.call import Call, changed, flag, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.http.record_waits import when_moved
from batonpass.server.services.record_pages import Filter
from batonpass.server.services.records import SeenField, SeenRecord
from batonpass.store.record_history import Entry, Last
from batonpass.wire import records as wire
from batonpass.wire.record_values import raw_items, raw_value, value_text, write_texts

FIELDS_NAMED_MAX: Final = 100
LIMIT_DEFAULT: Final = 50


def path_of(call: Call) -> RecordPath:
    """Return which record the path names."""
    named = call.request.path_params
    return RecordPath(parse_class_name(named["record_class"]), parse_record_id(named["id"]))


def field_of(call: Call) -> FieldName:
    """Return which field the path names."""
    return parse_field_name(call.request.path_params["field"])


# --- reading ---------------------------------------------------------------------------------------------------------


async def get(call: Call) -> Response:
    """Read a record: all of its fields that the caller may read, or those that are named."""
    found = await call.services.records.get(call.principal, path_of(call), _named_fields(call))
    return reply(record_body(found.records[0], found.now))


async def get_field(call: Call) -> Response:
    """Read one field of a record, at once or when it moves."""
    path, name = path_of(call), field_of(call)
    found = await when_moved(call, FieldAt(path, name))
    return reply(field_reply(found.records[0], name, found.now))


def record_body(record: SeenRecord, now: Instant) -> wire.RecordReply:
    """Return a record as it goes over the wire."""
    fields: Mapping[str, wire.FieldBody] = {name: field_body(seen, now) for name, seen in record.fields.items()}
    return wire.RecordReply(str(record.path), record.class_version, record.version, dict(fields))


def field_reply(record: SeenRecord, name: FieldName, now: Instant) -> wire.FieldReply:
    """Return one field as it goes over the wire by itself."""
    body = field_body(record.fields[name], now)
    told = {each: getattr(body, each) for each in wire.FieldBody.__struct_fields__}
    return wire.FieldReply(**told, record=str(record.path), field=name, record_version=record.version)


def field_body(seen: SeenField, now: Instant) -> wire.FieldBody:
    """Return a field as it goes over the wire; an append has its items as an array."""
    body = wire.FieldBody(seen.version, seen.author, iso(seen.updated_at) if seen.updated_at is not None else None)
    match seen.kind:
        case FieldKind.REGISTER:
            body.value = raw_value(seen.value) if seen.value is not None else UNSET
        case FieldKind.APPEND:
            body.value = raw_items(seen.items)
        case FieldKind.TASK:
            _show_holder(body, seen, now)
    return body


def _show_holder(body: wire.FieldBody, seen: SeenField, now: Instant) -> None:
    lease = seen.lease
    body.held = lease is not None and now < lease.expires_at
    if lease is None:
        return
    body.owner = seen.author
    body.epoch = lease.epoch
    body.lease_expires_at = iso(lease.expires_at)
    body.expires_in_ms = max(0, (lease.expires_at - now) // MICROS_PER_MS)


def _named_fields(call: Call) -> list[FieldName]:
    text = call.query.get("fields")
    if text is None:
        return []
    names = [parse_field_name(name, field="fields") for name in text.split(",")]
    if len(names) > FIELDS_NAMED_MAX:
        raise Invalid(f"fields: {len(names)} names; the limit is {FIELDS_NAMED_MAX}", field="fields")
    return list(dict.fromkeys(names))


async def listed(call: Call) -> Response:
    """List a class's records by id: all, those of which a task is free, or those of which somebody holds one."""
    asked = call.query
    found = await call.services.record_pages.page(
        call.principal,
        parse_class_name(call.request.path_params["record_class"]),
        _filter(call),
        after=parse_record_id(asked["after"], field="after") if "after" in asked else "",
        limit=whole_number(asked.get("limit"), "limit", default=LIMIT_DEFAULT),
    )
    now = found.look.now
    return reply(wire.RecordsReply([record_body(record, now) for record in found.look.records], found.next))


def _filter(call: Call) -> Filter:
    free, holder = call.query.get("free"), call.query.get("holder")
    if free is not None and holder is not None:
        raise Invalid("holder: a task that is free has none; ask for free or for holder", field="holder")
    if holder is not None:
        who = call.principal.id if holder == "me" else holder_of(Identity(parse_label(holder, field="holder")))
        return Filter(holder=who)
    return Filter(free=parse_field_name(free, field="free") if free is not None else None)


async def history(call: Call) -> Response:
    """List what was done to a record, newest first, on fields that the caller may read; of a deleted one too."""
    path, before = path_of(call), call.query.get("before")
    found = await call.services.record_histories.page(
        call.principal,
        path,
        before=whole_number(before, "before", default=1) if before is not None else None,
        limit=whole_number(call.query.get("limit"), "limit", default=LIMIT_DEFAULT),
        with_values=flag(call.query, "values"),
    )
    return reply(wire.RecordHistoryReply(str(path), [_entry_body(entry) for entry in found.entries], found.next))


def _entry_body(entry: Entry) -> wire.HistoryEntryBody:
    return wire.HistoryEntryBody(
        n=entry.n,
        at=iso(entry.at),
        author=entry.author,
        verb=entry.verb,
        field=entry.field,
        version=entry.version,
        record_version=entry.record_version,
        based_on=[dict(premise) for premise in entry.based_on],
        took_over_from=entry.took_over_from,
        value=raw_value(entry.value) if entry.value is not None else UNSET,
    )


async def blame(call: Call) -> Response:
    """Say who wrote each field of a record last, of those that the caller may read."""
    path = path_of(call)
    found = await call.services.record_histories.blame(call.principal, path)
    fields: dict[str, wire.BlameBody] = {name: _blame_body(*each) for name, each in found.fields.items()}
    return reply(wire.RecordBlameReply(str(path), found.record_version, fields))


def _blame_body(seen: SeenField, last: Last | None) -> wire.BlameBody:
    """Return whose word stands: a task's holder's while somebody has it, else that of the last entry of history."""
    author = seen.author if seen.author is not None or last is None else last.author
    at = seen.updated_at if seen.updated_at is not None or last is None else last.at
    return wire.BlameBody(
        version=seen.version,
        author=author,
        updated_at=iso(at) if at is not None else None,
        verb=last.verb if last is not None else None,
        n=last.n if last is not None else None,
    )


# --- writing ---------------------------------------------------------------------------------------------------------


async def put(call: Call) -> Response:
    """Put a value into a register of a record, which is made if it is not there."""
    return await _write(call, WriteVerb.PUT)


async def append(call: Call) -> Response:
    """Append an item to a field of a record, which is made if it is not there."""
    return await _write(call, WriteVerb.APPEND)


async def _write(call: Call, verb: WriteVerb) -> Response:
    path, name, body = path_of(call), field_of(call), await call.body(wire.ValueRequest)
    require_sound(body.value.value, field="value")
    text = value_text(body.raw)
    require_short(text, field="value")
    write = Write(name, verb, text, body.value.value)
    premises = parse_premises(body.value.based_on)
    return changed(
        await call.services.record_writes.write(call.caller(body.raw), path, write, premises=premises),
        ignored=body.ignored,
    )


async def write_all(call: Call) -> Response:
    """Do several writes to a record at once, all of them or none: each puts a register or appends an item."""
    path, body = path_of(call), await call.body(wire.WritesRequest)
    writes = _writes(body.value.writes, body.raw)
    premises = parse_premises(body.value.based_on)
    return changed(
        await call.services.record_writes.write_all(call.caller(body.raw), path, writes, premises=premises),
        ignored=body.ignored,
    )


async def delete(call: Call) -> Response:
    """Delete a record: its values go and its tasks are nobody's; versions go on where they were if it is made again."""
    path, body = path_of(call), await call.body(wire.DeleteRecordRequest)
    premises = parse_premises(body.value.based_on)
    return changed(
        await call.services.record_writes.delete(call.caller(body.raw), path, premises=premises), ignored=body.ignored
    )


def _writes(value: object, raw: bytes) -> list[Write]:
    if not isinstance(value, list):
        raise Invalid(f"writes: must be an array, not {json_type(value)}", field="writes")
    if not 1 <= len(value) <= WRITES_MAX:
        raise Invalid(f"writes: {len(value)} writes; it takes 1 to {WRITES_MAX}", field="writes")
    heads = [_head_of(entry, f"writes[{i}]") for i, entry in enumerate(value)]
    texts = write_texts(raw)
    writes = []
    for i, (name, verb) in enumerate(heads):
        require_short(texts[i][verb], field=f"writes[{i}].{verb}")
        writes.append(Write(name, verb, texts[i][verb], value[i][verb]))
    _require_one_put_each(writes)
    return writes


def _head_of(entry: object, where: str) -> tuple[FieldName, WriteVerb]:
    """Return which field a write is of, and its verb; its value is looked at as far as it can be before it is cut."""
    if not isinstance(entry, dict):
        raise Invalid(f"{where}: must be an object, not {json_type(entry)}", field=where)
    verbs = [verb for verb in WriteVerb if verb in entry]
    unknown = next((name for name in entry if name != "field" and name not in verbs), None)
    if unknown is not None:
        raise Invalid(f"{where}: {shown(unknown)} is none of field, put, append", field=where)
    if "field" not in entry or len(verbs) != 1:
        raise Invalid(f"{where}: takes a field, and either put or append", field=where)
    (verb,) = verbs
    require_sound(entry[verb], field=f"{where}.{verb}")
    return parse_field_name(entry["field"], field=f"{where}.field"), verb


def _require_one_put_each(writes: list[Write]) -> None:
    puts = [write.field for write in writes if write.verb is WriteVerb.PUT]
    twice = next((name for name in puts if puts.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"writes: {twice} is put twice; only one of the values would be left", field="writes")
