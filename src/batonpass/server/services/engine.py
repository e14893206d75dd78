"""The lease engine: a set of requests, one transaction, two round trips (D5).

    lock every row concerned, in order ─┐
    read the clock, the nodes, the      │ first round trip
    policies, nonces and claim counts  ─┘
    decide each in order (core/lease_law), on the row the one before left
    write the changed rows, nonces,    ─┐
    tenures and events, COMMIT         ─┘ second round trip

A single verb is a set of one, a bulk verb a set of many, and requests of
different callers that arrive together are one set too. Items are independent:
a refusal is that item's answer and touches no other.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from batonpass.core import points
from batonpass.core.clock import Clock
from batonpass.core.errors import AlreadyClaimed, BatonError, Conflict, Forbidden, InvalidNode, NotFound
from batonpass.core.ids import HolderId, Instant, NodeId, Resource, TokenHash
from batonpass.core.lease_law import decide
from batonpass.core.leases import (
    Granted,
    Kind,
    LockedLease,
    Refused,
    Request,
    Standing,
)
from batonpass.core.node_types import NODE_TYPES, JudgedBy
from batonpass.core.policy import Policy
from batonpass.core.records import identity_of, is_of_record, task_of
from batonpass.core.values import value
from batonpass.server.services import task_board
from batonpass.server.services.asks import Ask
from batonpass.server.services.classes import Classes
from batonpass.server.services.coalesce import ALONE, Alone, Coalescer
from batonpass.server.services.task_board import TaskBoard
from batonpass.store import events, fences, items, leases, tombstones
from batonpass.store.base import Statement, Store, Tx, Writer, now_asked, retried
from batonpass.store.items import What
from batonpass.store.leases import NodeFacts, Obstacle, Policies
from batonpass.store.tombstones import Tombstone, absent

OF_ANY_VERB: Final = 3
"""How many statements travel with a set in which nobody may acquire: clock, nodes, policies."""


@value(frozen=True, slots=True)
class Done:
    """A granted request: the row as it is at COMMIT, the clock it was decided on, the policy it was decided by.

    `record_version` is that of the record whose task it is about, 0 for none.
    """

    granted: Granted
    now: Instant
    policy: Policy
    record_version: int = 0


Outcome = Done | BatonError


class LeaseEngine:
    """Decides lease requests in sets."""

    def __init__(self, store: Store, classes: Classes) -> None:
        self._store = store
        self._classes = classes
        self._queue: Coalescer[Ask, Outcome] = Coalescer(
            self._run_set, self._run_alone, key=_resource, sets_max=store.writes_at_once
        )

    async def decide(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Return the outcome of each ask, in order; a refusal, or no answer in time, is that ask's outcome alone."""
        return await self._queue.submit(asks) if asks else []

    @retried
    async def _run_set(self, asks: Sequence[Ask]) -> list[Outcome | Alone]:
        tasks = [ask for ask in asks if ask.request.of_task]
        first = task_board.asked(tasks, alone=False) if tasks else []
        async with self._store.write_set(
            [Writer(ask.request.principal, ask.fences) for ask in asks],
            along=[*first, *along(self._store.clock, asks)],
            skip_locked=True,
        ) as tx:
            board = await self._tasks(tx, tasks, len(first), alone=False)
            await points.areach("batch.locked")
            return await decide_in(tx, asks, tasks=board)

    @retried
    async def _run_alone(self, ask: Ask) -> Outcome:
        writer = Writer(ask.request.principal, replace(ask.fences, creating=ask.makes))
        tasks = [ask] if ask.request.of_task else []
        first = task_board.asked(tasks, alone=True) if tasks else []
        async with self._store.write_set([writer], along=[*first, *along(self._store.clock, [ask])]) as tx:
            board = await self._tasks(tx, tasks, len(first), alone=True)
            (outcome,) = await decide_in(tx, [ask], tasks=board)
            if tasks and isinstance(outcome, BatonError):
                raise outcome  # which takes back the rows that were made for it
        assert not isinstance(outcome, Alone), "nothing is skipped when nothing is to be skipped"
        return outcome

    async def _tasks(self, tx: Tx, tasks: Sequence[Ask], asked: int, *, alone: bool) -> TaskBoard:
        """Return the board of a set's tasks, by the first `asked` of the answers that came along; it takes them off."""
        answers, tx.along = tx.along[:asked], tx.along[asked:]
        return await task_board.read(tx, self._classes, tasks, answers, alone=alone) if tasks else TaskBoard()


