"""The field of a record where the holder of a task leaves how far it has come.

A register has the last checkpoint, an append every one; either way the last is
what the next holder begins with.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from batonpass.client import class_calls
from batonpass.client.client import Client
from batonpass.client.records import Record
from batonpass.core.errors import Invalid
from batonpass.core.records import ClassName, FieldKind, FieldName, parse_field_name
from batonpass.wire.classes import kept_class


@dataclass(frozen=True, slots=True)
class CheckpointField:
    """A field that takes checkpoints, and how: by a put or by an append."""

    name: FieldName
    kind: FieldKind

    def last_of(self, record: Record) -> object:
        """Return the last checkpoint in `record`, None when there is none."""
        raw = self.raw_last_of(record)
        return msgspec.json.decode(raw) if raw is not None else None

    def raw_last_of(self, record: Record) -> msgspec.Raw | None:
        """Return the last checkpoint in `record` as the bytes it was left in, None when there is none."""
        body = record.fields.get(self.name)
        if body is None or not isinstance(body.value, msgspec.Raw):
            return None
        if self.kind is FieldKind.REGISTER:
            return body.value
        left = msgspec.json.decode(body.value, type=list[msgspec.Raw])
        return left[-1] if left else None

    def write(self, value: object) -> dict[str, object]:
        """Return the write that leaves `value`."""
        return {"field": self.name, "put" if self.kind is FieldKind.REGISTER else "append": value}


def checkpoint_field(client: Client, record_class: str, name: str) -> CheckpointField:
    """Return the field `name` of a class as one for checkpoints; `Invalid` when it has none, or it is a task."""
    field = parse_field_name(name, field="checkpoint")
    found = client.send(class_calls.get_class(record_class))
    spec = kept_class(ClassName(found.record_class), bytes(found.document).decode()).fields.get(field)
    if spec is None:
        raise Invalid(f"checkpoint: {record_class} has no field {field}", field="checkpoint")
    if spec.kind is FieldKind.TASK:
        raise Invalid(f"checkpoint: {field} is a task; name a register or an append", field="checkpoint")
    return CheckpointField(field, spec.kind)
