"""The law of the heartbeat: whoever is told that it may act still has its lease, whatever gets lost on the way.

The server of this model grants, lapses and gives away as the real one does;
requests reach it late or not at all, and so do its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import httpx
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from batonpass.client.client import Client, Patience
from batonpass.client.heartbeat import Heartbeat
from batonpass.client.renewals import Over, Renewal, Renewed, Unclear
from batonpass.core.errors import LeaseLost
from batonpass.core.ids import Fence, Resource
from batonpass.testing.scripted import ManualSeconds

FENCE = Fence(Resource("record:incidents/inc-1#remediation"), 1)
HORIZON_S = 30.0


class Model:
    """A server with one lease, a network in front of it, and the `Renewing` that goes through both."""

    a_request_max = 1
    due_share = 1 / 3

    def __init__(self, clock: ManualSeconds) -> None:
        self.clock = clock
        self.expires_s = clock() + HORIZON_S
        self.is_anothers = False
        self.version = 1
        self.version_told = 1
        self.asked = 0
        self.arrives, self.answers = True, True
        self.delay_s = 0.0

    def give_away(self) -> None:
        """Let somebody else take the lease over."""
        assert self.clock() >= self.expires_s
        self.is_anothers = True

    def renew(
        self, _client: Client, fences: Sequence[Fence], *, patience: Patience, answer_s_max: float
    ) -> Sequence[Renewal]:
        """Renew, as far as the network lets it."""
        assert list(fences) == [FENCE]
        assert answer_s_max > 0
        assert patience.tries_max > 0
        self.asked += 1
        self.clock.advance(self.delay_s)
        if not self.arrives:
            return [Unclear(FENCE, "lost on the way")]
        if not self.is_anothers:
            self.expires_s = max(self.expires_s, self.clock() + HORIZON_S)
            self.version += 1
        self.clock.advance(self.delay_s)
        if not self.answers:
            return [Unclear(FENCE, "lost on the way back")]
        if self.is_anothers:
            return [Over(FENCE, "somebody has it")]
        self.version_told = self.version
        return [Renewed(FENCE, HORIZON_S)]


class Keeping(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualSeconds()
        self.server = Model(self.clock)
        transport = httpx.MockTransport(lambda _request: httpx.Response(500))
        self.heartbeat = Heartbeat(
            Client("http://baton.test", None, transport=transport), renewing=self.server, clock=self.clock
        )
        self.heartbeat.keep(FENCE, expires_in_ms=int(HORIZON_S * 1000), sent_at_s=self.clock())
        self.settled = False

    @rule(seconds=st.sampled_from([1.0, 9.0, 20.0, 40.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(arrives=st.booleans(), answers=st.booleans(), delay_s=st.sampled_from([0.0, 1.0, 8.0]))
    def change_the_network(self, *, arrives: bool, answers: bool, delay_s: float) -> None:
        self.server.arrives, self.server.answers, self.server.delay_s = arrives, answers, delay_s

    @rule()
    def look(self) -> None:
        asked = self.server.asked
        self.heartbeat.tick()
        assert not self.settled or self.server.asked == asked, "what is settled is not renewed by itself"

    @precondition(lambda self: not self.server.is_anothers)
    @rule()
    def somebody_takes_it_as_soon_as_it_lapses(self) -> None:
        self.clock.advance(max(self.server.expires_s - self.clock(), 0.0))
        self.server.give_away()

    @rule()
    def settle(self) -> None:
        self.settled = True
        with suppress(LeaseLost):
            self.heartbeat.settle(FENCE.resource)
            if self.server.arrives and self.server.answers:
                assert self.server.version_told == self.server.version, "the version that stands is known"

    @rule()
    def act(self) -> None:
        lost_before = bool(self.heartbeat.lost)
        try:
            self.heartbeat.check(FENCE.resource)
        except LeaseLost:
            assert self.heartbeat.lost
            return
        assert not self.server.is_anothers, "told that it may act on what somebody else has"
        assert not lost_before, "what is lost stays lost"

    @invariant()
    def nothing_is_lost_in_time(self) -> None:
        if self.heartbeat.lost and not self.server.is_anothers:
            why = self.heartbeat.lost[FENCE.resource].why
            assert "could not be renewed in time" in why, "given up though the server never said so"


Keeping.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestKeeping = Keeping.TestCase
