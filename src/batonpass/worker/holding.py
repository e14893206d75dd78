"""Taking a record's task for a command: claimed, told from one's own other processes, waited for where that is wished.

Exclusion is by identity, not by process (task-fields specification). An agent's
processes are told apart all the same: each asks for the one run token that a
tenure has (D2a), and whoever finds it minted already is the second one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from batonpass.client import record_calls
from batonpass.client.checkpoint import CheckpointField
from batonpass.client.client import Client
from batonpass.client.heartbeat import boottime
from batonpass.client.task import HeldTask, kept
from batonpass.core.errors import AlreadyClaimed, BatonError, Conflict, Unavailable
from batonpass.core.ids import AgentId, Fence, HolderId
from batonpass.core.points import reach
from batonpass.core.records import FieldName, RecordPath
from batonpass.wire.records import TaskReply
from batonpass.worker.graph import RunToken

LOOK_S_MAX: Final = 20
"""The longest single wait for a task to come free, in seconds: a server that was replaced meanwhile is found again."""
PAUSE_S: Final = 0.5
"""Between two tries for a task, where the server answered at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which task, for how long at a time (None: as its class says), and how many seconds to wait for it."""

    record: RecordPath
    field: FieldName
    lease_s: int | None = None
    wait_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.record}#{self.field}"


@dataclass(frozen=True, slots=True)
class Holding:
    """A task that is being kept for a command, since `claim`. Give it back, or leave it, when done.

    `token` is what the command may act under: None where the caller is no
    agent, for only an agent's tenure has one.
    """

    client: Client
    task: HeldTask
    claim: TaskReply
    agent: AgentId | None
    token: RunToken | None

    def give_back(self) -> None:
        """Hand the task back; `LeaseLost` when the tenure had ended before."""
        try:
            self.task.release()
        finally:
            self.task.heartbeat.stop()

    def leave(self) -> None:
        """Leave the task to its lease: renew it no more, and end the token that nobody needs now."""
        self.task.heartbeat.stop()
        if self.token is not None and self.agent is not None:
            with suppress(BatonError):  # it is good for this tenure alone, and dies with it
                self.client.revoke_agent_token(self.agent, self.token.prefix)


def take(
    client: Client,
    wanted: Wanted,
    *,
    checkpoint: CheckpointField | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Holding:
    """Claim the task and keep it alive; `AlreadyClaimed` names who has it when it did not come free in time."""
    taken = _take_in_time(client, wanted, _launching_agent(client), pause)
    task = kept(
        client,
        wanted.record,
        taken.claim,
        lease_s=wanted.lease_s,
        sent_at_s=taken.sent_at_s,
        checkpoint=checkpoint,
    )
    task.heartbeat.start()
    reach("task.taken")
    return Holding(client, task, taken.claim, taken.agent, taken.token)


@dataclass(frozen=True, slots=True)
class _Taken:
    claim: TaskReply
    sent_at_s: float
    agent: AgentId | None = None
    token: RunToken | None = None


def _launching_agent(client: Client) -> AgentId | None:
    """Return the agent whose run tokens the caller may mint, if it is one: a run's own token mints none."""
    me = client.me()
    return AgentId(HolderId(me.agent)) if me.agent is not None and me.run is None else None


def _take_in_time(client: Client, wanted: Wanted, agent: AgentId | None, pause: Callable[[float], None]) -> _Taken:
    deadline_s = time.monotonic() + wanted.wait_s
    while True:
        try:
            return _take_once(client, wanted, agent)
        except (AlreadyClaimed, Unavailable) as error:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise
            version = error.version if isinstance(error, AlreadyClaimed) else None
        began_s = time.monotonic()
        if version is not None:
            wait_s = max(min(int(left_s), LOOK_S_MAX), 1)
            moved = record_calls.field(wanted.record, wanted.field, wait=wait_s, version=version, held=True)
            with suppress(Unavailable):  # the next try finds out what became of the server
                client.send(moved)
        if time.monotonic() - began_s < PAUSE_S:
            pause(min(PAUSE_S, left_s))


def _take_once(client: Client, wanted: Wanted, agent: AgentId | None) -> _Taken:
    sent_at_s = boottime()
    claim = client.send(record_calls.claim(wanted.record, wanted.field, lease_s=wanted.lease_s))
    if agent is None:
        return _Taken(claim, sent_at_s)
    try:
        minted = client.mint_run_token(agent, Fence(wanted.record.task(wanted.field), claim.epoch))
    except Conflict as error:
        held = AlreadyClaimed(f"{wanted} is held by another process of {claim.owner} until {claim.lease_expires_at}")
        held.version = claim.version
        raise held from error
    except Unavailable:
        # Whether another process of ours has this tenure is just what we don't know: it is left to its lease.
        raise
    except BatonError:
        with suppress(BatonError):
            fence = record_calls.fence(wanted.field, claim.epoch)
            client.send(record_calls.release(wanted.record, wanted.field, based_on=[fence]))
        raise
    return _Taken(claim, sent_at_s, agent, RunToken(minted.token, minted.hash_prefix))
