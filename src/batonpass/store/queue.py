"""The facts of items, from which the law judges them, and the pick of one under a lock (D15, D16).

In which order they come is `store.ranking`'s. Whoever shows or takes an item
reads its facts here, in the snapshot it answers from or under the item's lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from batonpass.core import ranking, readiness
from batonpass.core.clock import micros
from batonpass.core.ids import Instant, NodeId
from batonpass.core.leases import LockedLease
from batonpass.core.policy import Policy
from batonpass.core.queue import Candidate, day
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q
from batonpass.store.leases import Policies, lease_row, locked_row, policies, policies_asked

NODE_COLUMNS: Final = 32
"""How many columns of a facts row are the node's; the lease's follow."""
HEAT_WITHIN: Final = timedelta(days=30)
HEAT_MAX: Final = 1000
"""For how long work on an item keeps it warm, and how much of it is counted."""
COLD_AFTER: Final = timedelta(days=30)
WEAK_EDGES: Final = ("resolves", "answers", "relates-to", "derived-from", "mentions")
"""Edges that make nothing an outcome of what they lead to (companion 3.6)."""
CYCLE_DEPTH_MAX: Final = 16
CYCLE_NODES_MAX: Final = 1000
"""How far up a ring of blockers is followed; a longer one is not recognized as one, and blocks all the same."""
_NOTHING: Final = "[]"
_names: Final = msgspec.json.Decoder(list[str]).decode
_ids: Final = msgspec.json.Decoder(list[NodeId]).decode
_routings: Final = msgspec.json.Decoder(list[tuple[NodeId, bool | int, bool | int]]).decode


async def candidates(
    tx: Reader, ids: Sequence[NodeId], now: Instant, *, in_force: Policies | None = None
) -> list[Candidate]:
    """Return these nodes with all their facts, in the order of `ids`; what is not a node is left out.

    The policies `in_force` are read along, unless they are known in this snapshot or under these locks.
    """
    if not ids:
        return []
    if in_force is None:
        return candidates_of(ids, await tx.fetch(*candidates_asked(ids, now)))
    (facts,) = await tx.fetch(_facts_asked(ids, now))
    return _candidates(ids, facts, in_force)


async def candidates_along(
    tx: Reader, ids: Sequence[NodeId], now: Instant, along: Sequence[Statement], *, in_force: Policies
) -> tuple[list[Candidate], list[list[Row]]]:
    """Return the same, and what is asked along with it in the same round trip."""
    facts, *answers = await tx.fetch(_facts_asked(ids, now), *along)
    return _candidates(ids, facts, in_force), answers


def candidates_asked(ids: Sequence[NodeId], now: Instant) -> list[Statement]:
    """Ask for all the facts of these nodes; see `candidates_of`."""
    return [_facts_asked(ids, now), policies_asked()]


def candidates_of(ids: Sequence[NodeId], answers: Sequence[Sequence[Row]]) -> list[Candidate]:
    """Return the answers to `candidates_asked` in the order of `ids`; what is not a node is left out."""
    facts, in_force = answers
    return _candidates(ids, facts, policies(in_force))


def _facts_asked(ids: Sequence[NodeId], now: Instant) -> Statement:
    return q(
        "queue.facts",
        ids=as_json(ids),
        heat_since=now - micros(HEAT_WITHIN),
        heat_most=HEAT_MAX,
        cold_before=now - micros(COLD_AFTER),
        depth=ranking.BLOCKING_DEPTH_MAX,
        most=ranking.BLOCKING_DEPTH_MAX * ranking.BLOCKING_MAX,
    )


def _candidates(ids: Sequence[NodeId], facts: Sequence[Row], in_force: Policies) -> list[Candidate]:
    by_id = {row[0]: _candidate(row, in_force.for_project(row[4])) for row in facts}
    return [by_id[node] for node in ids if node in by_id]


async def outcomes(tx: Reader, ids: Iterable[NodeId]) -> dict[str, list[NodeId]]:
    """Return what was written about each of these nodes and resolves nothing (companion 3.6)."""
    (rows,) = await tx.fetch(q("queue.outcomes", ids=as_json(sorted(ids)), weak=as_json(WEAK_EDGES)))
    return _grouped(rows)


async def standing_outcomes(tx: Reader, ids: Iterable[NodeId]) -> dict[str, list[NodeId]]:
    """Return the outcomes that stand on those of these open tasks that nothing blocks (companion 1.8)."""
    asked = as_json(sorted(ids))
    found, blockers = await tx.fetch(
        q("queue.outcomes", ids=asked, weak=as_json(WEAK_EDGES)), q("queue.blockers", ids=asked)
    )
    blocked = {target for target, _ in blockers}
    return _grouped(row for row in found if row[0] not in blocked)


async def in_cycles(tx: Reader, ids: Iterable[NodeId]) -> frozenset[NodeId]:
    """Return which of these nodes are blocked by themselves, round about: an import may have brought that (D41)."""
    if not (ids := list(ids)):
        return frozenset()
    (rows,) = await tx.fetch(q("queue.cycles", ids=as_json(sorted(ids)), depth=CYCLE_DEPTH_MAX, most=CYCLE_NODES_MAX))
    return frozenset(NodeId(row[0]) for row in rows)


async def pick(tx: Tx, ids: Sequence[NodeId]) -> LockedLease | None:
    """Return the lease row of the first of `ids` that nobody holds locked, locked now, or None."""
    (rows,) = await tx.fetch(q("queue.pick", ids=as_json(ids)))
    if not rows:
        return None
    lease = locked_row(rows[0])
    tx.locked[lease.resource] = lease
    return lease


def _grouped(rows: Iterable[Row]) -> dict[str, list[NodeId]]:
    groups: dict[str, list[NodeId]] = defaultdict(list)
    for key, value in rows:
        groups[key].append(NodeId(value))
    return groups


def _candidate(row: Row, policy: Policy) -> Candidate:
    (node, kind, title, status, project, priority, priority_by, priority_via, born, wake, needed_by) = row[:11]
    profile, requires, stamp, stamp_by, stamp_person, dead, superseded, resolved = row[11:19]
    archived, execution, commits, heat, edges, stale_edges, cold_neighbors = row[19:26]
    routings, blocked_by, blocking, questions, findings, runs = row[26:NODE_COLUMNS]
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
            requires=_names(requires),
            consent=readiness.Consent(stamp_by or "", bool(stamp_person)) if stamp is not None else None,
            routings=[
                readiness.Routing(to, bool(to_agent), bool(by_person))
                for to, to_agent, by_person in _routings(routings or _NOTHING)
            ],
            open_questions=_ids(questions or _NOTHING),
            lapses=lease.lapses if lease is not None else 0,
            lapse_limit=policy.lapse_limit,
            runs=runs,
            run_limit=policy.run_limit,
            agents_may_ready=policy.agents_may_ready,
        ),
        paused=policy.paused is not None,
        blocked_by=tuple(_ids(blocked_by or _NOTHING)),
        blocking=min(blocking, ranking.BLOCKING_MAX),
        findings=tuple(_ids(findings or _NOTHING)),
        resolved=bool(resolved),
        retired=bool(dead) or bool(superseded),
        archived=bool(archived),
        execution=execution,
        commits=tuple(_names(commits or _NOTHING)),
        heat=heat,
        edges=edges,
        stale_edges=stale_edges,
        cold_neighbors=cold_neighbors,
    )
