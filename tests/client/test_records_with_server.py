"""Records and their tasks through the client against the real server, in this process, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import msgspec
import pytest

from batonpass.client import record_calls
from batonpass.client.client import Client
from batonpass.client.heartbeat import Lost
from batonpass.client.task import HeldTask, held
from batonpass.core import points
from batonpass.core.errors import AlreadyClaimed, Invalid, LeaseLost, NotFound, StalePremise
from batonpass.testing.world import INCIDENTS, World

RECORD = "incidents/inc-1"
FIELD = "remediation"
LEASE_S = 300
LEASE = timedelta(seconds=LEASE_S)
THIRD = LEASE / 3
WAIT_S_MAX = 20


@pytest.fixture
def world(bare_world: World) -> World:
    """Return a server with a class of records that agents may do everything with."""
    bare_world.client().put_class("incidents", INCIDENTS)
    return bare_world


@pytest.fixture
def mill(world: World) -> Client:
    return world.agent("mill")


@pytest.fixture
def kiln(world: World) -> Client:
    return world.agent("kiln")


@contextmanager
def at_point(name: str, call: Callable[[], None]) -> Iterator[None]:
    """Have `call` called whenever `name` is reached within the block."""
    points.armed[name] = call
    try:
        yield
    finally:
        del points.armed[name]


def beats(task: HeldTask, world: World, span: timedelta) -> None:
    """Let `span` pass for everybody, and wait until the thread of the task has asked the server."""
    answered = threading.Event()
    with at_point("beat.answered", answered.set):
        world.pass_time(span)
        task.heartbeat.wake()
        assert answered.wait(WAIT_S_MAX)


def is_renewal(request: httpx.Request) -> bool:
    return b'"renew":true' in request.content


# --- the calls, in a story -------------------------------------------------------------------------------------------


def test_a_record_is_written_read_listed_and_deleted(world: World, mill: Client) -> None:
    records = mill.records

    assert records.put(RECORD, "status", "open").version == 1
    assert records.append(RECORD, "actions_taken", {"step": 1}).index == 0
    written = records.write(
        RECORD, [{"field": "status", "put": "triaged"}, {"field": "actions_taken", "append": {"step": 2}}]
    )
    assert written.versions == {"status": 2, "actions_taken": 2}
    record = records.get(RECORD)
    assert (record.value("status", str), record.value("actions_taken")) == ("triaged", [{"step": 1}, {"step": 2}])
    assert msgspec.Raw(b'"triaged"') == records.field(RECORD, "status").value
    assert records.put(RECORD, "status", "closed", based_on=[record.seen("status")]).version == 3
    with pytest.raises(StalePremise, match="status"):
        records.put(RECORD, "status", "open", based_on=[record.seen("status")])

    gone = world.client().records.delete(RECORD)
    assert gone.deleted
    with pytest.raises(NotFound):
        records.get(RECORD)
    assert records.put(RECORD, "status", "open").version > 3, "versions never come back (D32)"


def test_a_task_is_claimed_renewed_and_released_by_calls(mill: Client, kiln: Client) -> None:
    claim = mill.records.claim(RECORD, FIELD)
    renewed = mill.records.renew(RECORD, FIELD, based_on=[record_calls.fence_at(FIELD, claim.version)])

    assert (renewed.epoch, renewed.version) == (claim.epoch, claim.version + 1)
    assert mill.records.claim(RECORD, FIELD) == msgspec.structs.replace(renewed, expires_in_ms=LEASE_S * 1000)
    with pytest.raises(AlreadyClaimed, match="agent-mill") as raised:
        kiln.records.claim(RECORD, FIELD)
    assert raised.value.version == renewed.version
    assert [(name, body.owner) for name, body in kiln.records.claims(RECORD).items()] == [(FIELD, "agent:agent-mill")]
    assert mill.records.release(RECORD, FIELD, based_on=[record_calls.fence(FIELD, claim.epoch)]).owner is None
    assert [body.held for body in kiln.records.claims(RECORD).values()] == [False]
    assert kiln.records.claim(RECORD, FIELD).epoch == claim.epoch + 1


def test_who_wrote_what_is_told_with_what_it_was_based_on(world: World, mill: Client, kiln: Client) -> None:
    with held(mill, RECORD, FIELD, clock=world.seconds) as task:
        task.put("status", "mitigated")
    kiln.records.put(RECORD, "progress", 1)

    entries = mill.records.history(RECORD).entries

    (put,) = [entry for entry in entries if entry.field == "status"]
    assert (put.author, put.based_on) == ("agent:agent-mill", [task.premise.as_sent()])
    authors = {name: body.author for name, body in mill.records.blame(RECORD).fields.items()}
    assert (authors["status"], authors["progress"]) == ("agent:agent-mill", "agent:agent-kiln")


def test_records_are_listed_page_after_page_and_by_whose_task_is_free(mill: Client) -> None:
    for n in range(5):
        mill.records.put(f"incidents/inc-{n}", "status", "open")
    mill.records.claim("incidents/inc-3", FIELD)

    assert [record.path.id for record in mill.records.list("incidents", page_size=2)] == [f"inc-{n}" for n in range(5)]
    assert [record.path.id for record in mill.records.list("incidents", free=FIELD, page_size=2)] == [
        "inc-0",
        "inc-1",
        "inc-2",
        "inc-4",
    ]


def test_classes_are_read_and_listed(mill: Client) -> None:
    assert [line.record_class for line in mill.list_classes().classes] == ["incidents"]
    assert msgspec.json.decode(mill.get_class("incidents").document)["fields"].keys() == INCIDENTS["fields"].keys()  # type: ignore[attr-defined]  # a mapping


# --- answers that are lost -------------------------------------------------------------------------------------------


def test_a_claim_whose_answer_is_lost_is_one_claim(world: World, mill: Client) -> None:
    world.lose_the_next_answer()

    assert mill.records.claim(RECORD, FIELD).epoch == 1


def test_an_append_whose_answer_is_lost_is_one_item(world: World, mill: Client) -> None:
    world.lose_the_next_answer()

    assert mill.records.append(RECORD, "actions_taken", "restart").index == 0
    assert mill.records.get(RECORD).value("actions_taken") == ["restart"]


def test_a_release_that_comes_late_ends_nobody_elses_tenure(mill: Client, kiln: Client) -> None:
    claim = mill.records.claim(RECORD, FIELD)
    fenced = [record_calls.fence(FIELD, claim.epoch)]
    mill.records.release(RECORD, FIELD, based_on=fenced)
    kiln.records.claim(RECORD, FIELD)

    with pytest.raises(StalePremise):
        mill.records.release(RECORD, FIELD, based_on=fenced)

    assert kiln.records.claims(RECORD)[FIELD].owner == "agent:agent-kiln"


# --- a task as a block -----------------------------------------------------------------------------------------------


def test_a_task_is_kept_through_many_leases_and_written_under(world: World, mill: Client, kiln: Client) -> None:
    """Case 142: nine renewals move the version nine times, and no fence of the holder's own breaks by them."""
    with held(mill, RECORD, FIELD, clock=world.seconds) as task:
        claimed_at = task.version
        for _ in range(9):
            beats(task, world, THIRD)
            task.put("progress", "on")
            with pytest.raises(AlreadyClaimed):
                kiln.records.claim(RECORD, FIELD)
        assert task.version == claimed_at + 9
        task.settle()
        mill.records.put(RECORD, "status", "done", based_on=[record_calls.fence_at(FIELD, task.version)])

    assert kiln.records.get(RECORD).value("status") == "done"
    assert kiln.records.claim(RECORD, FIELD).took_over_from is None