def _resource(ask: Ask) -> Resource:
    return ask.request.resource


def along(clock: Clock, asks: Sequence[Ask]) -> list[Statement]:
    """Return what is asked in the round trip of the locks, after them: more of it when somebody may acquire.

    It is about nodes; of a set that is about none, only the clock is left.
    """
    requests = [ask.request for ask in asks if not ask.request.of_task]
    if not requests:
        return [now_asked(clock)]
    always = [now_asked(clock), leases.nodes_asked({one.resource for one in requests}), leases.policies_asked()]
    acquiring = [one for one in requests if one.may_acquire]
    if not acquiring:
        return always
    holders = {one.principal.id for one in acquiring}
    nonces = [(one.resource, one.dispatch) for one in acquiring if one.dispatch is not None]
    return [
        leases.holders_locked(holders),  # before the clock is read: this lock may be waited for as well (D5)
        *always,
        leases.obstacles_asked({one.resource for one in acquiring}),
        leases.live_claims_asked(holders, clock.moment()),
        *([leases.nonces_asked(nonces)] if nonces else []),
    ]


def read_at(tx: Tx) -> Instant:
    """Return the moment of `along`, which was read under the locks: the set is decided at it."""
    ((now,),) = tx.along[0 if len(tx.along) <= OF_ANY_VERB else 1]
    return Instant(now)


async def decide_within(tx: Tx, ask: Ask, *, marks: bool = True) -> Outcome:
    """Decide one ask inside a transaction that has locked its row already: a status that claims, `queue/next`.

    Who goes on to lock nodes marks the item itself, after those (D44).
    """
    tx.along = await tx.fetch(*along(tx.clock, [ask]))
    (outcome,) = await decide_in(tx, [ask], marks=marks)
    assert not isinstance(outcome, Alone), "the row is locked already"
    return outcome


async def decide_in(
    tx: Tx, asks: Sequence[Ask], *, marks: bool = True, tasks: TaskBoard | None = None
) -> list[Outcome | Alone]:
    """Decide `asks` under the locks `tx` holds, and hand over what they change."""
    await points.areach("lease.clock_read")
    if len(tx.along) <= OF_ANY_VERB:
        _, nodes, policies = tx.along if len(tx.along) == OF_ANY_VERB else (tx.along[0], [], [])
        obstacles, counts, used = [], [], []
    else:
        _, _, nodes, policies, obstacles, counts, *used = tx.along
    known = leases.nodes(nodes)
    board = _Board(
        tx=tx,
        now=read_at(tx),
        nodes=known,
        gone=await _gone(tx, {ask.request.resource for ask in asks} - known.keys()),
        policies=leases.policies(policies),
        obstacles=leases.obstacles(obstacles),
        live_claims={HolderId(holder): count for holder, count in counts},
        used={(Resource(resource), nonce) for rows in used for resource, nonce in rows},
        before=dict(tx.locked),
        marks=marks,
        tasks=tasks if tasks is not None else TaskBoard(),
    )
    board.traced = await _traces(tx, asks, board)
    outcomes = [board.answer(position, ask) for position, ask in enumerate(asks)]
    await points.areach("lease.decided")
    board.hand_over()
    await points.areach("lease.written")
    return outcomes


async def _gone(tx: Tx, missing: Iterable[Resource]) -> dict[NodeId, Tombstone]:
    """Return which of the resources that are no nodes were some; asked only when there are any, which is rare."""
    return await tombstones.tombstones_of(tx, [NodeId(one) for one in missing if not is_of_record(one)])


async def _traces(tx: Tx, asks: Sequence[Ask], board: _Board) -> frozenset[Resource]:
    """Return which lapsed tenures left something behind; asked only when somebody may take one over (D9)."""
    lapsed = {
        lease.resource: lease
        for ask in asks
        if not ask.request.of_task
        and (lease := tx.locked.get(ask.request.resource)) is not None
        and lease.kind is Kind.CLAIM
        and not lease.in_force(board.now)
    }
    return await leases.traces(tx, lapsed.values()) if lapsed else frozenset()


