"""`--fence`, `--fence-epoch` and `--if`: what must still hold for a write to a record to be done (D33)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter, Token

from batonpass.client import record_calls
from batonpass.core.errors import Invalid
from batonpass.core.premises import Premise
from batonpass.core.records import FieldName, parse_field_name

NUMBER_CHARS_MAX: Final = 19
"""As many digits as a version can have."""


@dataclass(frozen=True, slots=True)
class At:
    """A field, and which version or epoch of it."""

    field: FieldName
    number: int


def _at(_type: object, tokens: Sequence[Token]) -> list[At]:
    return [parse_at(token.value) for token in tokens]


def parse_at(text: str) -> At:
    """Return `FIELD@NUMBER` as what it says; `ValueError` says what is wrong with it."""
    field, at, number = text.rpartition("@")
    if not at or not number.isascii() or not number.isdigit() or len(number) > NUMBER_CHARS_MAX:
        raise ValueError(f"{text!r} is not FIELD@NUMBER, such as remediation@5")
    try:
        return At(parse_field_name(field), int(number))
    except Invalid as error:
        raise ValueError(error.message) from error


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Premises:
    """Options of every command that writes to a record; each may be given several times."""

    fence: Annotated[list[At] | None, Parameter(converter=_at, n_tokens=1, negative=())] = None
    """FIELD@VERSION: only if you still hold this task, and it is at this version, as its claim or renewal printed."""

    fence_epoch: Annotated[list[At] | None, Parameter(converter=_at, n_tokens=1, negative=())] = None
    """FIELD@EPOCH: only if you still hold this task in this tenure, however often it was renewed."""

    if_: Annotated[list[At] | None, Parameter(name="--if", converter=_at, n_tokens=1, negative=())] = None
    """FIELD@VERSION: only if this field is still at this version, whoever wrote it."""

    def based_on(self) -> list[Premise]:
        """Return all of them as the calls take them."""
        return [
            *(record_calls.fence_at(each.field, each.number) for each in self.fence or ()),
            *(record_calls.fence(each.field, each.number) for each in self.fence_epoch or ()),
            *(record_calls.seen(each.field, each.number) for each in self.if_ or ()),
        ]


NO_PREMISES: Final = Premises()
