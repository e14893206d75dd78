"""The queue's reads: candidates in order, their facts, and the pick under a lock."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from batonpass.core import readiness
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, NodeId, Resource
from batonpass.core.leases import LockedLease
from batonpass.core.policy import Policy
from batonpass.core.queue import Candidate, day
from batonpass.store.base import Reader, Row, Tx, as_json, q
from batonpass.store.leases import lease_row, locked_row, policies, policies_asked

NODE_COLUMNS: Final = 19
"""How many columns of a facts row are the node's; the lease's follow."""


async def candidate_ids(
    tx: Reader,
    *,
    project: str | None,
    types: Sequence[str] | None,
    exclude_types: Sequence[str],
    assignee: str | None,
    most: int,
) -> list[NodeId]:
    """Return at most `most` live queueable nodes of a scope, by priority, age and id."""
    (rows,) = await tx.fetch(
        q(
            "queue.candidates",
            project=project,
            types=as_json(types) if types is not None else None,
            exclude_types=as_json(list(exclude_types)),
            assignee=assignee,
            most=most,
        )
    )
    return [NodeId(row[0]) for row in rows]


async def takeable_ids(
    tx: Reader,
    taker: Principal,
    *,
    project: str | None,
    types: Sequence[str] | None,
    now: Instant,
    most: int,
) -> list[NodeId]:
    """Return at most `most` nodes reserved for `taker`, then as many that nobody holds, each by priority and age."""
    wanted = as_json(types) if types is not None else None
    reserved, free = await tx.fetch(
        q("queue.reserved", holder=taker.id, owner=taker.person if taker.is_person else None, now=now, most=most),
        q("queue.free", project=project, types=wanted, now=now, most=most),
    )
    return [NodeId(row[0]) for row in (*reserved, *free)]


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
    """Return what the holder's launch with this nonce has claimed, or None."""
    (rows,) = await tx.fetch(q("queue.launched", holder=holder, dispatch=dispatch))
    return Resource(rows[0][0]) if rows else None


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
        blocked_by=tuple(blocked_by),
        blocking=blocking,
        findings=tuple(findings),
        resolved=bool(resolved),
        retired=bool(dead) or bool(superseded),
    )