@dataclass(slots=True)
class _Board:
    """The rows, facts and clock of one set, as each decision leaves them for the next."""

    tx: Tx
    now: Instant
    nodes: dict[Resource, NodeFacts]
    policies: Policies
    obstacles: dict[Resource, Obstacle]
    live_claims: dict[HolderId, int]
    used: set[tuple[Resource, str]]
    before: dict[Resource, LockedLease]
    gone: Mapping[NodeId, Tombstone]
    tasks: TaskBoard
    marks: bool = True
    traced: frozenset[Resource] = frozenset()
    rows: dict[Resource, LockedLease] = field(default_factory=dict)
    happened: list[events.Event] = field(default_factory=list)
    nonces: list[tuple[Resource, str, int]] = field(default_factory=list)
    tenures: list[tuple[TokenHash, Resource, int]] = field(default_factory=list)

    def answer(self, position: int, ask: Ask) -> Outcome | Alone:
        """Decide one ask on the row the ones before left."""
        request = ask.request
        if request.of_task:
            return self._answer_task(position, ask)
        node = self.nodes.get(request.resource)
        if (missing := _cannot_be_leased(request, node, self.gone)) is not None:
            return missing
        if self._is_elsewhere(ask):
            return ALONE
        if position in self.tx.broken:
            return fences.lost(self.tx, position, Writer(request.principal, ask.fences), self.now)
        lease = self._row(request.resource)
        if lease is None:  # a node has its row from the beginning, so this one began after the locks were taken
            return NotFound(f"there is no {request.resource}")
        policy = self.policies.for_project(node.project if node is not None else None)
        answer = decide(lease, request, self._standing(request, node, policy), self.now)
        assert request.may_acquire or isinstance(answer, Refused) or not answer.acquired, request
        self.rows[request.resource] = answer.lease
        if isinstance(answer, Refused):
            return answer.raised(self.now)
        self._note(request, lease, answer, node)
        return Done(answer, self.now, policy)

    def _answer_task(self, position: int, ask: Ask) -> Outcome | Alone:
        """Decide what is asked about a record's task: by its class first, which says who may ask (D35)."""
        request = ask.request
        try:
            terms = self.tasks.terms(ask)
        except BatonError as refusal:
            return refusal
        lease = self._row(request.resource)
        if self.tasks.must_wait(ask) or self._is_elsewhere(ask) or (lease is None and ask.makes):
            assert not self.tasks.alone, "alone, whatever is needed was waited for or made"
            return ALONE
        if position in self.tx.broken:
            return fences.lost(self.tx, position, Writer(request.principal, ask.fences), self.now)
        if (stale := self.tasks.stale(ask, ChainMap(self.rows, self.before))) is not None:
            return stale
        if lease is None:
            lease = leases.unclaimed(request.resource)
        if ask.is_pinned:
            request = replace(request, if_epoch=lease.epoch)
        answer = decide(lease, request, Standing(terms.policy, counts_lapses=False), self.now)
        if request.resource in self.before:
            self.rows[request.resource] = answer.lease
        if isinstance(answer, Refused):
            return _of_task(answer.raised(self.now), answer)
        self.tasks.note(ask, terms, lease, answer, now=self.now)
        self._note(request, lease, answer, None)
        record = self.tasks.record(request.resource)
        return Done(answer, self.now, terms.policy, record.version if record is not None else 0)

    def _row(self, resource: Resource) -> LockedLease | None:
        """Return a lease's row as the ones before left it."""
        return self.rows.get(resource) or self.before.get(resource)

    def _is_elsewhere(self, ask: Ask) -> bool:
        """Whether a row that the ask needs is locked by somebody else, and not waited for here."""
        return bool(self.tx.skipped and self.tx.skipped & ask.fences.resources(ask.request.principal))

    def _standing(self, request: Request, node: NodeFacts | None, policy: Policy) -> Standing:
        if not request.may_acquire:
            return Standing(policy)
        obstacle = self.obstacles.get(request.resource)
        return Standing(
            policy=policy,
            unclaimable=_unclaimable(obstacle),
            boundary=obstacle.execution if obstacle is not None else None,
            nonce_used=request.dispatch is not None and (request.resource, request.dispatch) in self.used,
            live_claims=self.live_claims.get(request.principal.id, 0),
            left_trace=request.resource in self.traced,
            counts_lapses=node is not None and NODE_TYPES[node.type].judged_by is JudgedBy.EDGE,
        )

    def _note(self, request: Request, lease: LockedLease, granted: Granted, node: NodeFacts | None) -> None:
        """Note what a grant leaves beside the row: its nonce, its working set, its event."""
        after, principal = granted.lease, request.principal
        if granted.acquired:
            if not request.of_task:
                self.live_claims[principal.id] = self.live_claims.get(principal.id, 0) + 1
            if principal.run is not None:
                self.tenures.append((principal.token, after.resource, after.epoch))
        if after.dispatch is not None and (granted.acquired or lease.dispatch is None):
            self.used.add((after.resource, after.dispatch))
            self.nonces.append((after.resource, after.dispatch, after.epoch))
        if granted.happened is not None:
            self.happened.append(_event(request, granted, node))

    def hand_over(self) -> None:
        """Send every changed row once, and what goes with it."""
        changes = [(self.before[resource], after) for resource, after in sorted(self.rows.items())]
        leases.write(self.tx, [(before, after) for before, after in changes if before != after])
        leases.note_nonces(self.tx, self.nonces)
        leases.note_tenures(self.tx, self.tenures)
        self._mark([(before, after) for before, after in changes if not is_of_record(after.resource)])
        self.tasks.hand_over(self.tx, self.now)
        events.append(self.tx, self.happened, at=self.now)

    def _mark(self, changes: Sequence[tuple[LockedLease, LockedLease]]) -> None:
        """Mark the items that begin or cease to be held; renewals, and one hold in the place of another, mark none."""
        busy = [after.resource for before, after in changes if before.kind is Kind.NONE is not after.kind]
        free = [after.resource for before, after in changes if before.kind is not Kind.NONE is after.kind]
        if self.marks and (busy or free):
            self.tx.put(items.marked(busy, free))
        if lapsed := [after.resource for before, after in changes if before.lapses != after.lapses]:
            items.note(self.tx, lapsed, What.ITEM)


