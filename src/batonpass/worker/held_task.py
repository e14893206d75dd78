"""A record's task in the hands of this process: claimed, kept alive, written under, handed back.

Exclusion is by identity, not by process (task-fields specification). An agent's
processes are told apart all the same: each asks for the one run token that a
tenure has (D2a), and whoever finds it minted already is the second one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from batonpass.client import calls, record_calls
from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost, boottime
from batonpass.client.renewals import OneTask
from batonpass.core.errors import AlreadyClaimed, BatonError, Conflict, LeaseLost, StalePremise
from batonpass.core.ids import AgentId, Fence, HolderId
from batonpass.core.premises import Premise
from batonpass.core.records import FieldName, RecordPath
from batonpass.wire.records import RecordReply, TaskReply
from batonpass.worker.graph import RunToken
from batonpass.worker.instructions import Verb, Write

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
class _Taken:
    answer: TaskReply
    sent_at_s: float
    agent: AgentId | None
    token: RunToken | None


class HeldTask:
    """A task that is being kept. Made by `take`; stop it, or release it, when done.

    `answer` is what the claim was answered, `token` what the child may act
    under: None where the caller is no agent, for only an agent's tenure has one.
    """

    def __init__(self, client: Client, wanted: Wanted, taken: _Taken, heart: Heartbeat) -> None:
        self.record = wanted.record
        self.field = wanted.field
        self.answer = taken.answer
        self.token = taken.token
        self.fence = Fence(wanted.record.task(wanted.field), taken.answer.epoch)
        self._client = client
        self._agent = taken.agent
        self._heart = heart
        self._premises = [_fence(wanted, taken.answer)]

    def read(self) -> RecordReply:
        """Return the record as it reads now."""
        return self._client.send(record_calls.get(self.record))

    def lost(self) -> str | None:
        """Return why nothing more may be done under this tenure, or None while it may."""
        lost = self._heart.lost.get(self.fence.resource)
        return lost.why if lost is not None else None

    def settle(self) -> None:
        """Renew no more, with the beat in flight waited for; `LeaseLost` when the tenure is over."""
        self._heart.settle(self.fence.resource)

    def write(self, writes: Sequence[Write], *, key: str) -> None:
        """Make these writes, all or none, if the tenure stands; `LeaseLost` when it does not.

        Under the same `key` they are made once, however often they are sent.
        """
        try:
            self._send(writes, key)
        except (StalePremise, LeaseLost) as error:
            lost = Lost(self.fence, error.message, error.holder)
            self._heart.give_up(lost)
            raise lost.error() from error

    def release(self) -> None:
        """Hand the task back; `LeaseLost` when the tenure had ended before."""
        self._heart.drop(self.fence.resource)
        self._heart.stop()
        try:
            self._client.send(record_calls.release(self.record, self.field, based_on=self._premises))
        except StalePremise as error:
            raise LeaseLost(error.message, holder=error.holder) from error

    def leave(self) -> None:
        """Leave the task to its lease: renew it no more, and end the token that nobody needs now."""
        self._heart.stop()
        if self.token is not None and self._agent is not None:
            try:
                self._client.revoke_agent_token(self._agent, self.token.prefix)
            except BatonError:
                return  # it is good for this tenure alone, and dies with it

    def _send(self, writes: Sequence[Write], key: str) -> None:
        if len(writes) > 1:
            several = [{"field": each.field, each.verb.value: each.value} for each in writes]
            self._client.send(record_calls.write(self.record, several, based_on=self._premises), key=key)
            return
        (one,) = writes
        make = record_calls.put if one.verb is Verb.PUT else record_calls.append
        self._client.send(make(self.record, one.field, one.value, based_on=self._premises), key=key)


def take(client: Client, wanted: Wanted, *, pause: Callable[[float], None] = time.sleep) -> HeldTask:
    """Claim the task and keep it alive; `AlreadyClaimed` names who has it when it did not come free in time."""
    taken = _take_in_time(client, wanted, _launching_agent(client), pause)
    assert taken.answer.expires_in_ms is not None, taken.answer
    heart = Heartbeat(client, renewing=OneTask(taken.answer, lease_s=wanted.lease_s))
    task = HeldTask(client, wanted, taken, heart)
    heart.keep(task.fence, expires_in_ms=taken.answer.expires_in_ms, sent_at_s=taken.sent_at_s)
    heart.start()
    return task


def _take_in_time(client: Client, wanted: Wanted, agent: AgentId | None, pause: Callable[[float], None]) -> _Taken:
    deadline_s = time.monotonic() + wanted.wait_s
    while True:
        try:
            return _take_once(client, wanted, agent)
        except AlreadyClaimed as held:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise
            version = held.version
        began_s = time.monotonic()
        wait_s = max(min(int(left_s), LOOK_S_MAX), 1)
        client.send(record_calls.field(wanted.record, wanted.field, wait=wait_s, version=version))
        if time.monotonic() - began_s < PAUSE_S:
            pause(min(PAUSE_S, left_s))


def _launching_agent(client: Client) -> AgentId | None:
    """Return the agent whose run tokens the caller may mint, if it is one: a run's own token mints none."""
    me = client.me()
    return AgentId(HolderId(me.agent)) if me.agent is not None and me.run is None else None


def _take_once(client: Client, wanted: Wanted, agent: AgentId | None) -> _Taken:
    sent_at_s = boottime()
    answer = client.send(record_calls.claim(wanted.record, wanted.field, lease_s=wanted.lease_s))
    if agent is None:
        return _Taken(answer, sent_at_s, None, None)
    fence = Fence(wanted.record.task(wanted.field), answer.epoch)
    try:
        minted = client.send(calls.mint_run_token(agent, fence))
    except Conflict as error:
        held = AlreadyClaimed(f"{wanted} is held by another process of {answer.owner} until {answer.lease_expires_at}")
        held.version = answer.version
        raise held from error
    except BatonError:
        with suppress(BatonError):
            client.send(record_calls.release(wanted.record, wanted.field, based_on=[_fence(wanted, answer)]))
        raise
    return _Taken(answer, sent_at_s, agent, RunToken(minted.token, minted.hash_prefix))


def _fence(wanted: Wanted, answer: TaskReply) -> Premise:
    return record_calls.fence(wanted.field, answer.epoch)
