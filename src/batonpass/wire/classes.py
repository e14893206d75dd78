"""Classes of records on the wire (D38), and in the table that keeps them: a class document in JSON.

A document that somebody sends is read by `core.class_documents`, in its words.
One that was applied is read here: it was checked then, and is not held to
rules that came later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from batonpass.core.class_rules import CAP_MAX, FIELDS_MAX, IDENTITIES_MAX, ROLES_MAX
from batonpass.core.classes import EVERY, Fields, FieldSpec, RecordClass, Role, RoleName
from batonpass.core.clock import iso
from batonpass.core.globs import STAR
from batonpass.core.ids import HolderId, Instant
from batonpass.core.records import ClassName, FieldKind, FieldName, identity_of

_NAMES: Final = {"oneOf": [{"const": STAR}, {"type": "array", "items": {"type": "string"}}]}
_FIELD: Final = {
    "type": "object",
    "properties": {
        "type": {"enum": [kind.value for kind in FieldKind]},
        "schema": {"type": ["object", "boolean"]},
        "cap": {"type": "integer", "minimum": 1, "maximum": CAP_MAX},
        "lease": {"type": ["string", "integer"]},
    },
    "required": ["type"],
    "additionalProperties": False,
}
_ROLE: Final = {
    "type": "object",
    "properties": {
        "identities": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": IDENTITIES_MAX},
        "read": _NAMES,
        "write": _NAMES,
        "claim": _NAMES,
    },
    "required": ["identities"],
    "additionalProperties": False,
}
_FIELDS: Final = {"type": "object", "additionalProperties": _FIELD, "minProperties": 1, "maxProperties": FIELDS_MAX}
_ROLES: Final = {"type": "object", "additionalProperties": _ROLE, "maxProperties": ROLES_MAX}
ClassFields = Annotated[Any, Meta(extra_json_schema=_FIELDS)]
ClassRoles = Annotated[Any, Meta(extra_json_schema=_ROLES)]
ClassNameText = Annotated[Any, Meta(extra_json_schema={"type": "string"})]


class ClassRequest(msgspec.Struct):
    """Body of `PUT /v1/classes/{name}`: the class document; its `name`, if it has one, is the path's."""

    fields: ClassFields = UNSET
    roles: ClassRoles = UNSET
    name: ClassNameText = UNSET

    def document(self) -> dict[str, object]:
        """Return what was sent, as `core` reads it."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class ClassReply(msgspec.Struct):
    """Which version of a class is in force; `changed` says whether this request made it."""

    http_status: ClassVar[int] = 200

    record_class: str = msgspec.field(name="class")
    version: int
    changed: bool


class NewClassReply(ClassReply):
    """The same, of a class that was not there before."""

    http_status: ClassVar[int] = 201


class ClassLineBody(msgspec.Struct):
    """One class in a list: its version in force, and who applied it when."""

    record_class: str = msgspec.field(name="class")
    version: int
    applied_by: str
    applied_at: str


class ClassesReply(msgspec.Struct):
    """A page of classes by name; pass `next` as `after`."""

    classes: list[ClassLineBody]
    next: str | None


class ClassDocumentReply(ClassLineBody):
    """`GET /v1/classes/{name}`: one version of a class, whole. `latest` is the version in force."""

    latest: int
    document: msgspec.Raw


def line_body(name: ClassName, version: int, *, by: HolderId, at: Instant) -> ClassLineBody:
    """Return a class as lists show it."""
    return ClassLineBody(record_class=name, version=version, applied_by=identity_of(by), applied_at=iso(at))


def checked_class(document: object, *, name: str | None = None) -> RecordClass:
    """Return the class that `document` describes, its JSON Schemas looked at by their library too.

    `Invalid` has every finding in `details`; see `core.class_documents.parse_class`.
    """
    from batonpass.core.class_documents import parse_class  # what applies no class starts without it (D37)
    from batonpass.wire.json_schemas import schema_findings

    return parse_class(document, name=name, check_schema=schema_findings)


# --- as it is kept ---------------------------------------------------------------------------------------------------


class _KeptField(msgspec.Struct):
    type: FieldKind
    cap: int | None = None
    lease: str | None = None
    schema: msgspec.Raw | UnsetType = UNSET


class _KeptRole(msgspec.Struct):
    identities: tuple[str, ...]
    read: list[str] | str = []
    write: list[str] | str = []
    claim: list[str] | str = []


class _KeptClass(msgspec.Struct):
    fields: dict[str, _KeptField]
    roles: dict[str, _KeptRole]


def kept_text(record_class: RecordClass) -> str:
    """Return the canonical document of a class as JSON text, the form in which it is kept."""
    from batonpass.core.class_documents import document_of, text_of

    return text_of(document_of(record_class))


def kept_class(name: ClassName, document: str) -> RecordClass:
    """Return the class that was kept as `document`."""
    kept = msgspec.json.decode(document, type=_KeptClass)
    fields: Mapping[FieldName, FieldSpec] = {FieldName(field): _spec(spec) for field, spec in kept.fields.items()}
    return RecordClass(name, fields, {RoleName(role): _role(given) for role, given in kept.roles.items()})


def _spec(kept: _KeptField) -> FieldSpec:
    return FieldSpec(
        kept.type,
        cap=kept.cap,
        lease_s=None if kept.lease is None else int(kept.lease.removesuffix("s")),
        schema=None if kept.schema is UNSET else bytes(kept.schema).decode(),
    )


def _role(kept: _KeptRole) -> Role:
    return Role(kept.identities, _permitted(kept.read), _permitted(kept.write), _permitted(kept.claim))


def _permitted(kept: list[str] | str) -> Fields:
    return EVERY if kept == STAR else frozenset(map(FieldName, kept))


def values_of(document: msgspec.Raw) -> dict[str, Any]:
    """Return a kept document as plain values."""
    values: dict[str, Any] = json.loads(bytes(document))  # its numbers may have any length
    return values
