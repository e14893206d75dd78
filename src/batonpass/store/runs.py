"""Rows of runs, their logs and what they count. Which copy of a record stands is core's to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.core.ids import AgentId, Fence, HolderId, Instant, NodeId, PersonId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import LOG_BYTES_KEPT, Log, Piece, RunCopy, log_of
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Statement, Tx, q

_LAST_MOMENT: Final = 2**63 - 1
"""Behind every run: what a column of moments holds at most."""


@value(frozen=True, slots=True)
class StoredRun:
    """The copy of a run that stands, whole in `record` as JSON; `counted` says whether against its item (D22)."""

    copy: RunCopy
    owner: PersonId | None
    record: str
    counted: bool
    first_seen: Instant
    last_seen: Instant

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands in a list, the newest first."""
        return (self.first_seen, self.copy.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs are listed: those of an item, a project, an agent, in one state; None is any."""

    node: NodeId | None = None
    project: str | None = None
    agent: HolderId | None = None
    state: str | None = None


async def lock(tx: Tx, run: RunId) -> tuple[StoredRun | None, int]:
    """Return the copy that stands and where its log ends; nobody else writes either until the transaction ends."""
    tx.put(q("runs.lock", run=run))
    # Statements after the lock see what the one before us committed.
    rows, ((end,),) = await tx.fetch(q("runs.known", run=run), q("runs.log_end", run=run))
    return (_stored(rows[0]) if rows else None), end


async def get(tx: Reader, run: RunId) -> StoredRun | None:
    """Return the copy of a run that stands, or None."""
    (rows,) = await tx.fetch(q("runs.of", run=run))
    return _stored(rows[0]) if rows else None


async def listed(tx: Reader, wanted: Wanted, *, before: tuple[int, str] | None, most: int) -> list[StoredRun]:
    """Return at most `most` runs, the newest first, behind a place in that order."""
    at, run = before if before is not None else (_LAST_MOMENT, "")
    (rows,) = await tx.fetch(_page(wanted, before=at, before_run=run, most=most))
    return [_stored(row) for row in rows]


def _page(wanted: Wanted, **place: int | str) -> Statement:
    """Return the statement that goes along what there are fewest runs of, and looks at the rest of them one by one."""
    node, agent, state, project = wanted.node, wanted.agent, wanted.state, wanted.project
    if node is not None:
        return q("runs.listed_of_node", node=node, agent=agent, state=state, project=project, **place)
    if agent is not None:
        return q("runs.listed_of_agent", agent=agent, state=state, project=project, **place)
    if state is not None:
        return q("runs.listed_in_state", state=state, project=project, **place)
    if project is not None:
        return q("runs.listed_of_project", project=project, **place)
    return q("runs.listed", **place)


def put(tx: Tx, copy: RunCopy, record: str, *, owner: PersonId | None, counted: bool, now: Instant) -> None:
    """Put a copy in the place of the one before."""
    tx.put(
        q(
            "runs.put",
            run=copy.id,
            agent=copy.agent,
            owner=owner,
            node=copy.node,
            project=copy.project,
            epoch=copy.epoch,
            state=copy.state,
            attempt=copy.attempt,
            settled=copy.settled,
            terminal=copy.terminal,
            termination=copy.termination,
            record=record,
            counted=counted,
            now=now,
        )
    )


def heard(tx: Tx, run: RunId, *, now: Instant) -> None:
    """Note that a run was heard of."""
    tx.put(q("runs.heard", run=run, now=now))


async def count(tx: Tx, tenure: Fence, *, nonce: str, run: RunId, now: Instant) -> bool:
    """Count a run against its item, and return whether that is news.

    A tenure counts once, and only for a run that knows by which nonce it was
    acquired. The item's lease row is locked, as by whoever forgives.
    """
    (rows,) = await tx.fetch(
        q("runs.count", node=tenure.resource, epoch=tenure.epoch, nonce=nonce, run=run, now=now),
    )
    return bool(rows)


async def forgive(tx: Tx, node: NodeId) -> int:
    """Let none of a node's runs count any more, and return how many did."""
    (rows,) = await tx.fetch(q("runs.forgive", node=node))
    return len(rows)


def append(tx: Tx, run: RunId, piece: Piece) -> None:
    """Put a stretch at the end of a log, and drop what lies too far before its end."""
    tx.put(q("runs.put_log", run=run, start=piece.offset, until=piece.end, text=piece.text))
    tx.put(q("runs.cut_log", run=run, before=piece.end - LOG_BYTES_KEPT))


async def log(tx: Reader, run: RunId) -> Log:
    """Return what is kept of a run's log."""
    (rows,) = await tx.fetch(q("runs.log", run=run))
    return log_of(Piece(start, text) for start, text in rows)


def _stored(row: Row) -> StoredRun:
    run, agent, owner, node, project, epoch, state, attempt, settled, terminal, termination = row[:11]
    record, counted, first_seen, last_seen = row[11:]
    copy = RunCopy(
        id=RunId(run),
        agent=AgentId(HolderId(agent)),
        node=node,
        project=project,
        epoch=epoch,
        state=state,
        attempt=attempt,
        settled=bool(settled),
        terminal=None if terminal is None else Terminal(terminal),
        termination=termination,
    )
    return StoredRun(copy, owner, record, bool(counted), first_seen, last_seen)
