"""A task as a block, its server answering from a script: the corners of losing it, and of answers that are lost."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

import httpx
import pytest

from batonpass.client.checkpoint import CheckpointField
from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost
from batonpass.client.task import HeldTask, Loss, held
from batonpass.core.errors import AlreadyClaimed, Forbidden, Invalid, LeaseLost, StalePremise
from batonpass.core.records import FieldKind, FieldName
from batonpass.testing.scripted import (
    ManualSeconds,
    ScriptedServer,
    answer,
    record_answer,
    stale,
    task_answer,
    task_held,
)
from batonpass.wire.records import FieldWriteReply, RecordErrorBody, WritesReply

RECORD = "incidents/inc-1"
FIELD = "remediation"
CLAIM = "/v1/records/incidents/inc-1/fields/remediation/claim"
READ = "/v1/records/incidents/inc-1"
PUT = answer(FieldWriteReply(RECORD, "status", 2, 9))
WRITTEN = answer(WritesReply(RECORD, 9, {"progress": 2}))
RELEASED = task_answer(9, epoch=4, in_ms=None)
FENCE = {"kind": "fence", "field": "remediation", "epoch": 4}
NO_ANSWER = httpx.ReadTimeout("too long")
PROGRESS = CheckpointField(FieldName("progress"), FieldKind.REGISTER)
LOG = CheckpointField(FieldName("log"), FieldKind.APPEND)


def claimed(*, in_ms: int = 300_000) -> httpx.Response:
    return task_answer(5, epoch=4, in_ms=in_ms, took_over_from="agent:agent-b")


def beat(task: HeldTask, clock: ManualSeconds) -> None:
    """Let a third of a minute pass, and have the heartbeat look."""
    clock.advance(20)
    task.heartbeat.tick()


def test_the_block_claims_reads_writes_under_its_tenure_and_hands_back(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(status="open"), PUT, PUT, RELEASED)

    with client.task(RECORD, FIELD, lease_s=300) as task:
        assert (str(task.path), task.field, task.epoch, task.version) == (RECORD, FIELD, 4, 5)
        assert (task.owner, task.took_over_from) == ("agent:agent-a", "agent:agent-b")
        assert task.record.value("status") == "open"
        assert task.checkpoint is None
        task.check()
        task.put("status", "mitigated")
        task.append("actions_taken", {"step": 1}, based_on=[task.record.seen("status")])

    assert server.bodies() == [
        {"lease_seconds": 300},
        {"value": "mitigated", "based_on": [FENCE]},
        {"value": {"step": 1}, "based_on": [FENCE, {"field": "status", "version": 1}]},
        {"lease_seconds": 0, "based_on": [FENCE]},
    ]


def test_what_else_the_holder_writes_can_carry_the_tenure_in_a_header(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(), RELEASED)

    with client.task(RECORD, FIELD) as task:
        assert task.client.fences == (task.fence,)
        assert str(task.fence) == "record:incidents/inc-1#remediation; epoch=4"


def test_a_refused_claim_starts_nothing_and_says_who_has_it(client: Client, server: ScriptedServer) -> None:
    server.will(task_held("agent:agent-b"))

    with pytest.raises(AlreadyClaimed, match="agent:agent-b"), client.task(RECORD, FIELD):
        pytest.fail("the block ran without a claim")

    assert server.paths() == [CLAIM]


def test_a_record_that_may_not_be_read_is_handed_back_at_once(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), answer(RecordErrorBody("SCOPE_DENIED", "no role"), 403), RELEASED)

    with pytest.raises(Forbidden), held(client, RECORD, FIELD, leave_on_error=True):
        pytest.fail("the block ran without its record")

    assert server.paths() == [CLAIM, READ, CLAIM]


def test_a_failing_block_hands_back_or_leaves_the_task_to_its_lease(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(), RELEASED, claimed(), record_answer())

    with pytest.raises(ZeroDivisionError), held(client, RECORD, FIELD):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), held(client, RECORD, FIELD, leave_on_error=True):
        raise ZeroDivisionError

    assert server.paths() == [CLAIM, READ, CLAIM, CLAIM, READ]


def test_a_failing_block_keeps_its_own_error_when_handing_back_fails_as_well(
    client: Client, server: ScriptedServer
) -> None:
    server.will(claimed(), record_answer(), answer(RecordErrorBody("INTERNAL", "broke"), 500))

    with pytest.raises(ZeroDivisionError) as raised, client.task(RECORD, FIELD):
        raise ZeroDivisionError

    assert raised.value.__notes__ == ["and incidents/inc-1 remediation was not handed back, it will lapse: broke"]


def test_a_task_handed_back_early_is_handed_back_once(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(), RELEASED)

    with client.task(RECORD, FIELD) as task:
        task.release()
        with pytest.raises(LeaseLost, match="handed back"):
            task.put("status", "x")

    assert server.paths() == [CLAIM, READ, CLAIM]


@pytest.mark.parametrize("fails", [False, True], ids=["at its end", "with an exit"])
def test_a_forked_child_that_leaves_the_block_ends_nothing_of_its_parents(
    client: Client, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """What stands in for the fork is what tells a copy of a process from it: its number, and that no thread came."""
    server.will(claimed(), record_answer())
    monkeypatch.setattr(Heartbeat, "start", lambda _: None)

    with suppress(SystemExit), client.task(RECORD, FIELD):
        monkeypatch.setattr(os, "getpid", lambda: 1)
        if fails:
            sys.exit()

    assert server.paths() == [CLAIM, READ]


# --- losing it -------------------------------------------------------------------------------------------------------


def test_a_task_that_was_taken_over_ends_the_block_and_writes_and_releases_nothing(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    lost: list[Lost] = []
    server.will(claimed(in_ms=60_000), record_answer(), stale(FIELD, expected=4, actual=5))

    def heedless() -> None:
        with held(client, RECORD, FIELD, clock=clock, on_lost=lost.append, checkpoint=PROGRESS) as task:
            clock.advance(60)
            with pytest.raises(LeaseLost):
                task.check()
            assert task.loss.event.is_set()
            with pytest.raises(LeaseLost):
                task.put("status", "mitigated")
            with pytest.raises(LeaseLost):
                task.save_checkpoint({"step": 2})

    with pytest.raises(LeaseLost):
        heedless()

    assert server.paths() == [CLAIM, READ, CLAIM]
    assert [each.holder.by for each in lost if each.holder is not None] == ["agent-b"]


def test_a_loss_is_told_at_once_while_somebody_is_still_being_called_about_it(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """So that who is called, on the heartbeat's thread, may wait for the work to end."""
    refused = threading.Event()
    waited: list[bool] = []
    server.will(claimed(in_ms=60_000), record_answer(), stale(FIELD, expected=4, actual=5))

    def work(task: HeldTask) -> None:
        with pytest.raises(LeaseLost):
            task.check()
        refused.set()

    def heedless() -> None:
        with held(client, RECORD, FIELD, clock=clock, on_lost=lambda _: waited.append(refused.wait(5))) as task:
            clock.advance(20)
            task.heartbeat.wake()
            assert task.loss.event.wait(10)
            work(task)

    with pytest.raises(LeaseLost):
        heedless()

    assert waited == [True]


