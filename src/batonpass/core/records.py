"""The names of records, their fields and who writes them (D32, D35, D38).

A record is `class/id`. Its fields are *registers* (one value), *appends* (a
list that only grows) and *tasks*, which hold no value: a task is a lease, the
same row and the same law as a node's, and its version is the lease's. The
resource of that lease is `record:<class>/<id>#<field>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from batonpass.core.errors import Invalid
from batonpass.core.identity import AGENT_PREFIX, PERSON_PREFIX
from batonpass.core.ids import (
    CLASS_NAME,
    FIELD_NAME,
    RECORD_ID,
    RESOURCE_PREFIX,
    HolderId,
    Resource,
    json_type,
    shown,
)

ClassName = NewType("ClassName", str)
RecordId = NewType("RecordId", str)
FieldName = NewType("FieldName", str)
Identity = NewType("Identity", str)
"""Who somebody is to a class: ``agent:<id>``, ``person:<id>``, ``apikey:<name>`` or ``sa:<namespace>/<name>``."""

LEASE_S_MAX: Final = 86_400
"""The longest lease of a task field: a day."""
_KINDS_OF_NODES: Final = frozenset({"agent", "person"})
_CLASS: Final = re.compile(CLASS_NAME, re.ASCII)
_FIELD: Final = re.compile(FIELD_NAME, re.ASCII)
_ID: Final = re.compile(RECORD_ID, re.ASCII)


class FieldKind(StrEnum):
    """What a field holds, and so which verbs it takes: put, append, or claim."""

    REGISTER = "register"
    APPEND = "append"
    TASK = "task"

    @property
    def one(self) -> str:
        """Return the kind with its article, as sentences have it."""
        return f"an {self}" if self is FieldKind.APPEND else f"a {self}"


@dataclass(frozen=True, slots=True, order=True)
class RecordPath:
    """Which record: as text, `class/id`."""

    record_class: ClassName
    id: RecordId

    def __str__(self) -> str:
        return f"{self.record_class}/{self.id}"

    def task(self, field: FieldName) -> Resource:
        """Return the resource of the lease that a task field is."""
        return Resource(f"{RESOURCE_PREFIX}{self}#{field}")


def parse_class_name(text: object, *, field: str = "class") -> ClassName:
    """Return `text` as a class's name: lower-case letters, digits and hyphens, at most 100."""
    return ClassName(_matching(text, _CLASS, field, "lower-case letters, digits and hyphens, at most 100 characters"))


def parse_record_id(text: object, *, field: str = "id") -> RecordId:
    """Return `text` as a record's id: letters, digits, dots, underscores and hyphens, at most 200 (D38)."""
    return RecordId(
        _matching(text, _ID, field, "letters, digits, dots, underscores and hyphens, at most 200 characters")
    )


def parse_field_name(text: object, *, field: str = "field") -> FieldName:
    """Return `text` as a field's name: lower-case letters, digits, underscores and hyphens, at most 100."""
    return FieldName(
        _matching(text, _FIELD, field, "lower-case letters, digits, underscores and hyphens, at most 100 characters")
    )


def parse_record_path(text: object, *, field: str = "record") -> RecordPath:
    """Return `text` as a record's path, `class/id`."""
    name, slash, record = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash:
        what = shown(text) if isinstance(text, str) else json_type(text)
        raise Invalid(f"{field}: {what} is not <class>/<id>", field=field)
    return RecordPath(parse_class_name(name, field=field), parse_record_id(record, field=field))


def is_of_record(resource: Resource) -> bool:
    """Whether a lease's resource is a record's task field, and not a node."""
    return resource.startswith(RESOURCE_PREFIX)


def task_of(resource: Resource) -> tuple[RecordPath, FieldName]:
    """Return which task field `resource` is; it must be one."""
    path, _, field = resource.removeprefix(RESOURCE_PREFIX).partition("#")
    name, _, record = path.partition("/")
    assert is_of_record(resource), resource
    return RecordPath(ClassName(name), RecordId(record)), FieldName(field)


def identity_of(holder: HolderId) -> Identity:
    """Return who `holder` is to a class and in a record: the ids of agents and people with their kind before them."""
    if holder.startswith(AGENT_PREFIX):
        return Identity(f"agent:{holder}")
    if holder.startswith(PERSON_PREFIX):
        return Identity(f"person:{holder}")
    return Identity(holder)


def holder_of(identity: Identity) -> HolderId:
    """Return who holds leases under `identity`: what `identity_of` made it of."""
    kind, colon, name = identity.partition(":")
    return HolderId(name if colon and kind in _KINDS_OF_NODES else identity)


def _matching(text: object, pattern: re.Pattern[str], field: str, rule: str) -> str:
    if not isinstance(text, str):
        raise Invalid(f"{field}: must be a string, not {json_type(text)}", field=field)
    if not pattern.fullmatch(text):
        raise Invalid(f"{field}: {shown(text)} is not a name; it takes {rule}, a letter or digit first", field=field)
    return text
