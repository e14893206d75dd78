"""Records as a client reads and writes them: `client.records`.

    incident = client.records.get("incidents/inc-4471")
    incident.value("status", str)
    client.records.put("incidents/inc-4471", "status", "mitigated", based_on=[incident.seen("status")])

What is refused is raised as the class of `core.errors` that the server raised:
`AlreadyClaimed` for a task that somebody else has, `StalePremise` for a premise
that holds no more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar, overload

import msgspec

from batonpass.client import record_calls
from batonpass.client.calls import Call
from batonpass.client.client import Client
from batonpass.core.premises import Premise
from batonpass.core.records import RecordPath, parse_record_path
from batonpass.wire.records import FieldBody, RecordReply

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read: the fields that the caller may read, each with its version."""

    path: RecordPath
    version: int
    class_version: int
    fields: Mapping[str, FieldBody]

    @overload
    def value(self, field: str) -> object: ...
    @overload
    def value(self, field: str, as_: type[T]) -> T | None: ...
    def value(self, field: str, as_: type[object] = object) -> object:
        """Return what a register or an append holds, None when nothing was ever written there.

        Raises `msgspec.ValidationError` when it is not an `as_`.
        """
        body = self.fields.get(field)
        return None if body is None or not isinstance(body.value, msgspec.Raw) else decoded(body.value, as_)

    def seen(self, field: str) -> Premise:
        """Return the premise that a field is still as it was read here; version 0 when nothing was written there."""
        body = self.fields.get(field)
        return record_calls.seen(field, 0 if body is None else body.version)


def record_of(reply: RecordReply) -> Record:
    """Return a reply as the record that it shows."""
    return Record(parse_record_path(reply.record), reply.record_version, reply.class_version, reply.fields)


def decoded(value: msgspec.Raw, as_: type[T]) -> T:
    """Return a field's value; raise `msgspec.ValidationError` when it is not an `as_`."""
    return msgspec.json.decode(value) if as_ is object else msgspec.json.decode(value, type=as_)


def _sending(make: Callable[P, Call[T]]) -> Callable[Concatenate[Records, P], T]:
    """Return `make` as a method that sends the call it makes: same arguments, same words, the answer's value."""

    @functools.wraps(make)
    def method(self: Records, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.client.send(make(*args, **kwargs))

    return method


class Records:
    """The calls of `client.record_calls` as methods of a client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def get(self, record: RecordPath | str, *, fields: Sequence[str] = ()) -> Record:
        """Read a record's fields, of those that the caller may read all or the ones named."""
        return record_of(self.client.send(record_calls.get(record, fields=fields)))

    def list(
        self, record_class: str, *, free: str | None = None, holder: str | None = None, page_size: int | None = None
    ) -> Iterator[Record]:
        """Yield a class's records by id, page after page; `record_calls.page` says which."""
        after = None
        while True:
            page = self.client.send(
                record_calls.page(record_class, free=free, holder=holder, limit=page_size, after=after)
            )
            yield from map(record_of, page.records)
            after = page.next
            if after is None:
                return

    def claims(self, record: RecordPath | str) -> Mapping[str, FieldBody]:
        """Read who has which task of a record: every task field that the caller may read and anybody ever claimed."""
        fields = self.client.send(record_calls.get(record)).fields
        return {name: body for name, body in fields.items() if body.held is not None}

    field = _sending(record_calls.field)
    page = _sending(record_calls.page)
    history = _sending(record_calls.history)
    blame = _sending(record_calls.blame)
    put = _sending(record_calls.put)
    append = _sending(record_calls.append)
    write = _sending(record_calls.write)
    delete = _sending(record_calls.delete)
    claim = _sending(record_calls.claim)
    renew = _sending(record_calls.renew)
    release = _sending(record_calls.release)