@pytest.mark.parametrize("answered", [True, False], ids=["late", "lost"])
def test_a_renewal_in_flight_is_waited_for_and_its_version_known_before_the_last_write(
    world: World, mill: Client, *, answered: bool
) -> None:
    """Case 142: the answer is two seconds late, or never comes; the fence is by version, the one that it moved."""
    in_flight, settling = threading.Event(), threading.Event()

    def hold_up(request: httpx.Request) -> None:
        if is_renewal(request) and not in_flight.is_set():
            in_flight.set()
            assert settling.wait(WAIT_S_MAX)
            if not answered:
                raise httpx.ReadTimeout("the answer is lost")

    world.transport.on_answer = hold_up
    with at_point("lease.settling", settling.set), held(mill, RECORD, FIELD, clock=world.seconds) as task:
        world.pass_time(THIRD)
        task.heartbeat.wake()
        assert in_flight.wait(WAIT_S_MAX)
        task.settle()
        mill.records.put(RECORD, "status", "done", based_on=[record_calls.fence_at(FIELD, task.version)])
        task.put("progress", "all")

    assert mill.records.get(RECORD).value("status") == "done"


def test_a_holder_that_slept_goes_on_if_nobody_came_and_learns_who_did(
    world: World, mill: Client, kiln: Client
) -> None:
    lost: list[Lost] = []

    def sleep() -> None:
        with held(mill, RECORD, FIELD, clock=world.seconds, on_lost=lost.append) as task:
            world.pass_time(3 * LEASE)
            task.put("status", "awake")
            world.database_clock.advance(2 * LEASE)
            taken = kiln.records.claim(RECORD, FIELD)
            assert (taken.epoch, taken.took_over_from) == (task.epoch + 1, "agent:agent-mill")
            with pytest.raises(LeaseLost):
                task.put("status", "late")
            assert task.loss.event.is_set()

    with pytest.raises(LeaseLost, match="agent:agent-kiln has it now"):
        sleep()

    assert [each.fence.epoch for each in lost] == [1]
    assert kiln.records.get(RECORD).value("status") == "awake"
    assert kiln.records.claims(RECORD)[FIELD].owner == "agent:agent-kiln"


