"""Why an item is or isn't taken, read in one snapshot (D41)."""

from __future__ import annotations

from dataclasses import replace

from batonpass.core.clock import moment
from batonpass.core.eligibility import Scope
from batonpass.core.identity import Principal
from batonpass.core.ids import NodeId, Resource
from batonpass.core.why import Circumstances, Explanation, explain
from batonpass.store import leases, queue, ranking, tombstones
from batonpass.store.base import Reader


async def read_why(tx: Reader, asker: Principal, node: NodeId) -> Explanation:
    """Return why `node` is or isn't taken, as `asker` sees it; `NotFound` when there is none."""
    now = await tx.now()
    candidates = await queue.candidates(tx, [node], now)
    if not candidates:
        raise await tombstones.absence(tx, node)
    (candidate,) = candidates
    outcomes = await queue.outcomes(tx, [node])
    scope = Scope(
        front=await ranking.front(tx, asker, now), mutes=await ranking.muted(tx, asker.person, moment(now).date())
    )
    policies, obstacles, counts = await tx.fetch(
        leases.policies_asked(),
        leases.obstacles_asked([Resource(node)]),
        leases.live_claims_asked([asker.id], tx.clock.moment()),
    )
    obstacle = leases.obstacles(obstacles).get(Resource(node))
    circumstances = Circumstances(
        policy=leases.policies(policies).for_project(candidate.project),
        resolved_by=_node(obstacle.resolved_by) if obstacle is not None else None,
        superseded_by=_node(obstacle.superseded_by) if obstacle is not None else None,
        in_cycle=bool(candidate.blocked_by) and node in await queue.in_cycles(tx, [node]),
        live_claims=counts[0][1] if counts else 0,
    )
    known = replace(candidate, outcomes=tuple(outcomes.get(node, ())))
    return explain(known, asker, now, scope=scope, circumstances=circumstances)


def _node(text: str | None) -> NodeId | None:
    return NodeId(text) if text is not None else None
