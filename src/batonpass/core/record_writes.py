"""What a write does to a record's registers and appends: put, append, several of both, or deletion (D32, D38).

    register   put      a value in place of the one before it, as JSON text, byte for byte as it was sent
    append     append   one more item at its end, until it holds as many as its class allows
    task       –        nobody writes it: it is claimed

Every write raises its field's version by one, and so does deletion: a version
is never given twice, whatever became of the record in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from batonpass.core.classes import FieldSpec, RecordClass
from batonpass.core.errors import CapReached, Invalid, NotFound, NotTaskField, ScopeDenied, TooLarge
from batonpass.core.identity import Principal
from batonpass.core.premises import BasedOn
from batonpass.core.records import FieldKind, FieldName, Identity, RecordPath, identity_of

WRITES_MAX: Final = 100
"""How many writes one request brings at most."""
VALUE_BYTES_MAX: Final = 256 * 1024
"""The longest JSON text of one value, or of one item of an append."""
VALUE_DEPTH_MAX: Final = 100
"""How deep arrays and objects stand in each other in a value: more than some readers of JSON take is of no use."""
APPEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""How much the items of one append have together: whoever reads the record reads all of them."""
RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""How much the values of one record have together, for the same reason."""
_HALF: Final = re.compile("[\ud800-\udfff]")


class WriteVerb(StrEnum):
    """What a write does; in history, the verb of its entry."""

    PUT = "put"
    APPEND = "append"


DELETE: Final = "delete"
"""The verb of the entry that says that the record was deleted."""
RELEASE: Final = "release"
"""The verb of those that say whose tenures ended with it."""
_TAKES: Final = {FieldKind.REGISTER: WriteVerb.PUT, FieldKind.APPEND: WriteVerb.APPEND}


@dataclass(frozen=True, slots=True)
class Write:
    """One write: `text` is the value's JSON as it was sent, `value` what that says."""

    field: FieldName
    verb: WriteVerb
    text: str
    value: object


@dataclass(frozen=True, slots=True)
class FieldState:
    """What a register or an append is at: its version and bytes, and of an append how many items it has.

    `value` is a register's JSON text once it is put; what it was before decides
    nothing.
    """

    version: int = 0
    value: str | None = None
    items: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A write that stands: its field's version after it and, of an append, the place of the item, from 0."""

    write: Write
    version: int
    index: int | None = None


# --- values ----------------------------------------------------------------------------------------------------------


def require_sound(value: object, *, field: str) -> None:
    """Raise `Invalid` for a value that not every reader of JSON could read back.

    NUL is kept, as the escape it was sent as. Half of a surrogate pair is no
    character, and most readers refuse the whole record for it.
    """
    level = [value]
    for _ in range(VALUE_DEPTH_MAX + 1):
        for text in level:
            if isinstance(text, str) and (half := _HALF.search(text)) is not None:
                raise Invalid(
                    f"{field}: {half[0]!a} is half of a surrogate pair, which is no character; send the pair, or"
                    " \\ufffd",
                    field=field,
                )
        outer = [each for each in level if isinstance(each, dict | list)]
        if not outer:
            return
        level = [inner for each in outer for inner in _members(each)]
    raise Invalid(f"{field}: nested deeper than {VALUE_DEPTH_MAX} arrays and objects", field=field)


def require_short(text: str, *, field: str) -> None:
    """Raise `TooLarge` for a value whose JSON text is over the limit."""
    size = len(text.encode())
    if size > VALUE_BYTES_MAX:
        raise TooLarge(f"{field}: {size} bytes of JSON; the limit is {VALUE_BYTES_MAX} bytes", field=field)


def _members(value: dict[object, object] | list[object]) -> list[object]:
    return [*value, *value.values()] if isinstance(value, dict) else value


# --- who may ---------------------------------------------------------------------------------------------------------


def require_role(kind: RecordClass, principal: Principal) -> Identity:
    """Return who `principal` is to the class; raise `ScopeDenied` for one who may see nothing of it."""
    identity = identity_of(principal.id)
    if not kind.has_role(identity):
        raise ScopeDenied(f"no role of the class {kind.name} is for {identity}")
    return identity


def require_field(kind: RecordClass, name: FieldName) -> FieldSpec:
    """Return the field `name`; raise `NotFound` if the class has none."""
    spec = kind.fields.get(name)
    if spec is None:
        raise NotFound(f"the class {kind.name} has no field {name}", field=name)
    return spec


def require_readable(kind: RecordClass, principal: Principal, name: FieldName) -> FieldSpec:
    """Return the field `name`; raise `NotFound` if there is none, `ScopeDenied` if `principal` may not read it."""
    identity = require_role(kind, principal)
    spec = require_field(kind, name)
    if not kind.may_read(identity, name):
        raise ScopeDenied(f"no role of the class {kind.name} lets {identity} read {name}", field=name)
    return spec


