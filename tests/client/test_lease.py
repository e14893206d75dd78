from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import timedelta

import httpx
import msgspec
import pytest

from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost
from batonpass.client.lease import began, held
from batonpass.core.errors import AlreadyClaimed, Internal, LeaseLost
from batonpass.core.ids import NodeId
from batonpass.testing.scripted import ManualSeconds, ScriptedServer, answer, granted, lease, refusal, renewed
from batonpass.wire.leases import Failed, LeaseBody, LeaseReply, ReleaseReply

NODE = NodeId("task-1")
RELEASED = answer(ReleaseReply("task-1", "removed"))
NOTHING_RELEASED = answer(ReleaseReply("task-1", "skipped"))
MINUTE_MS = 60_000


def claimed(*, nonce: str, age_ms: int, edge: str = "skipped") -> LeaseReply:
    """Return the answer to a claim of a tenure that began `age_ms` before the call ran."""
    view = msgspec.structs.replace(lease(expires_ms=age_ms + MINUTE_MS), dispatch=nonce)
    return LeaseReply(ok=True, status="claimed", lease=view, expires_in_ms=MINUTE_MS, edge=edge)


def test_the_block_claims_and_hands_back_exactly_its_tenure(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), RELEASED)

    with client.lease(NODE, session="s1", dispatch="n1") as task:
        assert (task.node, task.epoch, str(task.fence)) == ("task-1", 4, "task-1; epoch=4")
        task.check()

    assert server.paths() == ["/v1/nodes/task-1/claim", "/v1/nodes/task-1/release"]
    assert server.bodies() == [{"session": "s1", "dispatch": "n1"}, {"if_epoch": 4}]


def test_each_block_is_a_launch_with_a_nonce_of_its_own(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease()), RELEASED, granted(lease(epoch=2)), RELEASED)

    for _ in range(2):
        with client.lease(NODE):
            pass

    first, _, second, _ = [body for body in server.bodies() if isinstance(body, dict)]
    assert first["dispatch"] != second["dispatch"]


def test_a_refused_claim_starts_nothing_and_releases_nothing(client: Client, server: ScriptedServer) -> None:
    server.will(refusal(409, "already_claimed", holder=lease(by="agent-b")))

    with pytest.raises(AlreadyClaimed), client.lease(NODE):
        pytest.fail("the block ran without a lease")

    assert server.paths() == ["/v1/nodes/task-1/claim"]


def test_a_tenure_the_block_only_joined_is_not_its_to_hand_back(client: Client, server: ScriptedServer) -> None:
    """Cases 12 and 14: clean-up asks whether this call acquired it."""
    server.will(granted(lease(), edge="skipped"))

    with client.lease(NODE) as task:
        assert not task.acquired

    assert server.paths() == ["/v1/nodes/task-1/claim"]


def test_a_failing_block_hands_back_too(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease()), RELEASED)

    with pytest.raises(ZeroDivisionError), client.lease(NODE):
        raise ZeroDivisionError

    assert server.paths()[-1] == "/v1/nodes/task-1/release"


