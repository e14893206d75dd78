"""The queue's reads: its order, a window at a time, the facts of nodes, and the pick under a lock.

Eligibility is core's to judge, on the facts of a node; here the queue is only
read in its order, from one place to the next, as far as the reader wants.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from batonpass.core import readiness
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, NodeId, Resource
from batonpass.core.leases import LockedLease
from batonpass.core.policy import Policy
from batonpass.core.queue import Candidate, day
from batonpass.store.base import Reader, Retry, Row, Tx, as_json, q
from batonpass.store.leases import lease_row, locked_row, policies, policies_asked

NODE_COLUMNS: Final = 19
"""How many columns of a facts row are the node's; the lease's follow."""
WINDOW_FIRST: Final = 32
WINDOW_MAX: Final = 64
"""How many nodes are read at a time. SQLite is read on the event loop, which stands still for so many."""
RESERVED_MAX: Final = 200
"""How many reservations of one's own are put first; whoever has more finds the others where they rank."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Which nodes of the queue a reader wants; None is all of them.

    Of what is read in windows, `unclaimed_at` leaves out what is claimed then.
    """

    project: str | None = None
    types: tuple[str, ...] | None = None
    exclude_types: tuple[str, ...] = ()
    assignee: str | None = None
    unclaimed_at: Instant | None = None

    def params(self) -> dict[str, object]:
        """Return the parameters of a statement that reads the queue's order."""
        return {
            "project": self.project,
            "types": as_json(self.types) if self.types is not None else None,
            "exclude_types": as_json(self.exclude_types),
            "assignee": self.assignee,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the queue's order: behind the node with this id."""

    rank: int
    born: Instant
    id: str


START: Final = Place(0, Instant(0), "")
"""Before everything: ranks begin at 1."""


@dataclass(frozen=True, slots=True)
class Window:
    """Nodes that follow each other in the queue; `last` says that none follow them."""

    ids: tuple[NodeId, ...]
    end: Place
    last: bool


def sizes() -> Iterator[int]:
    """Yield how many nodes to read next: few for whoever finds something soon, more for whoever has to go on."""
    size = WINDOW_FIRST
    while True:
        yield size
        size = min(2 * size, WINDOW_MAX)


async def window(tx: Reader, narrow: Narrow, after: Place, size: int) -> Window:
    """Return the next `size` nodes behind a place. The event loop runs in between, so never inside a write (D42)."""
    await asyncio.sleep(0)
    statement = "queue.window" if narrow.project is None else "queue.window_in"
    (rows,) = await tx.fetch(
        q(statement, **narrow.params(), unclaimed_at=narrow.unclaimed_at, **asdict(after), most=size + 1)
    )
    places = [Place(rank, born, node) for node, rank, born in rows[:size]]
    return Window(
        ids=tuple(NodeId(place.id) for place in places),
        end=places[-1] if places else after,
        last=len(rows) <= size,
    )


async def windows(tx: Reader, narrow: Narrow) -> AsyncIterator[Window]:
    """Yield the whole queue of one snapshot, window by window."""
    after = START
    for size in sizes():
        found = await window(tx, narrow, after, size)
        yield found
        if found.last:
            return
        after = found.end


async def reserved(tx: Reader, narrow: Narrow, viewer: Principal, now: Instant) -> tuple[NodeId, ...]:
    """Return the nodes that `viewer`, or for a person one of its agents, has reserved, in the queue's order (D14)."""
    owner = viewer.person if viewer.is_person else None
    (rows,) = await tx.fetch(
        q("queue.reserved", holder=viewer.id, owner=owner, now=now, **narrow.params(), most=RESERVED_MAX)
    )
    return tuple(NodeId(row[0]) for row in rows)


async def candidates(tx: Reader, ids: Sequence[NodeId]) -> list[Candidate]:
    """Return these nodes with all their facts, in the order of `ids`; what is not a node is left out."""
    if not ids:
        return []
    wanted = as_json(ids)
    facts, routings, blockers, blocking, questions, findings, policy_rows = await tx.fetch(
        q("queue.facts", ids=wanted),
        q("queue.routings", ids=wanted),
        q("queue.blockers", ids=wanted),
        q("queue.blocking", ids=wanted),
        q("queue.questions", ids=wanted),
        q("queue.findings", ids=wanted),
        policies_asked(),
    )
    in_force = policies(policy_rows)
    by_src: dict[str, list[readiness.Routing]] = defaultdict(list)
    for src, dst, to_agent, by_person in routings:
        by_src[src].append(readiness.Routing(NodeId(dst), bool(to_agent), bool(by_person)))
    blocked_by, asked, found = _grouped(blockers), _grouped(questions), _grouped(findings)
    blocks = {row[0]: row[1] for row in blocking}
    by_id = {
        row[0]: _candidate(
            row,
            routings=by_src[row[0]],
            blocked_by=blocked_by[row[0]],
            blocking=blocks.get(row[0], 0),
            questions=asked[row[0]],
            findings=found[row[0]],
            policy=in_force.for_project(row[4]),
        )
        for row in facts
    }
    return [by_id[node] for node in ids if node in by_id]


async def pick(tx: Tx, ids: Sequence[NodeId]) -> LockedLease | None:
    """Return the lease row of the first of `ids` that nobody holds locked, locked now, or None."""
    (rows,) = await tx.fetch(q("queue.pick", ids=as_json(ids)))
    if not rows:
        return None
    lease = locked_row(rows[0])
    tx.locked[lease.resource] = lease
    return lease


async def launched(tx: Reader, holder: HolderId, dispatch: str) -> Resource | None:
    """Return what the holder's launch with this nonce has claimed, or None; as committed, so outside a write a hint."""
    (rows,) = await tx.fetch(q("queue.launched", holder=holder, dispatch=dispatch))
    return Resource(rows[0][0]) if rows else None


async def lock_launch(tx: Tx, holder: HolderId, dispatch: str) -> LockedLease | None:
    """Keep every other `next` of this launch out until COMMIT, and return the lease it has already, locked, or None."""
    # Two statements: what the other one claimed is not in the snapshot of the statement that waited for it.
    _, rows = await tx.fetch(
        q("queue.lock_launch", holder=holder, dispatch=dispatch), q("queue.launched", holder=holder, dispatch=dispatch)
    )
    if not rows:
        return None
    # Not waited for: whoever has it locked may be waiting for this launch (D44).
    lease = await pick(tx, [NodeId(rows[0][0])])
    if lease is None:
        raise Retry(f"{rows[0][0]} is being changed at this moment; nothing was changed")
    # It may have been released, or even acquired by somebody else, since it was read.
    return lease if (lease.holder, lease.dispatch) == (holder, dispatch) else None


def _grouped(rows: Iterable[Row]) -> dict[str, list[NodeId]]:
    groups: dict[str, list[NodeId]] = defaultdict(list)
    for key, value in rows:
        groups[key].append(NodeId(value))
    return groups


def _candidate(
    row: Row,
    *,
    routings: Sequence[readiness.Routing],
    blocked_by: Sequence[NodeId],
    blocking: int,
    questions: Sequence[NodeId],
    findings: Sequence[NodeId],
    policy: Policy,
) -> Candidate:
    (node, kind, title, status, project, priority, priority_by, priority_via, born, wake, needed_by) = row[:11]
    profile, requires, stamp, stamp_by, stamp_person, dead, superseded, resolved = row[11:NODE_COLUMNS]
    lease = lease_row(row[NODE_COLUMNS:]) if row[NODE_COLUMNS] is not None else None
    return Candidate(
        id=NodeId(node),
        type=kind,
        title=title,
        status=status,
        project=project,
        priority=priority,
        priority_by=priority_by,
        priority_via=priority_via,
        born=born,
        wake=day(wake),
        needed_by=day(needed_by),
        profile=profile,
        lease=lease,
        ready=readiness.Facts(
            node_type=kind,
            requires=json.loads(requires),
            consent=readiness.Consent(stamp_by or "", bool(stamp_person)) if stamp is not None else None,
            routings=routings,
            open_questions=questions,
            lapses=lease.lapses if lease is not None else 0,
            lapse_limit=policy.lapse_limit,
            agents_may_ready=policy.agents_may_ready,
        ),
        paused=policy.paused is not None,
        blocked_by=tuple(blocked_by),
        blocking=blocking,
        findings=tuple(findings),
        resolved=bool(resolved),
        retired=bool(dead) or bool(superseded),
    )