def require_may_name(kind: RecordClass, principal: Principal, based_on: BasedOn) -> None:
    """Raise `ScopeDenied` for a premise on a field that `principal` may not read: to name one is to read it (D33).

    Raises `Invalid` for one that read a field the class does not have: it is
    misspelt, and at version 0 would hold for ever. A fence on such a field
    never holds, and says so as any stale one, to those for whom there is a role.
    """
    if not based_on.premises:
        return
    identity = require_role(kind, principal)
    for premise in based_on.premises:
        if premise.field not in kind.fields:
            if not premise.fence:
                raise Invalid(f"based_on: the class {kind.name} has no field {premise.field}", field="based_on")
        elif not kind.may_read(identity, premise.field):
            raise ScopeDenied(
                f"no role of the class {kind.name} lets {identity} read {premise.field}, which a premise names",
                field=premise.field,
            )


def require_writable(kind: RecordClass, principal: Principal, write: Write) -> FieldSpec:
    """Return the field that is written; raise `NotFound`, `ScopeDenied`, or `Invalid` for the wrong verb."""
    identity = require_role(kind, principal)
    spec = require_field(kind, write.field)
    may = kind.may_read if spec.kind is FieldKind.TASK else kind.may_write
    if not may(identity, write.field):
        raise ScopeDenied(f"no role of the class {kind.name} lets {identity} write {write.field}", field=write.field)
    takes = _TAKES.get(spec.kind)
    if takes is not write.verb:
        instead = f"its verb is {takes}" if takes is not None else "it is claimed, not written"
        raise Invalid(f"{write.field}: {_a(spec.kind)} takes no {write.verb}; {instead}", field=write.field)
    return spec


def require_claimable(kind: RecordClass, principal: Principal, name: FieldName) -> FieldSpec:
    """Return the task `name`; raise as `require_readable` does, or `NotTaskField`, or `ScopeDenied` for no claims."""
    spec = require_readable(kind, principal, name)
    if spec.kind is not FieldKind.TASK:
        raise NotTaskField(
            f"{name}: {_a(spec.kind)} holds a value; only a task is claimed, renewed and released", field=name
        )
    identity = identity_of(principal.id)
    if not kind.may_claim(identity, name):
        raise ScopeDenied(f"no role of the class {kind.name} lets {identity} claim {name}", field=name)
    return spec


def require_may_delete(kind: RecordClass, principal: Principal) -> None:
    """Raise `ScopeDenied` unless `principal` may write every register and append of the class, or is an admin."""
    if principal.is_person and principal.is_admin:
        return
    identity = require_role(kind, principal)
    values = [name for name, spec in kind.fields.items() if spec.kind is not FieldKind.TASK]
    if not values or not all(kind.may_write(identity, name) for name in values):
        raise ScopeDenied(f"only who may write every field of a {kind.name} deletes one; {identity} may not")


def _a(kind: FieldKind) -> str:
    return f"an {kind}" if kind is FieldKind.APPEND else f"a {kind}"


# --- what becomes of the fields --------------------------------------------------------------------------------------


def applied(
    states: Mapping[FieldName, FieldState], kind: RecordClass, writes: Sequence[Write]
) -> tuple[dict[FieldName, FieldState], list[Written]]:
    """Return the fields that change, as they are after all of `writes` in their order, and what each came to.

    Raises `CapReached` or `TooLarge` for an append that is full; then nothing of them stands.
    """
    after: dict[FieldName, FieldState] = {}
    written = []
    for write in writes:
        before = after.get(write.field, states.get(write.field, FieldState()))
        spec = kind.fields[write.field]
        state = _put(before, write) if spec.kind is FieldKind.REGISTER else _appended(before, write, spec)
        after[write.field] = state
        index = before.items if spec.kind is FieldKind.APPEND else None
        written.append(Written(write, state.version, index))
    return after, written


def _put(state: FieldState, write: Write) -> FieldState:
    return replace(state, version=state.version + 1, value=write.text, size=len(write.text.encode()))


def _appended(state: FieldState, write: Write, spec: FieldSpec) -> FieldState:
    if spec.cap is not None and state.items >= spec.cap:
        raise CapReached(
            f"{write.field}: holds {state.items} items, and its class allows {spec.cap}; begin another record",
            field=write.field,
        )
    size = state.size + len(write.text.encode())
    if size > APPEND_BYTES_MAX:
        raise TooLarge(
            f"{write.field}: its items would have {size} bytes together; the limit is {APPEND_BYTES_MAX} bytes",
            field=write.field,
        )
    return replace(state, version=state.version + 1, items=state.items + 1, size=size)


def require_room(record: RecordPath, states: Mapping[FieldName, FieldState]) -> None:
    """Raise `TooLarge` for a record whose values are over the limit together."""
    size = sum(state.size for state in states.values())
    if size > RECORD_BYTES_MAX:
        raise TooLarge(
            f"{record}: its values would have {size} bytes together; the limit is {RECORD_BYTES_MAX} bytes:"
            " begin another record"
        )
