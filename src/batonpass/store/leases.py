"""Lease rows: locking, reading, writing. Who may hold what is core's to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from operator import attrgetter
from typing import Final

from batonpass.core.ids import HolderId, Instant, NodeId, PersonId, Resource, TokenHash
from batonpass.core.leases import Kind, Lease, LockedLease
from batonpass.core.policy import EVERY_PROJECT, Policy
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q

LOST_SHOWN_FOR: Final = timedelta(hours=1)
"""How long an enumerating renewal reports a lease that lapsed or was taken; after that it simply is not there."""
POLICIES_LOCK: Final = 0x706F6C696379  # "policy" in ASCII
COLUMNS: Final = 17
"""How many columns of a row are the lease's own, in the order of its fields."""


@value(frozen=True, slots=True)
class NodeFacts:
    """What every lease verb must know of a node: read under the lock, in a statement of its own."""

    id: NodeId
    type: str
    project: str | None


@value(frozen=True, slots=True)
class Obstacle:
    """Why a node is not to be claimed: dead by its status, superseded, resolved (D10), or in a pipeline (D24a)."""

    id: NodeId
    status: str | None
    superseded_by: str | None
    resolved_by: str | None
    execution: str | None


@value(frozen=True, slots=True)
class ListedLease:
    """A lease with the project and title of its node."""

    lease: Lease
    project: str | None
    title: str | None


def locked_row(row: Row) -> LockedLease:
    """Return a row of a lock statement; nothing else may call this."""
    return LockedLease(row[0], _KINDS[row[1]], *row[2:])


def lease_row(row: Row) -> Lease:
    """Return a row that was read without a lock."""
    return Lease(row[0], _KINDS[row[1]], *row[2:COLUMNS])


# --- statements that travel with others --------------------------------------------------------------------------


def nodes_asked(resources: Iterable[Resource]) -> Statement:
    """Ask what every verb must know of the nodes among `resources`; see `nodes`."""
    return q("leases.nodes", resources=as_json(sorted(resources)))


def nodes(rows: Sequence[Row]) -> dict[Resource, NodeFacts]:
    """Return the answer to `nodes_asked` by resource; a resource that is no node is absent."""
    return {row[0]: NodeFacts(*row) for row in rows}


def obstacles_asked(resources: Iterable[Resource]) -> Statement:
    """Ask which of the nodes among `resources` are not to be claimed; see `obstacles`."""
    return q("leases.obstacles", resources=as_json(sorted(resources)))


def obstacles(rows: Sequence[Row]) -> dict[Resource, Obstacle]:
    """Return the answer to `obstacles_asked` by resource; what may be claimed is absent."""
    return {row[0]: Obstacle(*row) for row in rows}


def policies_asked() -> Statement:
    """Ask for every policy; see `policies`."""
    return q("leases.policies")


def policies_locked() -> Statement:
    """Let nobody else change a policy until the transaction ends: changes read what is there first."""
    return q("leases.lock_policies", key=POLICIES_LOCK)


def policies(rows: Sequence[Row]) -> Policies:
    """Return the answer to `policies_asked`."""
    return Policies({row[0]: tuple(row[1:]) for row in rows})


def live_claims_asked(holders: Iterable[HolderId], now: Instant | None) -> Statement:
    """Ask how many leases in force each holder has."""
    return q("leases.live_claims", holders=as_json(sorted(holders)), now=now)


def holders_locked(holders: Iterable[HolderId]) -> Statement:
    """Let nobody else acquire for these holders until the transaction ends, so that a count of theirs stays true."""
    return q("leases.lock_holders", holders=as_json(sorted(holders)))


def nonces_asked(pairs: Iterable[tuple[Resource, str]]) -> Statement:
    """Ask which (resource, nonce) pairs have acquired before."""
    return q("leases.nonces_used", pairs=as_json([{"resource": r, "nonce": n} for r, n in sorted(set(pairs))]))


@value(frozen=True, slots=True)
class Policies:
    """The stored overrides of every project; `for_project` folds them over the defaults (D8)."""

    overrides: Mapping[str, tuple[object, ...]]
    _folded: dict[str | None, Policy] = field(default_factory=dict, compare=False)

    def for_project(self, project: str | None) -> Policy:
        """Return the policy in force for `project`: its own overrides, then `*`, then the defaults."""
        if (folded := self._folded.get(project)) is None:
            folded = self._folded[project] = self._fold(project)
        return folded

    def _fold(self, project: str | None) -> Policy:
        layers = [self.overrides.get(EVERY_PROJECT, ()), self.overrides.get(project or EVERY_PROJECT, ())]
        values: dict[str, object] = {}
        for layer in layers:
            for (name, decode), stored in zip(_POLICY_COLUMNS, layer, strict=False):
                if stored is not None:
                    values[name] = decode(stored)
        return Policy(**values)  # type: ignore[arg-type]  # the columns are the fields, each decoded to its type

    def own_settings(self, project: str) -> dict[str, object]:
        """Return what is stored for `project` itself, by column; None where nothing is."""
        return dict(zip(POLICY_SETTINGS, self.overrides.get(project, (None,) * len(POLICY_SETTINGS)), strict=True))

    def with_settings(self, project: str, settings: Mapping[str, object]) -> Policies:
        """Return these policies with `settings` as what is stored for `project`."""
        return Policies({**self.overrides, project: tuple(settings[name] for name in POLICY_SETTINGS)})


# --- reading and writing -----------------------------------------------------------------------------------------


def asked(resources: Iterable[Resource]) -> Statement:
    """Ask for the rows of `resources` as committed; see `leases_of`."""
    return q("leases.of", resources=as_json(sorted(resources)))


