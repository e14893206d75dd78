"""A class document read and checked, all findings at once, and written again (D34, D35, D38).

    name: incidents
    fields:
      status: {type: register, schema: {enum: [open, closed]}}
      actions_taken: {type: append, cap: 500}
      remediation: {type: task, lease: 300s}
    roles:
      remediator: {identities: ["apikey:remediator/*"], read: "*", write: [actions_taken], claim: [remediation]}

It is the same document as YAML and as JSON. What comes here is plain values
already; how a file becomes those is `wire.class_files`'. Whether a JSON Schema
is one is told by a library, which is handed over as `SchemaCheck`: this room
imports none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from batonpass.core import class_schemas
from batonpass.core.class_rules import (
    CAP_DEFAULT,
    CAP_MAX,
    DOCUMENT_BYTES_MAX,
    FIELDS_MAX,
    IDENTITIES_MAX,
    ROLES_MAX,
    Findings,
    Rule,
    SchemaFinding,
)
from batonpass.core.classes import EVERY, Fields, FieldSpec, RecordClass, Role, RoleName, covers
from batonpass.core.errors import Invalid
from batonpass.core.globs import STAR, what_is_wrong
from batonpass.core.ids import json_type, shown
from batonpass.core.records import LEASE_S_MAX, ClassName, FieldKind, FieldName, parse_class_name, parse_field_name

SchemaCheck = Callable[[object], Iterable[SchemaFinding]]
"""Says what else is wrong with a JSON Schema in which `core.class_schemas` found nothing."""

RESERVED: Final = frozenset({"pipelines", "landings"})
"""Classes that the server brings itself: their fields are what its own programs rely on."""

_CLASS_KEYS: Final = ("name", "fields", "roles")
_PERMISSIONS: Final = ("read", "write", "claim")
_ROLE_KEYS: Final = ("identities", *_PERMISSIONS)
_OWN_KEY: Final = {FieldKind.REGISTER: "schema", FieldKind.APPEND: "cap", FieldKind.TASK: "lease"}
_LEASE: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Document = dict[str, object]


def parse_class(document: object, *, name: str | None = None, check_schema: SchemaCheck) -> RecordClass:
    """Return the class that `document` describes; `Invalid` has every finding in `details`.

    `name` is where it is to be applied; without it the document has to name itself.
    """
    return _Reading(document, name, check_schema).record_class()


def document_of(record_class: RecordClass) -> Document:
    """Return the canonical document of a class: `parse_class` gives the same class back."""
    fields: Document = {name: _field_document(spec) for name, spec in record_class.fields.items()}
    roles: Document = {name: _role_document(role) for name, role in record_class.roles.items()}
    return {"name": record_class.name, "fields": fields, "roles": roles}


def text_of(value: object) -> str:
    """Return `value` as JSON text, its keys in the order in which they stand."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_lease_s(text: object) -> int:
    """Return a lease in whole seconds, 1 to 86400: ``300s``, ``5m``, ``2h``, ``1d``, or a number of seconds.

    Raises `ValueError` with what is wrong.
    """
    match text:
        case bool():
            raise ValueError("a boolean is no lease; give whole seconds, such as 300s or 5m")
        case int():
            seconds = text
        case str() if (match_ := _LEASE.fullmatch(text)) is not None:
            seconds = int(match_[1]) * _UNIT_S[match_[2]]
        case str():
            raise ValueError(f"{shown(text)} is no lease; give whole seconds, such as 300s, 5m, 2h or 1d")
        case float():
            raise ValueError(f"{text:g} is no lease; give whole seconds, such as 300s or 5m")
        case _:
            raise ValueError(f"{json_type(text)} is no lease; give whole seconds, such as 300s or 5m")
    if not 1 <= seconds <= LEASE_S_MAX:
        raise ValueError(f"{seconds} s is outside 1 s to {LEASE_S_MAX} s, a day")
    return seconds