def test_a_renewal_that_is_answered_held_is_a_loss(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), task_held())

    with pytest.raises(LeaseLost, match="agent:agent-b"), held(client, RECORD, FIELD, clock=clock) as task:
        beat(task, clock)


def test_a_write_that_the_server_finds_unfenced_is_a_loss(client: Client, server: ScriptedServer) -> None:
    """Whatever this side still believes."""
    server.will(claimed(), record_answer(), stale(FIELD, expected=4, actual=5))

    def surprised() -> None:
        with client.task(RECORD, FIELD) as task:
            with pytest.raises(LeaseLost):
                task.put("status", "mitigated")
            assert task.loss.event.is_set()

    with pytest.raises(LeaseLost):
        surprised()

    assert server.paths() == [CLAIM, READ, "/v1/records/incidents/inc-1/fields/status"]


def test_a_premise_of_the_holders_own_that_breaks_is_no_loss(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(status="open"), stale("status", expected=1, actual=2, kind=None), RELEASED)

    with client.task(RECORD, FIELD) as task:
        with pytest.raises(StalePremise):
            task.put("status", "mitigated", based_on=[task.record.seen("status")])
        task.check()


def test_a_tenure_that_had_ended_unnoticed_is_noticed_when_it_is_handed_back(
    client: Client, server: ScriptedServer
) -> None:
    server.will(claimed(), record_answer(), stale(FIELD, expected=4, actual=5))

    with pytest.raises(LeaseLost), client.task(RECORD, FIELD):
        pass


def test_a_proxy_that_answers_409_for_the_server_decides_nothing(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), httpx.Response(404, content=b"<html>"), RELEASED)

    with held(client, RECORD, FIELD, clock=clock) as task:
        clock.advance(20)
        assert task.heartbeat.tick() == 5
        assert task.lost is None


# --- renewing --------------------------------------------------------------------------------------------------------