async def leases_of(tx: Reader, resources: Iterable[Resource]) -> dict[Resource, Lease]:
    """Return the rows of `resources` as committed; for views only."""
    (rows,) = await tx.fetch(asked(resources))
    return {lease.resource: lease for lease in map(lease_row, rows)}


async def candidates_of(
    tx: Reader, holder: HolderId, *, person: PersonId | None, session: str | None, now: Instant
) -> list[Resource]:
    """Return the resources an enumerating verb of `holder` is about: held, lapsed or lost within the hour."""
    since = now - LOST_SHOWN_FOR // timedelta(microseconds=1)
    (rows,) = await tx.fetch(q("leases.of_holder", holder=holder, person=person, session=session, since=since))
    return [Resource(row[0]) for row in rows]


async def list_leases(
    tx: Reader,
    *,
    holder: str | None,
    project: str | None,
    state: str | None,
    now: Instant,
    after: str,
    most: int,
) -> list[ListedLease]:
    """Return at most `most` leases after the resource `after`, in order of resource."""
    (rows,) = await tx.fetch(
        q("leases.list", holder=holder, project=project, state=state, now=now, after=after, most=most)
    )
    return [ListedLease(lease_row(row), row[COLUMNS], row[COLUMNS + 1]) for row in rows]


async def traces(tx: Reader, lapsed: Iterable[Lease]) -> frozenset[Resource]:
    """Return which of the `lapsed` tenures left a report, decline or resolver behind (D9)."""
    tenures = [{"resource": lease.resource, "holder": lease.holder, "since": lease.claimed_at} for lease in lapsed]
    (rows,) = await tx.fetch(q("leases.traces", tenures=as_json(tenures)))
    return frozenset(Resource(row[0]) for row in rows)


def write(tx: Tx, changes: Sequence[tuple[LockedLease, LockedLease]]) -> None:
    """Write each (as locked, as decided) pair. A row that moved in between would be a bug, and fails the whole."""
    carried_on, others = [], []
    for before, after in changes:
        assert after.resource == before.resource, (before, after)
        assert after.epoch >= before.epoch, (before, after)
        moved = after.version > before.version or after.granted_at != before.granted_at
        assert moved or after.run_token != before.run_token, (before, after)
        if _tenure(before) == _tenure(after):
            carried_on.append({"was_version": before.version, **_values(after, _OF_A_RENEWAL)})
        else:
            others.append({"was_version": before.version, **_values(after, _COLUMNS)})
        tx.locked[after.resource] = after
    for statement, rows in (("leases.write", others), ("leases.carry_on", carried_on)):
        if rows:
            tx.put(q(statement, rows=as_json(rows), expected=len(rows)))


def unclaimed(resource: Resource) -> LockedLease:
    """Return what the row of a task would be that nobody ever claimed, and that has none: there is nothing to lock."""
    return LockedLease(
        resource=resource,
        kind=Kind.NONE,
        holder=None,
        holder_name=None,
        owner=None,
        session=None,
        dispatch=None,
        epoch=0,
        version=0,
        claimed_at=None,
        granted_at=None,
        expires_at=None,
        lapses=0,
        run_token=None,
        acquired_under=None,
        taken_from=None,
        provisional=False,
    )


def create(tx: Tx, resources: Sequence[Resource]) -> None:
    """Make the free rows of new resources."""
    if resources:
        tx.put(q("leases.create", resources=as_json(resources)))


def note_nonces(tx: Tx, rows: Sequence[tuple[Resource, str, int]]) -> None:
    """Remember the nonces that acquired, so that they never do again (D6)."""
    if rows:
        tx.put(q("leases.note_nonces", rows=as_json([{"resource": r, "nonce": n, "epoch": e} for r, n, e in rows])))


def note_tenures(tx: Tx, rows: Sequence[tuple[TokenHash, Resource, int]]) -> None:
    """Remember the tenures acquired under run tokens: their working sets (D2b)."""
    if rows:
        tx.put(q("leases.note_tenures", rows=as_json([{"token": t, "resource": r, "epoch": e} for t, r, e in rows])))


def put_policy(tx: Tx, project: str, settings: Mapping[str, object]) -> None:
    """Store every setting of `project`; None falls back to `*`, then to the default."""
    tx.put(q("leases.put_policy", project=project, **settings))


def _values(lease: Lease, columns: Sequence[str]) -> dict[str, object]:
    return {name: getattr(lease, name) for name in columns}


def _ms(value: object) -> timedelta:
    assert isinstance(value, int)
    return timedelta(milliseconds=value)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


POLICY_SETTINGS: Final = (
    "claim_ttl_ms",
    "claim_ttl_max_ms",
    "reserve_grace_ms",
    "lapse_limit",
    "run_limit",
    "max_claims",
    "paused",
    "agents_may_ready",
)
_COLUMNS: Final = tuple(LockedLease.__dataclass_fields__)
_OF_A_RENEWAL: Final = ("resource", "session", "version", "granted_at", "expires_at")
_tenure: Final = attrgetter(*(name for name in _COLUMNS if name not in _OF_A_RENEWAL))
"""What a renewal leaves as it is: nearly all that is written are renewals, and they write the rest."""
_KINDS: Final = {kind.value: kind for kind in Kind}
_POLICY_COLUMNS: Final[tuple[tuple[str, Callable[[object], object]], ...]] = (
    ("claim_ttl", _ms),
    ("claim_ttl_max", _ms),
    ("reserve_grace", _ms),
    ("lapse_limit", _number),
    ("run_limit", _number),
    ("max_claims", _number),
    ("paused", str),
    ("agents_may_ready", bool),
)