def _cannot_be_leased(request: Request, node: NodeFacts | None, gone: Mapping[NodeId, Tombstone]) -> BatonError | None:
    """Return why there is nothing to lease: no such node, or not any more, or a type that is not work (D10)."""
    if node is None:
        missing = NodeId(request.resource)
        return absent(missing, gone.get(missing))
    if not NODE_TYPES[node.type].claimable:
        claimable = ", ".join(sorted(kind.name for kind in NODE_TYPES.values() if kind.claimable))
        return InvalidNode(
            f"{node.id} is not a claimable node type",
            details=[f"type: {node.type} is not work; only work nodes can be claimed: {claimable}"],
        )
    return None


def _unclaimable(obstacle: Obstacle | None) -> str | None:
    """Return why a node is not to be claimed: it reads resolved, superseded or retired (D10)."""
    if obstacle is None or obstacle.execution is not None:
        return None
    node = obstacle.id
    if obstacle.resolved_by is not None:
        return (
            f"{node} is resolved by {obstacle.resolved_by}; there is nothing left to do (force claims it all the same)"
        )
    if obstacle.superseded_by is not None:
        return f"{node} is superseded by {obstacle.superseded_by}; claim that one (force claims it all the same)"
    return f"{node} has status {obstacle.status}; reopen it first (force claims it all the same)"


def _of_task(error: Conflict | Forbidden, refused: Refused) -> Conflict | Forbidden:
    """Return the refusal with what it says of a record's field: its name, and its version if somebody holds it."""
    error.field = task_of(refused.lease.resource)[1]
    if isinstance(error, AlreadyClaimed):
        error.version = refused.lease.version
    return error


def _event(request: Request, granted: Granted, node: NodeFacts | None) -> events.Event:
    data: dict[str, object] = {}
    if granted.displaced is not None:
        data["displaced"] = identity_of(granted.displaced) if request.of_task else granted.displaced
    if request.reason is not None:
        data["reason"] = request.reason
    assert granted.happened is not None
    happened = events.Event(
        kind=granted.happened,
        node=None,
        project=node.project if node is not None else None,
        actor=request.principal,
        session=granted.lease.session,
        epoch=granted.lease.epoch,
        data=data,
    )
    return happened.about(request.resource, version=granted.lease.version)