def test_what_the_graph_is_told_under_a_lost_task_is_refused_too(world: World, mill: Client, kiln: Client) -> None:
    """The task's client names its tenure in a header, whatever it writes."""
    note = {"id": "find-1", "type": "finding", "title": "x", "summary": "x"}

    def outlive() -> None:
        with held(mill, RECORD, FIELD, clock=world.seconds) as task:
            task.client.records.put(RECORD, "status", "mine")
            world.database_clock.advance(2 * LEASE)
            kiln.records.claim(RECORD, FIELD)
            with pytest.raises(StalePremise):
                task.client.records.put(RECORD, "status", "late")
            with pytest.raises(LeaseLost):
                task.client.put_nodes([note])

    with pytest.raises(LeaseLost):
        outlive()

    assert kiln.records.get(RECORD).value("status") == "mine"


def test_a_record_that_was_deleted_takes_its_task_along(world: World, mill: Client) -> None:
    def lose() -> None:
        with held(mill, RECORD, FIELD, clock=world.seconds) as task:
            world.client().records.delete(RECORD)
            task.put("status", "late")

    with pytest.raises(LeaseLost):
        lose()

    with pytest.raises(NotFound):
        mill.records.get(RECORD)


@pytest.mark.parametrize("field", ["progress", "actions_taken"])
def test_a_checkpoint_is_left_in_a_register_or_an_append_for_the_next_holder(
    world: World, mill: Client, kiln: Client, field: str
) -> None:
    def die() -> None:
        with held(mill, RECORD, FIELD, checkpoint=field, leave_on_error=True, clock=world.seconds) as task:
            assert task.checkpoint is None
            task.save_checkpoint({"step": 1})
            task.save_checkpoint({"step": 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        die()
    world.pass_time(LEASE)

    with kiln.task(RECORD, FIELD, checkpoint=field) as task:
        assert (task.checkpoint, task.took_over_from) == ({"step": 2}, "agent:agent-mill")


@pytest.mark.parametrize("field", ["nothing", FIELD])
def test_a_checkpoint_goes_where_the_class_has_a_place_for_it(mill: Client, field: str) -> None:
    with pytest.raises(Invalid, match="checkpoint"), mill.task(RECORD, FIELD, checkpoint=field):
        pytest.fail("the block ran without its checkpoint")

    with pytest.raises(NotFound):
        mill.records.get(RECORD)
