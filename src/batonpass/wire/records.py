"""Records and their task fields on the wire (task-fields specification, D33 to D38).

Bodies and replies of `/v1/records`, and the one flat error shape that these
routes have:

    {"error": "HELD", "message": "…", "field": "…", "owner": "…", "lease_expires_at": "…", "version": 1}

What a body may hold is refused in the words of `core`, never of the decoder,
so its values are `Any` here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

# --- requests --------------------------------------------------------------------------------------------------------


class ValueRequest(msgspec.Struct, kw_only=True):
    """Body of `PUT` and `POST R/fields/{f}`: what to put, or what to append."""

    verbatim: ClassVar[frozenset[str]] = frozenset({"value"})
    """What is kept byte for byte: nothing in it is replaced."""

    value: Any
    based_on: Any = None


class WritesRequest(msgspec.Struct, kw_only=True):
    """Body of `POST R`: several writes in one transaction, each `{field, put}` or `{field, append}`."""

    verbatim: ClassVar[frozenset[str]] = frozenset({"writes"})

    writes: Any
    based_on: Any = None


class DeleteRecordRequest(msgspec.Struct):
    """Body of `DELETE R`."""

    based_on: Any = None


class TaskRequest(msgspec.Struct):
    """Body of `PUT R/fields/{f}/claim`: claim, renew (`renew: true`) or release (`lease_seconds: 0`)."""

    lease_seconds: Any = UNSET
    renew: Any = False
    based_on: Any = None


# --- replies ---------------------------------------------------------------------------------------------------------


class TaskReply(msgspec.Struct, omit_defaults=True):
    """A claim, renewal or release that stands. A released task has no owner and no expiry."""

    record: str
    field: str
    version: int
    record_version: int
    epoch: int
    owner: str | None = None
    lease_expires_at: str | None = None
    expires_in_ms: int | None = None
    took_over_from: str | None = None
    reclaimed: bool = False
    """Whether a lease that had lapsed, and that nobody had taken since, was resumed (D2)."""


class FieldBody(msgspec.Struct, omit_defaults=True):
    """One field of a record. A task has no value but, while somebody has it, an owner; `held` says whether in force."""

    version: int
    author: str | None
    updated_at: str | None
    value: msgspec.Raw | UnsetType = UNSET
    owner: str | None = None
    lease_expires_at: str | None = None
    expires_in_ms: int | None = None
    epoch: int | None = None
    held: bool | None = None


class FieldReply(FieldBody, kw_only=True, omit_defaults=True):
    """`GET R/fields/{f}`: one field, and of which record."""

    record: str
    field: str
    record_version: int


class RecordReply(msgspec.Struct):
    """`GET R`: the fields that the caller may read."""

    record: str
    class_version: int
    record_version: int
    fields: dict[str, FieldBody]


class FieldWriteReply(msgspec.Struct, omit_defaults=True):
    """A write that stands; `index` is the place of what was appended, from 0."""

    http_status: ClassVar[int] = 200

    record: str
    field: str
    version: int
    record_version: int
    index: int | None = None


class WritesReply(msgspec.Struct):
    """Several writes that stand, with each written field's version."""

    http_status: ClassVar[int] = 200

    record: str
    record_version: int
    versions: dict[str, int]


class DeleteRecordReply(msgspec.Struct):
    """A record that is gone. Its versions go on where they were when it is written again (D32)."""

    http_status: ClassVar[int] = 200

    record: str
    record_version: int
    deleted: bool = True


class RecordsReply(msgspec.Struct):
    """A page of a class's records by id; pass `next` as `after`."""

    records: list[RecordReply]
    next: str | None


class HistoryEntryBody(msgspec.Struct, omit_defaults=True):
    """One thing that was done to a record; `value` where it was asked for and the caller may read the field."""

    n: int
    at: str
    author: str
    verb: str
    field: str | None
    version: int | None
    record_version: int
    based_on: list[dict[str, Any]] = []
    took_over_from: str | None = None
    value: msgspec.Raw | UnsetType = UNSET


class RecordHistoryReply(msgspec.Struct):
    """A page of a record's history, newest first; pass `next` as `before`."""

    record: str
    entries: list[HistoryEntryBody]
    next: int | None


class BlameBody(msgspec.Struct, omit_defaults=True):
    """Who wrote a field last."""

    version: int
    author: str | None
    updated_at: str | None
    verb: str | None = None
    n: int | None = None


class RecordBlameReply(msgspec.Struct):
    """The last writer of every field that the caller may read."""

    record: str
    record_version: int
    fields: dict[str, BlameBody]


# --- errors ----------------------------------------------------------------------------------------------------------


class StaleBody(msgspec.Struct, omit_defaults=True):
    """One premise that does not hold; `actual` is the present version or epoch, whichever was named."""

    field: str
    expected: int
    actual: int
    kind: str | None = None
    owner: str | None = None


class RecordErrorBody(msgspec.Struct, omit_defaults=True):
    """The error shape of every route under `/v1/records` (D36)."""

    error: str
    message: str
    field: str | None = None
    owner: str | None = None
    lease_expires_at: str | None = None
    version: int | None = None
    premises: list[StaleBody] = []
    details: list[str] = []