@pytest.mark.parametrize("fails", [False, True], ids=["at its end", "with an exit"])
def test_a_forked_child_that_leaves_the_block_ends_nothing_of_its_parents(
    client: Client, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """What stands in for the fork is what tells a copy of a process from it: its number, and that no thread came."""
    server.will(granted(lease()))
    monkeypatch.setattr(Heartbeat, "start", lambda _: None)

    with suppress(SystemExit), client.lease(NODE):
        monkeypatch.setattr(os, "getpid", lambda: 1)
        if fails:
            sys.exit()

    assert server.paths() == ["/v1/nodes/task-1/claim"]


def test_a_failing_block_keeps_its_own_error_when_handing_back_fails_as_well(
    client: Client, server: ScriptedServer
) -> None:
    server.will(granted(lease()), refusal(500, "internal", "broke"))

    with pytest.raises(ZeroDivisionError) as raised, client.lease(NODE):
        raise ZeroDivisionError

    assert raised.value.__notes__ == ["and the lease on task-1 was not handed back, it will lapse: broke"]


def test_a_lost_lease_ends_the_block_with_that_and_hands_nothing_back(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """Case 28: files nothing as a success, and releases nothing: it is not its lease."""
    lost: list[Lost] = []
    server.will(
        granted(lease(epoch=4), in_ms=MINUTE_MS),
        renewed(failed=[Failed("task-1", "lease_lost", "held by agent-b", holder=lease(by="agent-b", epoch=5))]),
    )

    def heedless() -> None:
        with held(client, NODE, clock=clock, on_lost=lost.append) as task:
            clock.advance(60)
            with pytest.raises(LeaseLost):
                task.check()
            assert task.lost == lost[0]

    with pytest.raises(LeaseLost, match="agent-b"):
        heedless()

    assert [each.fence.epoch for each in lost] == [4]
    assert server.paths() == ["/v1/nodes/task-1/claim", "/v1/queue/renew"]


def test_a_block_that_heeds_the_loss_ends_with_it(client: Client, server: ScriptedServer, clock: ManualSeconds) -> None:
    server.will(
        granted(lease(epoch=4), in_ms=MINUTE_MS),
        renewed(failed=[Failed("task-1", "lease_lost", "revoked")]),
    )

    def heedful() -> None:
        with held(client, NODE, clock=clock) as task:
            clock.advance(60)
            task.check()

    with pytest.raises(LeaseLost, match="revoked"):
        heedful()

    assert server.paths() == ["/v1/nodes/task-1/claim", "/v1/queue/renew"]


def test_a_tenure_taken_over_unnoticed_is_noticed_at_the_end(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), refusal(409, "lease_lost", "held by agent-b"))

    with pytest.raises(LeaseLost), client.lease(NODE):
        pass


def test_a_block_that_slept_through_its_window_asks_before_it_ends_well(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(
        granted(lease(epoch=4), in_ms=MINUTE_MS),
        renewed(failed=[Failed("task-1", "lease_lost", "it lapsed and was taken")]),
    )

    with pytest.raises(LeaseLost, match="lapsed and was taken"), held(client, NODE, clock=clock):
        clock.advance(3600)

    assert server.paths() == ["/v1/nodes/task-1/claim", "/v1/queue/renew"]


def test_a_release_that_finds_nothing_to_release_ends_the_block_as_lost(client: Client, server: ScriptedServer) -> None:
    """The tenure ended unnoticed and nobody has the node: the server answers 200, and nothing was removed."""
    server.will(granted(lease(epoch=4)), NOTHING_RELEASED)

    with pytest.raises(LeaseLost, match="tenure 4 of task-1 had ended"), client.lease(NODE):
        pass


def test_a_release_that_was_not_answered_is_sent_again_at_the_end(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), refusal(500, "internal", "broke"), RELEASED)

    with client.lease(NODE) as task, suppress(Internal):
        task.release()

    assert server.paths()[1:] == ["/v1/nodes/task-1/release"] * 2


def test_a_refused_reservation_leaves_the_node_to_be_released(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), refusal(500, "internal", "broke"), RELEASED)

    with pytest.raises(Internal), client.lease(NODE) as task:
        task.reserve()

    assert server.paths()[1:] == ["/v1/nodes/task-1/reserve", "/v1/nodes/task-1/release"]


def test_writes_of_the_block_stand_on_its_tenure(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), answer(ReleaseReply("task-9", "removed")), RELEASED)

    with client.lease(NODE) as task:
        task.client.release(NodeId("task-9"))

    assert server.requests[1].headers["If-Lease"] == "task-1; epoch=4"
    assert "If-Lease" not in server.requests[2].headers


def test_a_reserved_node_stays_reserved(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), granted(lease(epoch=4), edge=None))

    with client.lease(NODE) as task:
        task.reserve()
        task.release()

    assert server.paths() == ["/v1/nodes/task-1/claim", "/v1/nodes/task-1/reserve"]


def test_extending_moves_the_end_of_trust(client: Client, server: ScriptedServer, clock: ManualSeconds) -> None:
    server.will(granted(lease(epoch=4), in_ms=MINUTE_MS), granted(lease(epoch=4), in_ms=7_200_000), RELEASED)

    with held(client, NODE, clock=clock) as task:
        task.extend(timedelta(hours=2))
        clock.advance(3599)
        task.check()

    assert server.bodies()[1] == {"ms": 7_200_000, "if_epoch": 4}


def test_a_claim_whose_first_answer_was_lost_still_began_its_tenure(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """The repeated claim is told that nothing was added; the tenure is as young as the first sending."""

    def lost(_request: httpx.Request) -> httpx.Response:
        clock.advance(9)
        raise httpx.ReadTimeout("too long")

    server.will(lost, answer(claimed(nonce="n1", age_ms=9000)), RELEASED)

    with held(client, NODE, dispatch="n1", clock=clock) as task:
        assert task.acquired

    assert server.paths()[-1] == "/v1/nodes/task-1/release"


@pytest.mark.parametrize(
    "reply, expected",
    [
        (claimed(nonce="n1", age_ms=0, edge="added"), True),
        (claimed(nonce="n1", age_ms=10_001), True),
        (claimed(nonce="n1", age_ms=10_010), False),
        (claimed(nonce="n2", age_ms=0), False),
    ],
    ids=["added", "no older than the first sending", "older: it was only bound to the nonce", "another launch's"],
)
def test_began_tells_the_tenure_of_this_launch(reply: LeaseReply, *, expected: bool) -> None:
    assert began(reply, nonce="n1", elapsed_s=10) is expected


def test_a_lease_without_a_beginning_was_not_begun_here() -> None:
    view: LeaseBody = msgspec.structs.replace(lease(), claimed_at=None, dispatch="n1")

    assert not began(LeaseReply(ok=True, status="claimed", lease=view, expires_in_ms=1), nonce="n1", elapsed_s=10)


def test_a_held_lease_names_itself(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)), RELEASED)

    with client.lease(NODE) as task:
        assert repr(task) == "HeldLease('task-1; epoch=4')"
