"""The heartbeat by hand: the test moves the clock and calls `tick`; the thread has tests of its own at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx
import pytest

from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost, boottime
from batonpass.core import points
from batonpass.core.errors import LeaseLost
from batonpass.core.ids import Fence, Resource
from batonpass.testing.scripted import ManualSeconds, ScriptedServer, lease, refusal, renewed
from batonpass.wire.leases import Failed, lease_view

TASK = Resource("task-1")
FENCE = Fence(TASK, 3)
OTHER = Fence(Resource("task-2"), 8)
HOUR_MS = 3_600_000
NO_ANSWER = httpx.ReadTimeout("too long")
WAIT_S_MAX = 10


@pytest.fixture
def losses() -> list[Lost]:
    return []


@pytest.fixture
def heartbeat(client: Client, clock: ManualSeconds, losses: list[Lost]) -> Heartbeat:
    """Keeps task-1 at epoch 3 for an hour from now."""
    heartbeat = Heartbeat(client, on_lost=losses.append, clock=clock)
    heartbeat.keep(FENCE, expires_in_ms=HOUR_MS, sent_at_s=clock())
    return heartbeat


def test_it_renews_at_half_the_horizon_and_not_before(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    assert heartbeat.tick() == 1800
    clock.advance(1799)
    assert heartbeat.tick() == 1

    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))
    clock.advance(1)
    assert heartbeat.tick() == 1800

    assert server.paths() == ["/v1/queue/renew"]
    assert server.bodies() == [{"leases": [{"node_id": "task-1", "epoch": 3}]}]


def test_the_pace_follows_what_the_server_says_whatever_it_was_before(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """Case 24: the policy went from an hour to a minute."""
    server.will(renewed(lease(epoch=3), in_ms=60_000))
    clock.advance(1800)

    assert heartbeat.tick() == 30


def test_several_leases_are_renewed_in_one_request_at_the_pace_of_the_shortest(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    heartbeat.keep(OTHER, expires_in_ms=60_000, sent_at_s=clock())
    assert heartbeat.tick() == 30
    clock.advance(30)
    server.will(
        renewed(lease(epoch=3, expires_ms=9_000_000), lease("task-2", epoch=8, expires_ms=8_000_000), in_ms=60_000)
    )

    heartbeat.tick()

    assert server.bodies() == [{"leases": [{"node_id": "task-1", "epoch": 3}, {"node_id": "task-2", "epoch": 8}]}]


def test_each_lease_of_a_set_has_its_own_horizon_read_off_the_servers_clock_only(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """Case 16: this box's clock could be hours off; the set's `expires` times are compared with each other."""
    heartbeat.keep(OTHER, expires_in_ms=60_000, sent_at_s=clock())
    clock.advance(30)
    server.will(
        renewed(lease(epoch=3, expires_ms=9_000_000), lease("task-2", epoch=8, expires_ms=8_000_000), in_ms=60_000)
    )
    heartbeat.tick()

    server.will(renewed(lease(epoch=3), in_ms=60_000, failed=[Failed("task-2", "lease_lost", "over")]))
    clock.advance(60)
    heartbeat.tick()

    assert list(heartbeat.lost) == ["task-2"]
    clock.advance(59)
    heartbeat.check(TASK)


def test_many_leases_go_out_in_as_few_requests_as_the_server_takes(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    heartbeat = Heartbeat(client, clock=clock)
    for n in range(201):
        heartbeat.keep(Fence(Resource(f"task-{n}"), 1), expires_in_ms=HOUR_MS, sent_at_s=clock())
    clock.advance(1800)
    server.will(renewed(*[lease(f"task-{n}") for n in range(200)]), renewed(lease("task-200")))

    heartbeat.tick()

    assert len(server.requests) == 2
    assert heartbeat.lost == {}


def test_the_trust_window_counts_from_when_the_answered_request_was_sent(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    def slow(_request: httpx.Request) -> httpx.Response:
        clock.advance(9)
        return renewed(lease(epoch=3), in_ms=HOUR_MS)

    clock.advance(1800)
    server.will(slow)
    assert heartbeat.tick() == 1800 - 9

    clock.advance(3600 - 9 - 1)
    heartbeat.check(TASK)
    server.will(renewed(failed=[Failed("task-1", "lease_lost", "over")]))
    clock.advance(1)
    with pytest.raises(LeaseLost):
        heartbeat.check(TASK)


def test_a_shorter_answer_never_takes_back_what_an_earlier_one_promised(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    clock.advance(1800)
    server.will(renewed(lease(epoch=3), in_ms=1000))
    heartbeat.tick()
    clock.advance(1799)

    heartbeat.check(TASK)


def test_beats_without_an_answer_are_repeated_soon_and_are_no_loss(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    """Case 28: time-outs before the horizon are not treated as loss."""
    clock.advance(1800)
    server.will(NO_ANSWER, httpx.ConnectError("refused"), refusal(500, "internal"), refusal(401, "unauthorized"))

    pauses = []
    for _ in range(4):
        pauses.append(heartbeat.tick())
        clock.advance(15)

    assert pauses == [15, 15, 15, 15]
    assert losses == []
    heartbeat.check(TASK)


def test_near_the_end_of_the_window_the_beats_come_faster(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    clock.advance(3592)
    server.will(NO_ANSWER)

    assert heartbeat.tick() == 1


def test_at_the_end_of_the_window_one_renewal_decides_and_may_resume(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    """H17: the machine slept past the end, and nobody had come."""
    clock.advance(8 * 3600)
    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))

    assert heartbeat.tick() == 1800

    assert losses == []
    heartbeat.check(TASK)


def test_a_lease_somebody_else_has_now_is_lost_and_the_winner_is_named(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    winner = lease(by="agent-b", epoch=4)
    clock.advance(1800)
    server.will(renewed(failed=[Failed("task-1", "lease_lost", "held by agent-b", holder=winner)]))

    assert heartbeat.tick() is None

    assert losses == [Lost(FENCE, "held by agent-b", lease_view(winner))]
    with pytest.raises(LeaseLost, match="held by agent-b") as raised:
        heartbeat.check(TASK)
    assert raised.value.holder == lease_view(winner)


def test_a_node_that_is_gone_is_lost(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    clock.advance(1800)
    server.will(renewed(failed=[Failed("task-1", "not_found", "no such node")]))
    heartbeat.tick()

    assert [lost.why for lost in losses] == ["no such node"]


def test_an_item_failing_for_another_reason_is_no_loss(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    clock.advance(1800)
    server.will(renewed(failed=[Failed("task-1", "unavailable", "busy")]))

    assert heartbeat.tick() == 15
    assert losses == []


def test_an_answer_that_leaves_a_lease_out_is_no_loss(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    clock.advance(1800)
    server.will(renewed())

    assert heartbeat.tick() == 15
    assert losses == []


def test_a_window_that_closes_without_an_answer_is_a_loss(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    """Case 28: the renewals time out until past the horizon."""
    clock.advance(3600)
    server.will(*[NO_ANSWER] * 3)

    assert heartbeat.tick() is None

    assert len(server.requests) == 3
    (lost,) = losses
    assert lost.fence == FENCE
    assert "could not be renewed in time" in lost.why


def test_a_window_that_closes_under_a_revoked_token_is_a_loss(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    clock.advance(3600)
    server.will(refusal(401, "unauthorized", "the token was revoked"))

    heartbeat.tick()

    assert [lost.why for lost in losses] == ["the lease on task-1 could not be renewed in time: the token was revoked"]


def test_a_set_of_which_one_window_is_over_decides_that_one_alone(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    heartbeat.keep(OTHER, expires_in_ms=2 * HOUR_MS, sent_at_s=clock())
    clock.advance(3600)
    server.will(renewed(failed=[Failed("task-1", "lease_lost", "over")]), NO_ANSWER)

    heartbeat.tick()

    assert [lost.fence for lost in losses] == [FENCE]
    assert server.bodies() == [
        {"leases": [{"node_id": "task-1", "epoch": 3}]},
        {"leases": [{"node_id": "task-2", "epoch": 8}]},
    ]
    heartbeat.check(OTHER.resource)


def test_asking_after_the_window_is_answered_by_the_server_not_by_hope(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    clock.advance(3600)
    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))

    heartbeat.check(TASK)

    assert len(server.requests) == 1


def test_what_was_dropped_is_not_renewed_and_not_trusted(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    heartbeat.drop(TASK)
    clock.advance(3600)

    assert heartbeat.tick() is None
    assert server.requests == []
    with pytest.raises(LeaseLost, match="handed back"):
        heartbeat.check(TASK)


def test_an_answer_about_a_tenure_that_was_dropped_meanwhile_is_ignored(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    def dropped_meanwhile(_request: httpx.Request) -> httpx.Response:
        heartbeat.drop(TASK)
        return renewed(failed=[Failed("task-1", "lease_lost", "released")])

    clock.advance(1800)
    server.will(dropped_meanwhile)

    assert heartbeat.tick() is None
    assert losses == []


def test_an_answer_about_an_earlier_tenure_does_not_touch_the_present_one(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds, losses: list[Lost]
) -> None:
    def reacquired_meanwhile(_request: httpx.Request) -> httpx.Response:
        heartbeat.keep(Fence(TASK, 5), expires_in_ms=HOUR_MS, sent_at_s=clock())
        return renewed(failed=[Failed("task-1", "lease_lost", "epoch 3 is over")])

    clock.advance(1800)
    server.will(reacquired_meanwhile)

    assert heartbeat.tick() == 1800
    assert losses == []


def test_the_clock_goes_on_while_the_machine_sleeps_where_the_system_has_such_a_clock() -> None:
    before_s = boottime()

    assert boottime() >= before_s > 0


# --- the thread ------------------------------------------------------------------------------------------------------


def at_point(name: str) -> threading.Event:
    """Return an event that is set when `name` is reached."""
    reached = threading.Event()
    points.armed[name] = reached.set
    return reached


def test_the_thread_beats_by_itself(client: Client, server: ScriptedServer) -> None:
    answered = at_point("beat.answered")
    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))

    with Heartbeat(client) as heartbeat:
        heartbeat.keep(FENCE, expires_in_ms=60_000, sent_at_s=boottime() - 31)
        assert answered.wait(WAIT_S_MAX)


def test_work_that_computes_without_a_pause_does_not_stop_the_beats(client: Client, server: ScriptedServer) -> None:
    """Case 20: a handler in a tight loop, as the lease is due."""
    answered = at_point("beat.answered")
    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))
    give_up_at_s = boottime() + WAIT_S_MAX

    with Heartbeat(client) as heartbeat:
        heartbeat.keep(FENCE, expires_in_ms=60_000, sent_at_s=boottime() - 31)
        while not answered.is_set() and boottime() < give_up_at_s:
            sum(range(1000))

    assert answered.is_set()


def test_stopping_waits_for_the_beat_in_flight(client: Client, server: ScriptedServer) -> None:
    sent, let_go, stopped = at_point("beat.sent"), threading.Event(), threading.Event()

    def held_up(_request: httpx.Request) -> httpx.Response:
        assert let_go.wait(WAIT_S_MAX)
        assert not stopped.is_set()
        return renewed(lease(epoch=3))

    server.will(held_up)
    heartbeat = Heartbeat(client)
    heartbeat.start()
    heartbeat.keep(FENCE, expires_in_ms=60_000, sent_at_s=boottime() - 31)
    assert sent.wait(WAIT_S_MAX)

    def stop() -> None:
        heartbeat.stop()
        stopped.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    let_go.set()
    stopper.join(WAIT_S_MAX)

    assert stopped.is_set()
    assert not server.answers
    heartbeat.stop()


def test_whoever_is_told_of_a_loss_may_stop_the_heartbeat(client: Client, server: ScriptedServer) -> None:
    told = threading.Event()
    server.will(renewed(failed=[Failed("task-1", "lease_lost", "over")]))
    stop: list[Callable[[], None]] = []

    def on_lost(_lost: Lost) -> None:
        stop[0]()
        told.set()

    heartbeat = Heartbeat(client, on_lost=on_lost)
    stop.append(heartbeat.stop)
    heartbeat.start()
    heartbeat.keep(FENCE, expires_in_ms=60_000, sent_at_s=boottime() - 31)

    assert told.wait(WAIT_S_MAX)
    heartbeat.stop()


# --- settling --------------------------------------------------------------------------------------------------------


def test_settling_waits_for_the_beat_in_flight(client: Client, server: ScriptedServer) -> None:
    sent, let_go = at_point("beat.sent"), at_point("lease.settling")
    answered: list[bool] = []

    def held_up(_request: httpx.Request) -> httpx.Response:
        answered.append(let_go.wait(WAIT_S_MAX))
        return renewed(lease(epoch=3), in_ms=HOUR_MS)

    server.will(held_up)
    with Heartbeat(client) as heartbeat:
        heartbeat.keep(FENCE, expires_in_ms=60_000, sent_at_s=boottime() - 31)
        assert sent.wait(WAIT_S_MAX)
        heartbeat.settle(TASK)
        assert answered == [True]


def test_a_settled_lease_is_renewed_no_more_and_the_others_are(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    heartbeat.keep(OTHER, expires_in_ms=HOUR_MS, sent_at_s=clock())
    heartbeat.settle(TASK)
    clock.advance(1800)
    server.will(renewed(lease("task-2", epoch=8), in_ms=HOUR_MS))

    assert heartbeat.tick() == 1800

    assert server.bodies() == [{"leases": [{"node_id": "task-2", "epoch": 8}]}]
    heartbeat.check(TASK)


def test_settling_after_a_beat_without_an_answer_asks_once_more(
    heartbeat: Heartbeat, server: ScriptedServer, clock: ManualSeconds
) -> None:
    clock.advance(1800)
    server.will(NO_ANSWER, renewed(lease(epoch=3), in_ms=HOUR_MS))
    heartbeat.tick()

    heartbeat.settle(TASK)
    heartbeat.settle(TASK)

    assert len(server.requests) == 2


def test_a_tenure_that_somebody_else_learned_is_over_is_over_here(heartbeat: Heartbeat, losses: list[Lost]) -> None:
    lost = Lost(FENCE, "a write was refused")
    heartbeat.give_up(lost)
    heartbeat.give_up(lost)

    assert losses == [lost]
    with pytest.raises(LeaseLost, match="refused"):
        heartbeat.settle(TASK)


def test_a_clock_that_leapt_is_read_when_somebody_says_so(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    answered = at_point("beat.answered")
    server.will(renewed(lease(epoch=3), in_ms=HOUR_MS))

    with Heartbeat(client, clock=clock) as heartbeat:
        heartbeat.keep(FENCE, expires_in_ms=HOUR_MS, sent_at_s=clock())
        clock.advance(1800)
        heartbeat.wake()
        assert answered.wait(WAIT_S_MAX)
