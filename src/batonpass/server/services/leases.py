"""The lease verbs, single and bulk: who may call them and what each asks of the engine (leases specification)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from batonpass.core.errors import BatonError, FenceBroken, Invalid
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, NodeId, Resource
from batonpass.core.lease_law import lost_to_another
from batonpass.core.leases import Kind, Lease, Request, Verb, is_callers
from batonpass.server.services.asks import Ask
from batonpass.server.services.change import Caller, require_writer
from batonpass.server.services.engine import Done, LeaseEngine, Outcome
from batonpass.server.services.principals import current
from batonpass.store import leases
from batonpass.store.base import Fences, Store
from batonpass.store.leases import ListedLease

T = TypeVar("T")

BULK_IDS_MAX: Final = 200
"""How many ids one bulk call takes (D7)."""
PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Bulk:
    """What a bulk verb did: each resource's outcome in order, and what the enumerating arm left out."""

    outcomes: tuple[tuple[Resource, Outcome], ...]
    skipped_other_session: int = 0
    skipped_reserved: int = 0


@dataclass(frozen=True, slots=True)
class LeasePage:
    """Leases with the clock they are to be read by, and where the next page begins."""

    leases: tuple[ListedLease, ...]
    now: Instant
    next: Resource | None


class Leases:
    """The lease family of the API. Each public method is one call of it."""

    def __init__(self, store: Store, engine: LeaseEngine) -> None:
        self._store = store
        self._engine = engine

    async def one(self, caller: Caller, request: Request) -> Done:
        """Carry out a single verb; raise its refusal."""
        if request.take or request.reason is not None:
            # It may end somebody else's tenure: who is an admin is not taken from memory.
            request = replace(request, principal=await current(self._store, request.principal))
        (outcome,) = await self._decide(caller, [request])
        return done(outcome)

    async def claim_many(self, caller: Caller, ids: Sequence[NodeId], *, session: str | None) -> Bulk:
        """Claim each of `ids` as the single verb would; duplicates count once, refusals stand beside grants."""
        requests = [
            Request(caller.principal, Verb.CLAIM, Resource(node), session=session) for node in _bounded(ids, "ids")
        ]
        return await self._bulk(caller, requests)

    async def renew_many(
        self, caller: Caller, tenures: Sequence[tuple[NodeId, int | None]], *, session: str | None, reclaim: bool
    ) -> Bulk:
        """Renew exactly these; where an epoch is given, that tenure or nothing, else with auto-reclaim."""
        requests = [
            Request(caller.principal, Verb.RENEW, Resource(node), session=session, if_epoch=epoch, reclaim=reclaim)
            for node, epoch in _bounded(tenures, "leases")
        ]
        return await self._bulk(caller, requests)

    async def renew_held(self, caller: Caller, *, session: str | None) -> Bulk:
        """Renew what the caller holds, never reclaiming and leaving reservations parked (D7)."""
        now, found = await self._callers_own(caller.principal)
        own = [lease for lease in found if is_callers(lease, caller.principal)]
        lost = tuple((row.resource, lost_to_another(row, now)) for row in found if row not in own)
        reserved = [lease for lease in own if lease.kind is Kind.RESERVATION]
        claims = [lease for lease in own if lease.kind is Kind.CLAIM]
        elsewhere = [lease for lease in claims if session is not None and lease.session != session]
        bulk = await self._bulk(
            caller,
            [_on_snapshot(caller.principal, Verb.RENEW, lease) for lease in claims if lease not in elsewhere],
        )
        return replace(
            bulk,
            outcomes=bulk.outcomes + (lost if session is None else ()),
            skipped_other_session=sum(lease.in_force(now) for lease in elsewhere),
            skipped_reserved=sum(lease.in_force(now) for lease in reserved),
        )

    async def release_held(self, caller: Caller, *, session: str | None, reservations: bool) -> Bulk:
        """Release every live claim the caller holds; reservations only when asked. Refuses nothing (D7)."""
        now, held = await self._callers_own(caller.principal)
        drop = [
            lease
            for lease in held
            if lease.in_force(now)
            and is_callers(lease, caller.principal)
            and (session is None or lease.session == session)
            and (reservations or lease.kind is Kind.CLAIM)
        ]
        return await self._bulk(caller, [_on_snapshot(caller.principal, Verb.RELEASE, lease) for lease in drop])

    async def listed(
        self,
        *,
        holder: HolderId | None,
        project: str | None,
        state: str | None,
        after: str,
        limit: int,
    ) -> LeasePage:
        """Return a page of leases in order of resource, of one holder (or its agents), project or state."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            now = await tx.now()
            rows = await leases.list_leases(
                tx, holder=holder, project=project, state=state, now=now, after=after, most=most + 1
            )
        page = tuple(rows[:most])
        return LeasePage(page, now, page[-1].lease.resource if len(rows) > most else None)

    # --- shared -------------------------------------------------------------------------------------------------

    async def _bulk(self, caller: Caller, requests: Iterable[Request]) -> Bulk:
        requests = list(requests)
        if not requests:
            await self._require_fences(caller)
        outcomes = await self._decide(caller, requests)
        broken = next((outcome for outcome in outcomes if isinstance(outcome, FenceBroken)), None)
        if broken is not None:
            # What the whole call stood on is gone, and so is the call.
            raise broken
        return Bulk(tuple((request.resource, outcome) for request, outcome in zip(requests, outcomes, strict=True)))

    async def _require_fences(self, caller: Caller) -> None:
        """Raise `FenceBroken` when what the caller stands on is over, though there is nothing to do."""
        require_writer(caller.principal)
        async with self._store.write(caller.principal, Fences(named=caller.fences)):
            pass

    async def _decide(self, caller: Caller, requests: Sequence[Request]) -> list[Outcome]:
        require_writer(caller.principal)
        asks = [
            Ask(request, Fences(named=caller.fences, changing=frozenset({request.resource}))) for request in requests
        ]
        return await self._engine.decide(asks)

    async def _callers_own(self, principal: Principal) -> tuple[Instant, list[Lease]]:
        """Return the leases an enumerating verb of `principal` is about, as committed now (D1, D2b)."""
        require_writer(principal)
        async with self._store.read() as tx:
            now = await tx.now()
            found = await leases.candidates_of(
                tx, principal.id, person=principal.person, session=principal.session, now=now
            )
            rows = await leases.leases_of(tx, found)
        if principal.run is not None:
            return now, [row for row in rows.values() if row.acquired_under == principal.token]
        return now, list(rows.values())


def done(outcome: Outcome) -> Done:
    """Return a grant, or raise the refusal."""
    if isinstance(outcome, BatonError):
        raise outcome
    return outcome


def _on_snapshot(principal: Principal, verb: Verb, lease: Lease) -> Request:
    """Return the request on the tenure the caller was seen to hold: that one, or not at all."""
    return Request(
        principal, verb, lease.resource, if_epoch=lease.epoch, reclaim=False, parked_too=True, enumerated=True
    )


def _bounded(items: Sequence[T], field: str) -> list[T]:
    """Return `items` without duplicates, in order; raise when there are more than a bulk call takes."""
    each = list(dict.fromkeys(items))
    if len(each) > BULK_IDS_MAX:
        raise Invalid(f"{field}: {len(each)} different entries; one call takes at most {BULK_IDS_MAX}", field=field)
    return each
