"""What a new version of a class changes, and what it may not take from records that are there (D32, D35)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from batonpass.core.class_documents import document_of, text_of
from batonpass.core.class_rules import Findings, Rule
from batonpass.core.classes import FieldUse, RecordClass
from batonpass.core.errors import Conflict
from batonpass.core.records import FieldKind, FieldName

_UNUSED: Final = FieldUse()


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs, such as the lease of a field; as JSON text, None where it is not there."""

    where: str
    before: str | None
    after: str | None


def moves_fields(before: RecordClass, after: RecordClass) -> bool:
    """Whether fields come, go or change their kind, so that what records have of them has to be known."""
    return {name: spec.kind for name, spec in before.fields.items()} != {
        name: spec.kind for name, spec in after.fields.items()
    }


def require_kept(before: RecordClass, after: RecordClass, uses: Mapping[FieldName, FieldUse]) -> None:
    """Raise `Conflict`, every finding in `details`, where `after` would take away what records have.

    * A field with data in it stays. A task stays while somebody has it, in force or lapsed: whoever died at it may
      be resumed, and whoever works acts by its version. Once it is released nothing of it is lost: its versions are
      kept, and go on when it comes back.
    * A register with data stays a register, an append an append.
    * What was a task once never becomes a register or append, and the other way round, not even between two versions
      that did not have it: the versions of the one would begin again as the other's, and a version of a field never
      repeats (D32).
    """
    findings = Findings(f"class {after.name}")
    for name in [*before.fields, *(name for name in after.fields if name not in before.fields)]:
        for rule, why in _refused(before, after, name, uses.get(name, _UNUSED)):
            findings.add(rule, why, where=f"field {name}")
    if findings.lines:
        raise Conflict(findings.summary(), details=findings.told(), field="class")


def _refused(before: RecordClass, after: RecordClass, name: FieldName, use: FieldUse) -> Iterator[tuple[Rule, str]]:
    was, becomes = before.fields.get(name), after.fields.get(name)
    if becomes is None:
        if use.holding:
            yield Rule.FIELD_HOLDS_DATA, f"{_records(use.holding)} data in it; delete those first, or keep the field"
        if use.held:
            yield Rule.FIELD_HOLDS_DATA, f"{_records(use.held)} it claimed; release those first, or keep the field"
        return
    if was is not None and was.kind is not becomes.kind and use.holding:
        why = f"{was.kind.one} cannot become {becomes.kind.one}: {_records(use.holding)} data in it; use another name"
        yield Rule.KIND_HOLDS_DATA, why
    other = use.stored_ever if becomes.kind is FieldKind.TASK else use.claimed_ever
    if other:
        kind = "a register or append" if becomes.kind is FieldKind.TASK else "a task"
        why = f"it was {kind} of {other} record(s), and versions of a field never repeat; use another name"
        yield Rule.OTHER_KIND_BEFORE, why


def _records(count: int) -> str:
    return f"{count} record has" if count == 1 else f"{count} records have"


def differences(before: RecordClass | None, after: RecordClass | None) -> tuple[Difference, ...]:
    """Return what differs between two versions, field by field and role by role; None is a class that is not there."""
    return tuple(
        Difference(where, old, new) for where, old, new in _compared(_flat(before), _flat(after)) if old != new
    )


def _compared(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for where in [*before, *(where for where in after if where not in before)]:
        yield where, before.get(where), after.get(where)


def _flat(record_class: RecordClass | None) -> dict[str, str]:
    """Return everything a class says under the name of its place, in the document's order."""
    if record_class is None:
        return {}
    document = document_of(record_class)
    return {
        f"{part} {name}: {key}": text_of(said)
        for part, entries in (("field", document["fields"]), ("role", document["roles"]))
        if isinstance(entries, Mapping)
        for name, entry in entries.items()
        for key, said in entry.items()
    }
