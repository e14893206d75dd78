"""What a write to a record stands on: `based_on` (D33).

    {"field": "status", "version": 7}                          a read premise: it must still be so
    {"kind": "fence", "field": "remediation", "version": 2}    the caller's own tenure, as it was last renewed
    {"kind": "fence", "field": "remediation", "epoch": 1}      the same, and renewals leave it true

A read premise may name any field the caller may read, a task's too, and asks
for no ownership. A fence asks for a tenure that has not ended, of one who may
act on it; a lapse that nobody used breaks nothing. Whoever declares premises
must be told of all that do not hold, so comparing returns them and raises
nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core.errors import BrokenPremise, Invalid, StalePremise
from batonpass.core.identity import Principal
from batonpass.core.ids import Resource, json_type, shown
from batonpass.core.leases import Lease, may_renew
from batonpass.core.records import FieldName, RecordPath, identity_of, parse_field_name

PREMISES_MAX: Final = 20
VERSION_MAX: Final = 2**63 - 1
"""The largest version or epoch the databases hold."""
FENCE: Final = "fence"
_KEYS: Final = ("field", "version", "epoch", "kind")


@dataclass(frozen=True, slots=True)
class Premise:
    """One thing that must still be so when the write is decided: a field's version or, of a fence, its epoch."""

    field: FieldName
    version: int | None = None
    epoch: int | None = None
    fence: bool = False

    def __post_init__(self) -> None:
        assert (self.version is None) != (self.epoch is None), self
        assert self.fence or self.version is not None, self

    @property
    def expected(self) -> int:
        """The version or epoch that was named."""
        named = self.version if self.version is not None else self.epoch
        assert named is not None, self
        return named

    def as_sent(self) -> dict[str, object]:
        """Return the premise in the shape in which it is sent, and kept in a record's history."""
        return {
            **({"kind": FENCE} if self.fence else {}),
            "field": self.field,
            **({"version": self.version} if self.version is not None else {"epoch": self.epoch}),
        }


@dataclass(frozen=True, slots=True)
class BasedOn:
    """The premises of one write, and the record whose fields they name."""

    record: RecordPath
    premises: tuple[Premise, ...]

    @property
    def resources(self) -> frozenset[Resource]:
        """The lease rows to lock: those of its tasks. What is no task has none, and what it is is known later."""
        return frozenset(self.record.task(premise.field) for premise in self.premises)

    def pins(self, field: FieldName) -> bool:
        """Whether a fence names `field`: then a lease verb on it acts on that tenure, and never begins another."""
        return any(premise.fence and premise.field == field for premise in self.premises)

    def read_fields(self, leases: Container[Resource]) -> frozenset[FieldName]:
        """Return the fields without a row among `leases` that were only read: the registers and appends."""
        return frozenset(
            premise.field
            for premise in self.premises
            if not premise.fence and self.record.task(premise.field) not in leases
        )

    @property
    def fences(self) -> BasedOn:
        """Only what is said of the caller's own tenures, which is compared before a repeated request is recognized."""
        return replace(self, premises=tuple(one for one in self.premises if one.fence))


def parse_premises(value: object, *, field: str = "based_on") -> tuple[Premise, ...]:
    """Return `value` as premises, none for null or nothing; `Invalid` names the entry and what is wrong with it."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Invalid(f"{field}: must be an array of premises, not {json_type(value)}", field=field)
    if len(value) > PREMISES_MAX:
        raise Invalid(f"{field}: {len(value)} premises; the limit is {PREMISES_MAX}", field=field)
    return tuple(_parse_premise(entry, f"{field}[{i}]") for i, entry in enumerate(value))


def broken_among(
    based_on: BasedOn, *, leases: Mapping[Resource, Lease], versions: Mapping[FieldName, int], principal: Principal
) -> tuple[BrokenPremise, ...]:
    """Return the premises that do not hold, in order.

    `leases` are the locked rows of the record's tasks by resource, `versions`
    those of its registers and appends, read under the record's lock. A field
    that is in neither was never written: it is at version 0.
    """
    found = (
        _broken(premise, leases.get(based_on.record.task(premise.field)), versions.get(premise.field, 0), principal)
        for premise in based_on.premises
    )
    return tuple(broken for broken in found if broken is not None)


def stale_premise(broken: Sequence[BrokenPremise]) -> StalePremise:
    """Return the refusal of a write with these premises."""
    return StalePremise(f"{'; '.join(map(_words, broken))}; nothing was changed", premises=broken)


def _broken(premise: Premise, lease: Lease | None, version: int, principal: Principal) -> BrokenPremise | None:
    if lease is None:
        actual, owner, holds = (0, None, False) if premise.fence else (version, None, version == premise.version)
    else:
        actual = lease.version if premise.epoch is None else lease.epoch
        owner = identity_of(lease.holder) if lease.holder is not None else None
        pinned = not premise.fence or (lease.tenure_stands and may_renew(lease, principal))
        holds = pinned and actual == premise.expected
    if holds:
        return None
    return BrokenPremise(
        premise.field,
        premise.expected,
        actual,
        kind=FENCE if premise.fence else None,
        owner=owner,
        number="version" if premise.epoch is None else "epoch",
    )


def _words(broken: BrokenPremise) -> str:
    """Return why a premise does not hold. At what was expected, the tenure has ended or is somebody else's."""
    if broken.kind == FENCE and broken.actual == 0:  # a register too: that is never claimed, whatever it is at
        return f"nobody has ever claimed {broken.field}"
    if broken.actual != broken.expected:
        return f"{broken.field} is at {broken.number} {broken.actual}, not {broken.expected}"
    if broken.owner is not None:
        return f"{broken.field} at {broken.number} {broken.actual} is {broken.owner}'s"
    return f"the tenure of {broken.field} at {broken.number} {broken.actual} has ended"


def _parse_premise(entry: object, where: str) -> Premise:
    if not isinstance(entry, dict):
        raise Invalid(f"{where}: must be an object, not {json_type(entry)}", field=where)
    for name in entry:
        if name not in _KEYS:
            raise Invalid(f"{where}: {shown(str(name))} is none of {', '.join(_KEYS)}", field=where)
    if "field" not in entry:
        raise Invalid(f"{where}.field: required; it names a field of the record", field=f"{where}.field")
    named = parse_field_name(entry["field"], field=f"{where}.field")
    if "kind" in entry and entry["kind"] != FENCE:
        what = shown(entry["kind"]) if isinstance(entry["kind"], str) else json_type(entry["kind"])
        raise Invalid(
            f'{where}.kind: {what} is no kind; it is "{FENCE}", or left out for a premise that was read',
            field=f"{where}.kind",
        )
    fence = "kind" in entry
    if "epoch" in entry and not fence:
        raise Invalid(f'{where}.epoch: only a fence names an epoch; add "kind": "{FENCE}"', field=f"{where}.epoch")
    if "epoch" in entry and "version" in entry:
        raise Invalid(f"{where}.epoch: name the version or the epoch, not both", field=f"{where}.epoch")
    if "epoch" in entry:
        return Premise(named, epoch=_number(entry["epoch"], f"{where}.epoch"), fence=fence)
    if "version" not in entry:
        also = ", or its epoch" if fence else ""
        raise Invalid(f"{where}.version: required: the version of {named} you saw{also}", field=f"{where}.version")
    return Premise(named, version=_number(entry["version"], f"{where}.version"), fence=fence)


def _number(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{field}: must be a whole number, not {json_type(value)}", field=field)
    if not 0 <= value <= VERSION_MAX:
        raise Invalid(f"{field}: must be a whole number from 0 to {VERSION_MAX}", field=field)
    return value
