"""Each API call as a pure function that returns a `Call`: what to send, and what the answer is decoded to.

Nothing here sends. `client.client` does, and reads from `Call.repeat` whether
a request whose answer was lost may be sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, TypeVar

import msgspec

from batonpass.core.ids import Fence, NodeId
from batonpass.wire import leases as wire
from batonpass.wire import paths

T = TypeVar("T")

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
class Call(Generic[T]):
    """One request, and the wire struct that its 2xx answer is decoded to."""

    method: str
    path: str
    reply: type[T]
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


# --- leases ----------------------------------------------------------------------------------------------------------


def claim(
    node: NodeId,
    *,
    session: str | None = None,
    dispatch: str | None = None,
    if_epoch: int | None = None,
    force: bool = False,
) -> Call[wire.LeaseReply]:
    """Take the lease on `node`. With a `dispatch` nonce of its own a launch excludes every other, its twin included."""
    pinned = dispatch is not None or if_epoch is not None
    request = wire.ClaimRequest(session=session, dispatch=dispatch, if_epoch=if_epoch, force=force)
    return _post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.SAFE if pinned else Repeat.NEVER)


def take(node: NodeId, *, reason: str, session: str | None = None) -> Call[wire.LeaseReply]:
    """End whatever tenure stands on `node` and claim it in the same step (D41); each sending begins a new tenure."""
    request = wire.ClaimRequest(session=session, take=True, reason=reason)
    return _post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.NEVER)


def renew(
    node: NodeId, *, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Move the lease's end away. Without `if_epoch` a free node is claimed, as the protocol has it."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch, reclaim=reclaim)
    return _post(paths.fill(paths.RENEW, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def extend(
    node: NodeId, *, ms: int, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Stretch the lease to `ms` milliseconds from now, at most to the policy's maximum."""
    request = wire.ExtendRequest(ms=ms, session=session, if_epoch=if_epoch, reclaim=reclaim)
    return _post(paths.fill(paths.EXTEND, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def reserve(node: NodeId, *, if_epoch: int | None = None, session: str | None = None) -> Call[wire.LeaseReply]:
    """Park `node` for its holder. It ends the tenure, so a second sending could only be told that it is over."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch)
    return _post(paths.fill(paths.RESERVE, id=node), request, wire.LeaseReply, Repeat.NEVER)


def release(node: NodeId, *, if_epoch: int | None = None, reason: str | None = None) -> Call[wire.ReleaseReply]:
    """Give `node` back; with `if_epoch`, only if that tenure is still the node's."""
    request = wire.ReleaseRequest(if_epoch=if_epoch, reason=reason)
    return _post(paths.fill(paths.RELEASE, id=node), request, wire.ReleaseReply, _pinned(if_epoch))


def claim_many(nodes: Sequence[NodeId], *, session: str | None = None) -> Call[wire.BulkClaimReply]:
    """Claim a working set; the reply's `failed` says which did not land, and why."""
    request = wire.BulkClaimRequest(ids=list(nodes), session=session)
    return _post(paths.QUEUE_CLAIM, request, wire.BulkClaimReply, Repeat.NEVER)


def renew_many(
    fences: Sequence[Fence], *, session: str | None = None, reclaim: bool = True
) -> Call[wire.BulkRenewReply]:
    """Renew exactly these tenures, one request for all; none is ever acquired anew (D2b)."""
    tenures = [wire.Tenure(fence.resource, fence.epoch) for fence in fences]
    request = wire.BulkRenewRequest(leases=tenures, session=session, reclaim=reclaim)
    return _post(paths.QUEUE_RENEW, request, wire.BulkRenewReply, Repeat.SAFE)


def renew_held(*, session: str | None = None) -> Call[wire.BulkRenewReply]:
    """Renew every live lease the caller holds, of one session if given; reclaims nothing, leaves reservations."""
    return _post(paths.QUEUE_RENEW, wire.BulkRenewRequest(session=session), wire.BulkRenewReply, Repeat.SAFE)


def release_held(*, session: str | None = None, reservations: bool = False) -> Call[wire.BulkReleaseReply]:
    """Give back every live claim the caller holds, of one session if given."""
    request = wire.BulkReleaseRequest(session=session, reservations=reservations)
    return _post(paths.QUEUE_RELEASE, request, wire.BulkReleaseReply, Repeat.NEVER)


def leases(
    *,
    holder: str | None = None,
    project: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[wire.LeasesReply]:
    """List who holds what: `state` is live, lapsed or reserved (D41)."""
    query = query_of(holder=holder, project=project, state=state, limit=limit, after=after)
    return Call("GET", paths.LEASES, wire.LeasesReply, query)


def _post(path: str, request: msgspec.Struct, reply: type[T], repeat: Repeat) -> Call[T]:
    return Call("POST", path, reply, body=body_of(request), repeat=repeat, answer_s_max=LEASE_S_MAX)


def _pinned(if_epoch: int | None) -> Repeat:
    """Return how a verb may be repeated: pinned to a tenure it is idempotent, without it it could acquire."""
    return Repeat.SAFE if if_epoch is not None else Repeat.NEVER