@dataclass(frozen=True, slots=True)
class _Permission:
    """How a role says over which fields it may do something."""

    key: str
    for_kinds: frozenset[FieldKind]
    otherwise: Rule
    why_not: str


_READ: Final = _Permission("read", frozenset(FieldKind), Rule.UNKNOWN_FIELD, "")
_WRITE: Final = _Permission(
    "write",
    frozenset({FieldKind.REGISTER, FieldKind.APPEND}),
    Rule.WRITE_ON_TASK,
    "a task has no value to write; it is given to claim",
)
_CLAIM: Final = _Permission(
    "claim", frozenset({FieldKind.TASK}), Rule.CLAIM_ON_NO_TASK, "only a task can be claimed, and it is {kind}"
)


class _Reading:
    """One document on its way to a class; what is wrong is noted, and what is left is read on."""

    def __init__(self, document: object, name: str | None, check_schema: SchemaCheck) -> None:
        self._document = document
        self._name = name
        self._check_schema = check_schema
        self._findings = Findings(f"class {shown_name(document, name)}")
        self._fields: dict[FieldName, FieldSpec] = {}
        self._named: set[str] = set()

    def record_class(self) -> RecordClass:
        """Return the class, or raise with all that was found."""
        document = self._mapping(self._document, "")
        self._refuse_unfit(document)
        self._refuse_unknown(document, _CLASS_KEYS, "")
        name = self._class_name(document)
        self._read_fields(document)
        roles = self._roles(document)
        self._findings.raise_any()
        return RecordClass(name, self._fields, roles)

    def _refuse_unfit(self, document: Mapping[str, object]) -> None:
        """Raise at once for what need not be looked into: too much of it, too deep, or text that is none."""
        try:
            size = len(text_of(document).encode())
        except RecursionError:
            self._findings.add(Rule.TOO_LARGE, "nested too deeply")
        except UnicodeEncodeError:
            self._findings.add(Rule.BAD_TEXT, "half of a surrogate pair stands in it, which is no character")
        else:
            if size > DOCUMENT_BYTES_MAX:
                self._findings.add(Rule.TOO_LARGE, f"{size} bytes as JSON; the limit is {DOCUMENT_BYTES_MAX} bytes")
        self._findings.raise_any()

    def _class_name(self, document: Mapping[str, object]) -> ClassName:
        own = document.get("name")
        text = own if own is not None else self._name
        if text is None:
            self._findings.add(Rule.MISSING_KEY, "name: required; it is what records are called by, <name>/<id>")
            return ClassName("")
        try:
            name = parse_class_name(text, field="name")
        except Invalid as error:
            self._findings.add(Rule.BAD_NAME, error.message)
            return ClassName("")
        if self._name is not None and name != self._name:
            self._findings.add(Rule.OTHER_NAME, f"the document calls itself {name}, and is applied as {self._name}")
        if name in RESERVED:
            self._findings.add(Rule.RESERVED_NAME, f"{name} is built in; the server brings it, and nobody applies it")
        return name

    # --- fields ------------------------------------------------------------------------------------------------------

    def _read_fields(self, document: Mapping[str, object]) -> None:
        given = self._mapping(document.get("fields", {}), "fields")
        if not given and isinstance(document.get("fields", {}), Mapping):
            self._findings.add(Rule.NO_FIELDS, "fields: a class has at least one")
        self._bound(given, FIELDS_MAX, "fields", "")
        for key, spec in given.items():
            self._named.add(key)
            where = f"field {shown_key(key)}"
            try:
                name = parse_field_name(key)
            except Invalid as error:
                self._findings.add(Rule.BAD_NAME, error.message, where=where)
                continue
            read = self._field(spec, where)
            if read is not None:
                self._fields[name] = read

    def _field(self, given: object, where: str) -> FieldSpec | None:
        spec = self._mapping(given, where)
        if not spec:
            if isinstance(given, Mapping):
                self._findings.add(Rule.MISSING_KEY, f"type: required; {_KINDS}", where=where)
            return None
        kind = self._kind(spec, where)
        if kind is None:
            return None
        own = _OWN_KEY[kind]
        others = {key for key in _OWN_KEY.values() if key != own}
        for key in sorted(others & spec.keys()):
            self._findings.add(Rule.MISPLACED_KEY, f"{key}: {kind.one} has none; it takes {own}", where=where)
        self._refuse_unknown({key: said for key, said in spec.items() if key not in others}, ("type", own), where)
        if own not in spec:
            return FieldSpec(kind, cap=CAP_DEFAULT if kind is FieldKind.APPEND else None)
        match kind:
            case FieldKind.REGISTER:
                return FieldSpec(kind, schema=self._schema(spec[own], where))
            case FieldKind.APPEND:
                return FieldSpec(kind, cap=self._cap(spec[own], where))
            case FieldKind.TASK:
                return FieldSpec(kind, lease_s=self._lease_s(spec[own], where))
            case _:
                assert_never(kind)

    def _kind(self, spec: Mapping[str, object], where: str) -> FieldKind | None:
        given = spec.get("type")
        if given is None:
            self._findings.add(Rule.MISSING_KEY, f"type: required; {_KINDS}", where=where)
        elif isinstance(given, str) and given in frozenset(FieldKind):
            return FieldKind(given)
        else:
            what = shown(given) if isinstance(given, str) else json_type(given)
            self._findings.add(Rule.UNKNOWN_TYPE, f"type: {what} is none; {_KINDS}", where=where)
        return None

    def _cap(self, given: object, where: str) -> int | None:
        if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= CAP_MAX:
            return given
        what = str(given) if isinstance(given, int | float) and not isinstance(given, bool) else json_type(given)
        self._findings.add(Rule.BAD_CAP, f"cap: {what}; give a whole number of items, 1 to {CAP_MAX}", where=where)
        return None

    def _lease_s(self, given: object, where: str) -> int | None:
        try:
            return parse_lease_s(given)
        except ValueError as error:
            self._findings.add(Rule.BAD_LEASE, f"lease: {error}", where=where)
            return None

    def _schema(self, given: object, where: str) -> str:
        for rule, why in class_schemas.findings(given) or self._check_schema(given):
            self._findings.add(rule, f"schema: {why}", where=where)
        return json.dumps(given, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    # --- roles -------------------------------------------------------------------------------------------------------

    def _roles(self, document: Mapping[str, object]) -> dict[RoleName, Role]:
        given = self._mapping(document.get("roles", {}), "roles")
        self._bound(given, ROLES_MAX, "roles", "")
        roles: dict[RoleName, Role] = {}
        for key, role in given.items():
            where = f"role {shown_key(key)}"
            try:
                name = parse_field_name(key, field="role")
            except Invalid as error:
                self._findings.add(Rule.BAD_NAME, error.message, where=where)
                continue
            roles[RoleName(name)] = self._role(self._mapping(role, where), where)
        return roles

    def _role(self, given: Mapping[str, object], where: str) -> Role:
        self._refuse_unknown(given, _ROLE_KEYS, where)
        identities = self._identities(given, where)
        read, write, claim = (self._permitted(given, each, where) for each in (_READ, _WRITE, _CLAIM))
        for field in self._claimed(claim):
            if not covers(read, field):
                self._findings.add(
                    Rule.CLAIM_WITHOUT_READ,
                    "whoever claims it names its version as a premise, and that is a read; add it to read",
                    where=f"{where}: field {field}",
                )
        return Role(identities, read, write, claim)

    def _claimed(self, claim: Fields) -> list[FieldName]:
        tasks = (name for name, spec in self._fields.items() if spec.kind is FieldKind.TASK)
        return [name for name in tasks if covers(claim, name)]

    def _identities(self, given: Mapping[str, object], where: str) -> tuple[str, ...]:
        globs = self._texts(given.get("identities", []), "identities", where)
        if not globs and isinstance(given.get("identities", []), list):
            self._findings.add(Rule.NO_IDENTITIES, "identities: name whom the role is for, at least one", where=where)
        self._bound(globs, IDENTITIES_MAX, "identities", where)
        for glob in globs:
            if wrong := what_is_wrong(glob):
                self._findings.add(Rule.BAD_GLOB, f"identities: {shown(glob)}: {wrong}", where=where)
        return tuple(sorted(set(globs)))

    def _permitted(self, given: Mapping[str, object], permission: _Permission, where: str) -> Fields:
        value = given.get(permission.key, [])
        named = [STAR] if value == STAR else self._texts(value, permission.key, where)
        if STAR in named:
            return EVERY
        for name in named:
            self._check_named(name, permission, f"{where}: field {shown_key(name)}")
        return frozenset(FieldName(name) for name in named)

    def _check_named(self, name: str, permission: _Permission, where: str) -> None:
        spec = self._fields.get(FieldName(name))
        if spec is None:
            if name not in self._named:
                known = ", ".join(self._fields) or "none"
                self._findings.add(Rule.UNKNOWN_FIELD, f"{permission.key}: the class has {known}", where=where)
        elif spec.kind not in permission.for_kinds:
            self._findings.add(permission.otherwise, permission.why_not.format(kind=spec.kind.one), where=where)

    # --- shapes ------------------------------------------------------------------------------------------------------

    def _mapping(self, given: object, where: str) -> Mapping[str, object]:
        if isinstance(given, Mapping) and all(isinstance(key, str) for key in given):
            return given
        what = "a mapping with keys that are no text" if isinstance(given, Mapping) else json_type(given)
        self._findings.add(Rule.WRONG_TYPE, f"must be a mapping, not {what}", where=where)
        return {}

    def _texts(self, given: object, key: str, where: str) -> list[str]:
        if not isinstance(given, list):
            self._findings.add(Rule.WRONG_TYPE, f"{key}: must be a list, not {json_type(given)}", where=where)
            return []
        texts = [item for item in given if isinstance(item, str)]
        for item in given:
            if not isinstance(item, str):
                self._findings.add(Rule.WRONG_TYPE, f"{key}: holds {json_type(item)}; it takes names", where=where)
        return texts

    def _refuse_unknown(self, given: Mapping[str, object], known: Iterable[str], where: str) -> None:
        takes = tuple(known)
        for key in given:
            if key not in takes:
                self._findings.add(Rule.UNKNOWN_KEY, f"{shown_key(key)}: it takes {', '.join(takes)}", where=where)

    def _bound(self, given: Mapping[str, object] | list[str], most: int, what: str, where: str) -> None:
        if len(given) > most:
            self._findings.add(Rule.TOO_MANY, f"{what}: {len(given)}; the limit is {most}", where=where)


_KINDS: Final = f"a field is {FieldKind.REGISTER.one}, {FieldKind.APPEND.one} or {FieldKind.TASK.one}"


def shown_name(document: object, name: str | None) -> str:
    """Return what to call a class in a finding, whatever its document says."""
    own = document.get("name") if isinstance(document, Mapping) else None
    return shown_key(own) if isinstance(own, str) else name or "without a name"


def shown_key(key: str) -> str:
    """Return a name as it is where it is one, and quoted and cut where it may be anything."""
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() and len(key) <= 100 else shown(key)  # noqa: PLR2004


def _field_document(spec: FieldSpec) -> Document:
    document: Document = {"type": str(spec.kind)}
    if spec.schema is not None:
        document["schema"] = json.loads(spec.schema)
    if spec.cap is not None:
        document["cap"] = spec.cap
    if spec.lease_s is not None:
        document["lease"] = f"{spec.lease_s}s"
    return document


def _role_document(role: Role) -> Document:
    permitted = {"read": role.read, "write": role.write, "claim": role.claim}
    return {
        "identities": list(role.identities),
        **{key: STAR if fields >= EVERY else sorted(fields) for key, fields in permitted.items() if fields},
    }
