"""What a sidecar's child may ask for: one JSON object a line of its output.

    {"put": {"field": "status", "value": "mitigated"}}
    {"append": {"field": "actions", "value": {"did": "restarted web-3"}}}
    {"checkpoint": {"step": 4}}
    {"writes": [{"append": {…}}, {"checkpoint": {…}}]}

A line that begins with a brace is an instruction, and so either understood or
named as bad; any other line is nobody's business but a reader's. Values are
passed on as the bytes they were printed as, so a number keeps its digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from batonpass.client.checkpoint import CheckpointField
from batonpass.core.errors import Invalid
from batonpass.core.records import parse_field_name

Write = Mapping[str, object]
"""One value to be written to one field, as `client.record_calls.write` takes it."""
_BLANKS: Final = b" \t\r"
_ONE_OF: Final = "an instruction has exactly one of put, append, checkpoint and writes"


class _Target(msgspec.Struct, forbid_unknown_fields=True):
    field: str
    value: msgspec.Raw


class _Instruction(msgspec.Struct, forbid_unknown_fields=True):
    put: _Target | UnsetType = UNSET
    append: _Target | UnsetType = UNSET
    checkpoint: msgspec.Raw | UnsetType = UNSET
    writes: list[msgspec.Raw] | UnsetType = UNSET


def is_instruction(line: bytes) -> bool:
    """Whether a line of output is meant for us: whether it begins with a brace."""
    return line.lstrip(_BLANKS).startswith(b"{")


def parse(line: bytes, *, checkpoint: CheckpointField | None) -> tuple[Write, ...]:
    """Return what an instruction wants written, all of it or nothing; `Invalid` says what is wrong with it.

    `checkpoint` is the field that checkpoints go to, None when there is none.
    """
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"it is not UTF-8: byte {error.start + 1} of the line") from error
    asked = _decoded(line)
    if isinstance(asked.writes, UnsetType):
        return (_write(asked, checkpoint),)
    if _given(asked) != 1:
        raise Invalid(_ONE_OF)
    if not asked.writes:
        raise Invalid("writes: the list is empty")
    return tuple(_write(_decoded(each), checkpoint) for each in asked.writes)


def _decoded(text: bytes | msgspec.Raw) -> _Instruction:
    try:
        return msgspec.json.decode(text, type=_Instruction)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(str(error)) from error


def _write(asked: _Instruction, checkpoint: CheckpointField | None) -> Write:
    if _given(asked) != 1:
        raise Invalid(_ONE_OF)
    if not isinstance(asked.put, UnsetType):
        return {"field": parse_field_name(asked.put.field), "put": asked.put.value}
    if not isinstance(asked.append, UnsetType):
        return {"field": parse_field_name(asked.append.field), "append": asked.append.value}
    if isinstance(asked.checkpoint, UnsetType):
        raise Invalid("writes: they stand in one list, and not in each other")
    if checkpoint is None:
        raise Invalid("checkpoint: there is no field for it; name one with --checkpoint FIELD")
    return checkpoint.write(asked.checkpoint)


def _given(asked: _Instruction) -> int:
    return sum(part is not UNSET for part in (asked.put, asked.append, asked.checkpoint, asked.writes))
