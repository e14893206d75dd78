"""The two ways to renew a lease: nodes many in one request, a record's task each in its own.

The heartbeat (`client.heartbeat`) has one law for both: when to beat, and what
an answer or its absence means. What differs is here: how many leases a request
takes, how much of a lease may pass before the next, and how to read the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from batonpass.client import lease_calls, record_calls
from batonpass.client.client import Client, Patience
from batonpass.core.errors import AlreadyClaimed, BatonError, Conflict, LeaseLost, NotFound, StalePremise
from batonpass.core.ids import Fence
from batonpass.core.leases import LeaseView
from batonpass.core.premises import FENCE
from batonpass.core.records import task_of
from batonpass.wire.leases import BulkRenewReply, lease_view
from batonpass.wire.records import TaskReply

NODES_A_BEAT_MAX: Final = 200
"""How many leases one bulk call takes (D7)."""
OVER: Final = frozenset({LeaseLost.code, NotFound.code})
"""Codes of a failed renewal that say the tenure is over; any other says nothing about it."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The tenure stands, for `horizon_s` seconds from when the request was sent."""

    fence: Fence
    horizon_s: float


@dataclass(frozen=True, slots=True)
class Over:
    """The tenure is over, says the server; `holder` is who has the lease now, where it named one."""

    fence: Fence
    why: str
    holder: LeaseView | None = None


@dataclass(frozen=True, slots=True)
class Unclear:
    """Nothing is known of the tenure but what was known before."""

    fence: Fence
    why: str


Renewal = Renewed | Over | Unclear


class Renewing(Protocol):
    """A way to renew leases."""

    a_request_max: int
    """How many leases go into one request."""
    due_share: float
    """After which part of its horizon a lease is due for its next renewal."""

    def renew(
        self, client: Client, fences: Sequence[Fence], *, patience: Patience, answer_s_max: float
    ) -> Sequence[Renewal]:
        """Renew these tenures and no others, and never acquire; return what became of each."""
        ...


class NodesInBulk:
    """Renews leases on nodes, one request for as many as the server takes, at half their horizon."""

    a_request_max = NODES_A_BEAT_MAX
    due_share = 1 / 2

    def renew(
        self, client: Client, fences: Sequence[Fence], *, patience: Patience, answer_s_max: float
    ) -> Sequence[Renewal]:
        """Return what became of each; a request without an answer leaves all of them unclear."""
        call = replace(lease_calls.renew_many(fences), answer_s_max=answer_s_max)
        try:
            reply = client.send(call, patience=patience)
        except BatonError as error:
            return [Unclear(fence, error.message) for fence in fences]
        return list(_read(reply, fences))


class OneTask:
    """Renews the lease that a record's task is, at a third of what was granted, and keeps the last answer.

    A renewal moves the task's version: `answer` has the latest one known.
    """

    a_request_max = 1
    due_share = 1 / 3

    def __init__(self, answer: TaskReply, *, lease_s: int | None = None) -> None:
        self.answer = answer
        self._lease_s = lease_s

    def renew(
        self, client: Client, fences: Sequence[Fence], *, patience: Patience, answer_s_max: float
    ) -> Sequence[Renewal]:
        """Return what became of the one tenure among `fences`."""
        (fence,) = fences
        record, field = task_of(fence.resource)
        pinned = [record_calls.fence(field, fence.epoch)]
        call = record_calls.renew(record, field, lease_s=self._lease_s, based_on=pinned)
        try:
            reply = client.send(replace(call, answer_s_max=answer_s_max), patience=patience)
        except (AlreadyClaimed, StalePremise, LeaseLost, NotFound) as error:
            holder = error.holder if isinstance(error, Conflict) else None
            return [Over(fence, why_over(error), holder)] if error.is_ours else [Unclear(fence, error.message)]
        except BatonError as error:
            return [Unclear(fence, error.message)]
        if reply.epoch != fence.epoch or reply.expires_in_ms is None:
            return [Over(fence, f"{record} {field} is at epoch {reply.epoch}, not {fence.epoch}")]
        self.answer = reply
        return [Renewed(fence, reply.expires_in_ms / 1000)]


def why_over(error: BatonError) -> str:
    """Return the sentence that says why a task is lost, with who has it now where a broken fence names somebody."""
    broken = error.premises if isinstance(error, StalePremise) else ()
    owner = next((each.owner for each in broken if each.kind == FENCE and each.owner is not None), None)
    return error.message if owner is None else f"{owner} has it now: {error.message}"


def _read(reply: BulkRenewReply, fences: Sequence[Fence]) -> Iterator[Renewal]:
    horizons = dict(_horizons(reply))
    failed = {each.node_id: each for each in reply.failed}
    for fence in fences:
        refusal = failed.get(fence.resource)
        if fence.resource in horizons:
            yield Renewed(fence, horizons[fence.resource])
        elif refusal is not None and refusal.code in OVER:
            yield Over(fence, refusal.message, lease_view(refusal.holder) if refusal.holder is not None else None)
        else:
            yield Unclear(fence, refusal.message if refusal is not None else "the server's answer leaves it out")


def _horizons(reply: BulkRenewReply) -> Iterator[tuple[str, float]]:
    """Return how long each renewed lease has, in seconds from when the call ran.

    The reply tells it for the one that ends soonest; how much later the others
    end follows from their times, which are all of one clock: the server's.
    """
    if reply.expires_in_ms is None:
        return
    soonest = min((lease.expires for lease in reply.leases), default=0)
    for lease in reply.leases:
        yield lease.node_id, (reply.expires_in_ms + lease.expires - soonest) / 1000