def test_it_renews_at_a_third_of_what_was_granted_and_names_its_tenure(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """However long a lease was asked for: the server's answer counts."""
    server.will(claimed(in_ms=60_000), record_answer(), task_answer(6, epoch=4, in_ms=30_000), RELEASED)

    with held(client, RECORD, FIELD, lease_s=300, clock=clock) as task:
        assert task.heartbeat.tick() == 20
        clock.advance(20)
        assert task.heartbeat.tick() == 10
        assert task.version == 6

    assert server.bodies()[1] == {"lease_seconds": 300, "renew": True, "based_on": [FENCE]}


def test_an_answer_about_another_tenure_than_ours_is_a_loss(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), task_answer(6, epoch=5))

    with pytest.raises(LeaseLost, match="epoch 5"), held(client, RECORD, FIELD, clock=clock) as task:
        beat(task, clock)


def test_settling_ends_the_renewals_but_not_the_trust(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), PUT, RELEASED)

    with held(client, RECORD, FIELD, clock=clock) as task:
        clock.advance(59)
        task.settle()
        assert task.heartbeat.tick() is None
        task.put("status", "mitigated")

    assert server.paths()[2:] == ["/v1/records/incidents/inc-1/fields/status", CLAIM]


def test_settling_asks_again_where_the_last_answer_was_lost(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """Case 142: the version that stands is the one of the lost answer, or later."""
    server.will(claimed(in_ms=60_000), record_answer(), NO_ANSWER, task_answer(7, epoch=4, in_ms=60_000), RELEASED)

    with held(client, RECORD, FIELD, clock=clock) as task:
        beat(task, clock)
        assert task.version == 5
        task.settle()
        assert task.version == 7


def test_settling_after_the_window_is_decided_by_the_server(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), task_answer(6, epoch=4, in_ms=60_000), RELEASED)

    with held(client, RECORD, FIELD, clock=clock) as task:
        clock.advance(3600)
        task.settle()
        assert task.version == 6


def test_settling_a_task_that_is_lost_says_so(client: Client, server: ScriptedServer, clock: ManualSeconds) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), stale(FIELD, expected=4, actual=5))

    def settle_when_lost() -> None:
        with held(client, RECORD, FIELD, clock=clock) as task:
            beat(task, clock)
            task.settle()

    with pytest.raises(LeaseLost):
        settle_when_lost()

    assert server.paths() == [CLAIM, READ, CLAIM]


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_in_a_register_is_put_and_read_as_it_is(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(progress={"step": 2}), WRITTEN, RELEASED)

    with held(client, RECORD, FIELD, checkpoint=PROGRESS) as task:
        assert task.checkpoint == {"step": 2}
        task.save_checkpoint({"step": 3})

    assert server.bodies()[1] == {"writes": [{"field": "progress", "put": {"step": 3}}], "based_on": [FENCE]}


def test_of_checkpoints_in_an_append_the_last_counts(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(log=["a", "b"]), WRITTEN, RELEASED)

    with held(client, RECORD, FIELD, checkpoint=LOG) as task:
        assert task.checkpoint == "b"
        task.save_checkpoint("c")

    assert server.bodies()[1] == {"writes": [{"field": "log", "append": "c"}], "based_on": [FENCE]}


def test_without_a_field_for_it_there_is_no_checkpoint_to_save(client: Client, server: ScriptedServer) -> None:
    server.will(claimed(), record_answer(), RELEASED)

    with client.task(RECORD, FIELD) as task, pytest.raises(Invalid, match="checkpoint"):
        task.save_checkpoint({"step": 3})


# --- the signal of a loss --------------------------------------------------------------------------------------------


def test_a_loss_is_heard_within_the_block_and_not_after_it() -> None:
    loss, heard = Loss(), list[str]()
    with loss.heard_by(lambda: heard.append("gone")):
        pass
    with loss.heard_by(lambda: heard.append("here")):
        loss.give()
    with loss.heard_by(lambda: heard.append("late")):
        pass

    assert heard == ["here", "late"]


def test_a_handler_that_waits_for_the_loss_is_woken(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(claimed(in_ms=60_000), record_answer(), task_held())
    woken = threading.Event()

    def wait(task: HeldTask) -> None:
        if task.loss.event.wait(10):
            woken.set()

    def lose() -> None:
        with held(client, RECORD, FIELD, clock=clock) as task:
            waiter = threading.Thread(target=wait, args=[task])
            waiter.start()
            beat(task, clock)
            waiter.join(10)

    with pytest.raises(LeaseLost):
        lose()

    assert woken.is_set()
