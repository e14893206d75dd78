"""An API call as a value: what to send, and what the answer is decoded to.

Each route is a pure function that returns a `Call`, in the module of its noun:
`lease_calls`, `node_calls` and so on. Nothing in them sends. `client.client`
does, and reads from `Call.repeat` whether a request whose answer was lost may
be sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

READ_S_MAX: Final = 30.0
"""How long an answer may take. The server bounds its own waits far below (D44)."""
LEASE_S_MAX: Final = 15.0
"""The same for a lease verb: two round trips to the database, and a horizon that is running meanwhile."""


class Repeat(Enum):
    """What a second sending does after the answer of the first was lost."""

    SAFE = auto()
    """Nothing more: a read, or a verb that a nonce or an epoch pins to one tenure (D2, D6)."""
    KEYED = auto()
    """Nothing more, thanks to an Idempotency-Key that the sender adds (D11)."""
    NEVER = auto()
    """It might change something a second time, so the caller is told that the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request, and the wire struct that its 2xx answer is decoded to."""

    method: str
    path: str
    reply: type[T_co]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeat: Repeat = Repeat.SAFE
    answer_s_max: float = READ_S_MAX


def body_of(request: msgspec.Struct) -> bytes:
    """Return `request` as JSON with only what differs from its default: an absent key is what the protocol shows."""
    given = {
        field.encode_name: value
        for field in msgspec.structs.fields(request)
        if (value := getattr(request, field.name)) != field.default
    }
    return msgspec.json.encode(given)


def query_of(**values: str | int | bool | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return query parameters; None and empty ones are left out, a list becomes one comma-separated value."""
    found = []
    for name, value in values.items():
        match value:
            case None | False | "" | [] | ():
                continue
            case True:
                found.append((name, "1"))
            case str() | int():
                found.append((name, str(value)))
            case _:
                found.append((name, ",".join(value)))
    return tuple(found)


def post(path: str, request: msgspec.Struct, reply: type[T], repeat: Repeat) -> Call[T]:
    """Return a POST that is answered as soon as a lease verb is."""
    return Call("POST", path, reply, body=body_of(request), repeat=repeat, answer_s_max=LEASE_S_MAX)


def change(method: Literal["POST", "PUT", "DELETE"], path: str, request: msgspec.Struct, reply: type[T]) -> Call[T]:
    """Return a change that goes under an Idempotency-Key (D11)."""
    return Call(method, path, reply, body=body_of(request), repeat=Repeat.KEYED)
