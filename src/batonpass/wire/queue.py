"""The queue's envelope and items, and `queue/next` (companion 3.2, 3.3, D15)."""

from __future__ import annotations

from typing import Literal

import msgspec

from batonpass.core.leases import Kind
from batonpass.core.queue import Item
from batonpass.core.ranking import Signals
from batonpass.core.readiness import Ready
from batonpass.wire.events import Wait
from batonpass.wire.inbox import WaitingBody
from batonpass.wire.leases import LeaseBody
from batonpass.wire.schemas import AnyId, AnyText, Label, Slug


class SignalsBody(msgspec.Struct, omit_defaults=True):
    """The raw values behind a score.

    `front` counts the viewing person's own changes of the item in a week,
    `heat` everybody's in thirty days, both without its filing. `staleness` is
    the share of its edges that lead nowhere, `cold_neighbors` how many of the
    nodes they lead to nobody has changed for thirty days; neither weighs.
    """

    blocking: int
    blocked_by: int
    front: int
    heat: int
    staleness: float
    age_days: int
    needed_by_days: int | None = None
    cold_neighbors: int = 0


class ItemBody(msgspec.Struct, omit_defaults=True):
    """One item. `readiness` is absent when the item is untriaged."""

    id: str
    title: str
    type: str
    status: str | None
    project: str | None
    priority: str | None
    score: float
    signals: SignalsBody
    suggest: str
    why: str
    readiness: str | None = None
    readiness_reasons: list[str] | None = None
    blocked_by: list[str] | None = None
    blocked_cycle: bool = False
    lease_state: Literal["in_progress", "reserved"] | None = None
    lease_by: str | None = None
    lease_by_name: str | None = None
    findings: list[str] | None = None
    profile: str | None = None
    assigned_agents: list[str] | None = None
    commits: list[str] | None = None


class QueueReply(msgspec.Struct, omit_defaults=True):
    """One page. Optional counters stand only when they are not zero.

    The totals cover the first thousand items; with `counts_capped` there are
    more, and `counts=1` counts them all. The five lists from `questions` to
    `reviews` are the viewer's inbox, the longest waiting first, and
    `inbox_truncated` names those that go on; they are absent where the inbox
    was not read.
    """

    items: list[ItemBody]
    count: int
    offset: int
    returned_count: int
    total_count: int
    truncated: bool
    next_offset: int | None
    counts_by_type: dict[str, int]
    counts_by_project: dict[str, int]
    counts_by_suggest: dict[str, int]
    counts_by_readiness: dict[str, int]
    generated_at: str
    archived: int = 0
    gating: int = 0
    dormant: int = 0
    muted: int = 0
    leased: int = 0
    reserved: int = 0
    blocked: int = 0
    counts_capped: bool = False
    seq: str = ""
    """The position this page shows; pass it as `after` with `wait` to be answered when something has changed."""
    project_warning: str | None = None
    questions: list[WaitingBody] | None = None
    asked: list[WaitingBody] | None = None
    findings: list[WaitingBody] | None = None
    pending: list[WaitingBody] | None = None
    reviews: list[WaitingBody] | None = None
    inbox_truncated: list[str] = []


class NextRequest(msgspec.Struct):
    """Body of `POST /v1/queue/next`."""

    project: Slug | None = None
    accept: Literal["ready", "open"] = "ready"
    types: list[AnyText] | None = None
    exclude: list[AnyId] = []
    candidates: list[AnyId] | None = None
    session: Label | None = None
    dispatch: Label | None = None
    wait: Wait = 0


class NextReply(msgspec.Struct, omit_defaults=True):
    """What `next` chose and claimed; with status `empty` there is nothing to take."""

    ok: bool
    status: Literal["claimed", "empty"]
    item: ItemBody | None = None
    lease: LeaseBody | None = None
    expires_in_ms: int | None = None
    waited_ms: int = 0
    """How long after it was sent the request made the claim, at least; `expires_in_ms` counts from there."""


def item_body(item: Item, *, in_cycle: bool = False) -> ItemBody:
    """Return `item` as it goes over the wire; `in_cycle` says that it blocks itself, round about."""
    candidate, lease = item.candidate, item.lease
    derived = item.readiness if item.ready is not Ready.UNTRIAGED else None
    return ItemBody(
        id=candidate.id,
        title=candidate.title,
        type=candidate.type,
        status=candidate.status,
        project=candidate.project,
        priority=candidate.priority,
        score=item.score,
        signals=_signals_body(item.signals),
        suggest=item.suggest,
        why=item.why,
        readiness=derived.value if derived is not None else None,
        readiness_reasons=list(derived.reasons) if derived is not None else None,
        blocked_by=[str(node) for node in candidate.blocked_by] or None,
        blocked_cycle=in_cycle,
        lease_state=None if lease is None else "reserved" if lease.kind is Kind.RESERVATION else "in_progress",
        lease_by=lease.holder if lease is not None else None,
        lease_by_name=lease.holder_name if lease is not None else None,
        findings=[str(node) for node in candidate.findings] or None,
        profile=candidate.profile,
        assigned_agents=[str(node) for node in candidate.assigned_agents] or None,
        commits=list(candidate.commits) or None,
    )


def _signals_body(signals: Signals) -> SignalsBody:
    return SignalsBody(
        blocking=signals.blocking,
        blocked_by=signals.blocked_by,
        front=signals.front,
        heat=signals.heat,
        staleness=signals.staleness,
        age_days=signals.age_days,
        needed_by_days=signals.needed_by_days,
        cold_neighbors=signals.cold_neighbors,
    )
