"""What a class says of its records: their fields, and who may read, write and claim them (D34, D35, D38).

How one is read from a document, with everything that is refused, is
`core.class_documents`'. Here is what was read, and what it allows. Roles
decide alone: whom no role is for may do nothing, admins included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NewType

from batonpass.core.globs import STAR, matches
from batonpass.core.records import ClassName, FieldKind, FieldName, Identity
from batonpass.core.values import value

RoleName = NewType("RoleName", str)
Fields = frozenset[FieldName]

EVERY: Final[Fields] = frozenset({FieldName(STAR)})
"""Every field that the permission can be for, those that are added later included."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a class.

    `cap` is how many items an append holds at most, `lease_s` how long a task
    is claimed for where the claim does not say. `schema` is the JSON Schema of
    a register's values as JSON text.
    """

    kind: FieldKind
    cap: int | None = None
    lease_s: int | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """What those whom one of `identities` means may do, field by field; `EVERY` stands for all."""

    identities: tuple[str, ...]
    read: Fields = frozenset()
    write: Fields = frozenset()
    claim: Fields = frozenset()

    def is_for(self, identity: Identity) -> bool:
        """Whether the role is for `identity`."""
        return any(matches(glob, identity) for glob in self.identities)


@dataclass(frozen=True, slots=True)
class RecordClass:
    """One version of a class: what its fields hold, and who may do what with them. Equal ones mean the same."""

    name: ClassName
    fields: Mapping[FieldName, FieldSpec]
    roles: Mapping[RoleName, Role]

    def may_read(self, identity: Identity, field: FieldName) -> bool:
        """Whether `identity` may read `field`, and so name it as a premise."""
        return field in self.fields and any(covers(role.read, field) for role in self._roles_of(identity))

    def may_write(self, identity: Identity, field: FieldName) -> bool:
        """Whether `identity` may put or append to `field`; nobody writes a task."""
        spec = self.fields.get(field)
        if spec is None or spec.kind is FieldKind.TASK:
            return False
        return any(covers(role.write, field) for role in self._roles_of(identity))

    def may_claim(self, identity: Identity, field: FieldName) -> bool:
        """Whether `identity` may claim, renew and release `field`, which is a task then."""
        spec = self.fields.get(field)
        if spec is None or spec.kind is not FieldKind.TASK:
            return False
        return any(covers(role.claim, field) for role in self._roles_of(identity))

    def readable(self, identity: Identity) -> Fields:
        """Return the fields that `identity` may read."""
        allowed = frozenset[FieldName]().union(*(role.read for role in self._roles_of(identity)))
        return frozenset(self.fields) if allowed >= EVERY else allowed

    def has_role(self, identity: Identity) -> bool:
        """Whether any role is for `identity`; whom none is for sees nothing of the class's records."""
        return any(True for _ in self._roles_of(identity))

    def _roles_of(self, identity: Identity) -> Iterator[Role]:
        return (role for role in self.roles.values() if role.is_for(identity))


@value(frozen=True, slots=True)
class FieldUse:
    """What records have of one field: how many hold data in it, have it claimed, or ever had it of either sort.

    A deleted record holds nothing, but has had it: its versions go on where they were.
    """

    holding: int = 0
    held: int = 0
    stored_ever: int = 0
    claimed_ever: int = 0


def covers(permitted: Fields, field: FieldName) -> bool:
    """Whether `field` is among `permitted`, by its name or because all are."""
    return field in permitted or permitted >= EVERY
