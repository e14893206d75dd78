"""Runs of the whole fleet: copies of their records, the ends of their logs, and what counts against an item (D22, D39).

Whoever made a run keeps its record; here is a copy for everybody else. A copy
is written by the run's agent, the person it works for, or an admin, and never
under a run's own token: a child that may write what is known of it can silence
its log, or claim to be further on than its supervisor says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from batonpass.core import runs as law
from batonpass.core.errors import Forbidden, Invalid, NotFound
from batonpass.core.identity import Principal
from batonpass.core.ids import PersonId, RunId, parse_label
from batonpass.core.runs import Log, Piece, RunCopy, Standing
from batonpass.core.tokens import may_manage_runs
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.store import events, identity, items, runs
from batonpass.store.base import Reader, Store, as_json, retried
from batonpass.store.items import What
from batonpass.store.runs import StoredRun, Wanted
from batonpass.wire import runs as wire

PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first, and where the next page begins."""

    runs: tuple[StoredRun, ...]
    next: tuple[int, str] | None


class Runs:
    """The runs of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def put(self, caller: Caller, run: RunId, record: Mapping[str, Any]) -> wire.RunPutReply | Replayed:
        """Keep a copy of a run's record unless a copy that is further on is there; count the run once it is settled."""
        sent, text = law.parse_run(run, record), _text_of(record)
        changing = frozenset({sent.counted.resource} if sent.counted is not None else ())
        _require_no_run(caller.principal)
        async with change(self._store, caller, onto=frozenset(), changing=changing) as made:
            if made.replayed is not None:
                return made.replayed
            owner = await _require_may_write(made.tx, caller.principal, sent)
            known, end = await runs.lock(made.tx, run)
            before = known.copy if known is not None else None
            became = law.standing(before, sent, same=known is not None and known.record == text)
            counts = known is not None and known.counted
            if became in {Standing.CREATED, Standing.UPDATED}:
                counts = await _counted(made, sent, record) or counts
                runs.put(made.tx, sent, text, owner=owner, counted=counts, now=made.now)
                _tell(made, before, sent)
            else:
                runs.heard(made.tx, run, now=made.now)
            stands = before if before is not None and became is Standing.OLDER else sent
            return made.answer(
                wire.RunPutReply(
                    run_id=run,
                    status=became,
                    state=stands.state,
                    settled=stands.settled,
                    log_end=end,
                    counts=counts,
                    warnings=list(caller.warnings),
                )
            )

    @retried
    async def put_log(self, caller: Caller, run: RunId, piece: Piece) -> wire.RunLogPutReply | Replayed:
        """Keep what of a stretch of a run's log is new; a stretch that leaves some out before it is kept as well."""
        _require_no_run(caller.principal)
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            known, end = await runs.lock(made.tx, run)
            if known is None:
                raise NotFound(f"there is no run {run}; its record comes first, by PUT /v1/runs/{run}")
            await _require_may_write(made.tx, caller.principal, known.copy)
            fresh = law.news(piece, end=end)
            if fresh is not None:
                runs.append(made.tx, run, fresh)
            runs.heard(made.tx, run, now=made.now)
            return made.answer(
                wire.RunLogPutReply(
                    run_id=run,
                    status="unchanged" if fresh is None else "appended",
                    end=end if fresh is None else fresh.end,
                    gap=wire.Gap(end, fresh.offset) if fresh is not None and fresh.offset > end else None,
                    warnings=list(caller.warnings),
                )
            )

    async def listed(self, wanted: Wanted, *, before: tuple[int, str] | None, limit: int) -> RunPage:
        """Return a page of runs, the newest first."""
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            found = await runs.listed(tx, wanted, before=before, most=most + 1)
        page = tuple(found[:most])
        return RunPage(page, page[-1].place if len(found) > most else None)

    async def get(self, run: RunId) -> StoredRun:
        """Return the copy of a run that stands; `NotFound` when none came, or none for two weeks."""
        async with self._store.read() as tx:
            return await _require(tx, run)

    async def log(self, run: RunId) -> Log:
        """Return what is kept of a run's log."""
        async with self._store.read() as tx:
            await _require(tx, run)
            return await runs.log(tx, run)


def _text_of(record: Mapping[str, Any]) -> str:
    """Return the record as JSON; `Invalid` when it is longer than any is."""
    text = as_json(record)
    if (size := len(text.encode())) > law.RECORD_BYTES_MAX:
        raise Invalid(
            f"record: {size} bytes; the limit is {law.RECORD_BYTES_MAX} bytes, a log goes to its own route",
            field="record",
        )
    return text


def _require_no_run(principal: Principal) -> None:
    """Raise `Forbidden` under a run's own token."""
    if principal.run is not None:
        raise Forbidden(
            "a run tells nothing of itself: its record and log are for its agent's own token, or its owner's, to send"
        )


async def _require_may_write(tx: Reader, principal: Principal, sent: RunCopy) -> PersonId | None:
    """Return whom the run's agent works for; `Forbidden` unless the caller is one of them, or an admin."""
    agent = await identity.get_agent(tx, sent.agent)
    if agent is None:
        raise Invalid(f"record.agent: there is no agent {sent.agent}", field="record.agent")
    if may_manage_runs(agent, principal):
        return agent.owner
    raise Forbidden(f"{agent.id} is {agent.owner}'s: its runs are told of by it, by its owner, or by an admin")


async def _counted(made: Change, sent: RunCopy, record: Mapping[str, Any]) -> bool:
    """Count the run against its item if it is one that counts, under the item's lock; return whether it does now."""
    tenure, nonce = sent.counted, record.get("dispatch")
    if tenure is None or nonce is None or tenure.resource not in made.tx.locked:
        return False
    nonce = parse_label(nonce, field="record.dispatch")
    if not await runs.count(made.tx, tenure, nonce=nonce, run=sent.id, now=made.now):
        return False
    items.note(made.tx, [tenure.resource], What.ITEM)
    made.stirred = True
    return True


def _tell(made: Change, known: RunCopy | None, sent: RunCopy) -> None:
    """Append an event when the run has come further; that its steps or its cost have grown is no news."""
    if known is not None and (known.place, known.terminal) == (sent.place, sent.terminal):
        return
    told = {
        "run": sent.id,
        "agent": sent.agent,
        "state": sent.state,
        "settled": sent.settled,
        "terminal_state": sent.terminal,
        "termination_class": sent.termination,
    }
    event = events.Event(
        "run.changed",
        sent.node,
        sent.project,
        made.caller.principal,
        data={key: one for key, one in told.items() if one is not None},
    )
    events.append(made.tx, [event], at=made.now)


async def _require(tx: Reader, run: RunId) -> StoredRun:
    found = await runs.get(tx, run)
    if found is None:
        raise NotFound(
            f"there is no run {run} here; its worker tells of it, and it is kept for {law.RUNS_KEPT.days} days"
        )
    return found
