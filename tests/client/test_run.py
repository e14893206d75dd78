"""The loop of an agent, its server answering from a script: what it takes, writes, leaves, and waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx
import pytest

from batonpass.client import run as running
from batonpass.client.client import Client, Patience
from batonpass.client.heartbeat import DECIDING_TRIES_MAX
from batonpass.client.records import Record
from batonpass.client.run import Finish, Tally, awaited, run
from batonpass.client.task import HeldTask, Loss
from batonpass.core.errors import LeaseLost, ScopeDenied, Unavailable
from batonpass.testing.scripted import (
    ManualSeconds,
    Scripted,
    ScriptedServer,
    answer,
    record_answer,
    stale,
    task_answer,
    task_held,
)
from batonpass.wire.events import EventsReply
from batonpass.wire.records import RecordErrorBody, WritesReply

CLASS, FIELD = "incidents", "remediation"
LIST = "/v1/records/incidents"
READ = "/v1/records/incidents/inc-1"
CLAIM = "/v1/records/incidents/inc-1/fields/remediation/claim"
EVENTS = "/v1/events"
WRITTEN = answer(WritesReply("incidents/inc-1", 9, {"status": 2}))
CLAIMED = task_answer(5, epoch=4, in_ms=60_000)
RELEASED = task_answer(9, epoch=4, in_ms=None)
FENCE = {"kind": "fence", "field": "remediation", "epoch": 4}
PROGRESS_CLASS = answer(
    {
        "class": CLASS,
        "version": 1,
        "latest": 1,
        "applied_by": "person:person-ada",
        "applied_at": "2026-01-01T00:00:00.000000Z",
        "document": {"fields": {"progress": {"type": "register"}, "remediation": {"type": "task"}}, "roles": {}},
    }
)


def free(*names: str, **values: object) -> httpx.Response:
    """Return a page of records whose task is free, each with these values at version 1."""
    fields = {
        name: {"version": 1, "author": "agent:agent-a", "updated_at": None, "value": value}
        for name, value in values.items()
    }
    found = [
        {"record": f"incidents/{name}", "class_version": 1, "record_version": 1, "fields": fields} for name in names
    ]
    return answer({"records": found, "next": None})


def happened(*kinds: str, at: str = "p2") -> httpx.Response:
    """Return a page of events of these kinds."""
    events = [
        {"seq": n, "at": "x", "kind": kind, "node": None, "project": None, "actor": "agent-b", "data": None}
        for n, kind in enumerate(kinds)
    ]
    return answer({"events": events, "next": at, "more": False})


MITIGATED = Finish(put={"status": "mitigated"})
NOW = answer(EventsReply([], "p1", more=False))


def nothing(_task: HeldTask) -> None:
    """Do nothing."""


def taken(*work: Scripted) -> list[Scripted]:
    """Return what is answered to one task that is taken, with `work` in its middle, and handed back."""
    return [CLAIMED, record_answer(status="open"), *work, record_answer(status="open"), RELEASED]


# --- one pass --------------------------------------------------------------------------------------------------------


def test_what_a_handler_returns_is_written_in_one_step_with_the_checkpoint(
    client: Client, server: ScriptedServer
) -> None:
    server.will(PROGRESS_CLASS, free("inc-1"), CLAIMED, record_answer(progress={"step": 2}), WRITTEN)
    server.will(record_answer(), RELEASED)
    seen: list[object] = []

    def handle(task: HeldTask) -> Finish:
        seen.append(task.checkpoint)
        return Finish(put={"status": "mitigated"}, append={"actions_taken": "restart"}, checkpoint={"step": 3})

    tally = run(client, CLASS, FIELD, handle, once=True, checkpoint="progress", lease_s=60)

    assert (tally, seen) == (Tally(done=1), [{"step": 2}])
    assert server.bodies() == [
        {"lease_seconds": 60},
        {
            "writes": [
                {"field": "status", "put": "mitigated"},
                {"field": "actions_taken", "append": "restart"},
                {"field": "progress", "put": {"step": 3}},
            ],
            "based_on": [FENCE],
        },
        {"lease_seconds": 0, "based_on": [FENCE]},
    ]


def test_a_race_that_is_lost_moves_on_to_the_next(client: Client, server: ScriptedServer) -> None:
    server.will(free("inc-0", "inc-1"), task_held(), *taken())

    assert run(client, CLASS, FIELD, nothing, once=True) == Tally(done=1)


def test_only_what_is_wanted_is_claimed_and_what_is_not_wanted_any_more_is_handed_back(
    client: Client, server: ScriptedServer
) -> None:
    handled: list[HeldTask] = []

    def is_open(record: Record) -> bool:
        return record.value("status") == "open"

    server.will(free("inc-0", status="closed"))
    assert run(client, CLASS, FIELD, handled.append, once=True, wanted=is_open) == Tally()
    assert server.paths() == [LIST]

    server.will(free("inc-1", status="open"), CLAIMED, record_answer(status="closed"), RELEASED)
    assert run(client, CLASS, FIELD, handled.append, once=True, wanted=is_open) == Tally()
    assert handled == []


def test_a_handler_that_raises_leaves_the_task_to_its_lease(client: Client, server: ScriptedServer) -> None:
    def broken(_task: HeldTask) -> None:
        raise ZeroDivisionError

    server.will(free("inc-1", "inc-2"), CLAIMED, record_answer())
    with pytest.raises(ZeroDivisionError):
        run(client, CLASS, FIELD, broken, once=True)

    server.will(free("inc-1", "inc-1"), CLAIMED, record_answer(), CLAIMED, record_answer())
    assert run(client, CLASS, FIELD, broken, once=True, on_error="continue") == Tally(failed=2)

    assert "lease_seconds" not in str(server.bodies())


def test_a_handler_is_told_when_it_returns_what_cannot_be_written(client: Client, server: ScriptedServer) -> None:
    server.will(free("inc-1"), CLAIMED, record_answer())

    with pytest.raises(TypeError, match="Finish"):
        run(client, CLASS, FIELD, lambda _task: {"status": "open"}, once=True)  # type: ignore[arg-type, return-value]  # the mistake


def test_a_refusal_that_stands_ends_the_loop(client: Client, server: ScriptedServer) -> None:
    server.will(free("inc-1"), answer(RecordErrorBody("SCOPE_DENIED", "may not claim"), 403))

    with pytest.raises(ScopeDenied):
        run(client, CLASS, FIELD, nothing, once=True)


def test_work_that_is_written_is_done_even_if_handing_back_fails(client: Client, server: ScriptedServer) -> None:
    server.will(free("inc-1"), CLAIMED, record_answer(), WRITTEN, record_answer())
    server.will(answer(RecordErrorBody("INTERNAL", "broke"), 500))

    tally = run(client, CLASS, FIELD, lambda _task: Finish(put={"status": "mitigated"}), once=True)

    assert tally == Tally(done=1)


# --- losing the task -------------------------------------------------------------------------------------------------


def losing(clock: ManualSeconds) -> Callable[[HeldTask], None]:
    """Return what makes a task be lost at its next renewal, if the server then says so."""

    def lose(task: HeldTask) -> None:
        clock.advance(20)
        task.heartbeat.tick()

    return lose


def test_what_a_handler_returns_after_its_task_was_lost_is_not_written(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(free("inc-1", "inc-2"), CLAIMED, record_answer(), stale(FIELD, expected=4, actual=5))
    server.will(*taken(WRITTEN))
    lose = [losing(clock), nothing]

    def heedless(task: HeldTask) -> Finish:
        lose.pop(0)(task)
        return Finish(put={"status": "mitigated"})

    assert run(client, CLASS, FIELD, heedless, once=True, clock=clock) == Tally(done=1, lost=1)
    assert server.paths()[:4] == [LIST, CLAIM, READ, CLAIM]


def test_an_async_handler_is_cancelled_when_its_task_is_lost(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    server.will(free("inc-1"), CLAIMED, record_answer(), stale(FIELD, expected=4, actual=5))
    ended: list[str] = []

    async def endless(task: HeldTask) -> Finish:
        try:
            await asyncio.to_thread(losing(clock), task)
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return Finish(put={"status": "mitigated"})

    assert run(client, CLASS, FIELD, endless, once=True, clock=clock) == Tally(lost=1)
    assert ended == ["cancelled"]
    assert server.paths() == [LIST, CLAIM, READ, CLAIM]


def test_an_async_handler_that_blocks_its_loop_is_refused_when_its_task_is_lost_meanwhile(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    """The thread that hears of the loss doesn't wait for a loop that waits for it."""
    server.will(free("inc-1"), CLAIMED, record_answer(), stale(FIELD, expected=4, actual=5))
    refused: list[str] = []

    async def blocking(task: HeldTask) -> Finish:
        clock.advance(20)
        task.heartbeat.wake()
        assert task.loss.event.wait(10)
        try:
            task.put("status", "mitigated")
        except LeaseLost as error:
            refused.append(error.message)
        return Finish(put={"status": "mitigated"})

    assert run(client, CLASS, FIELD, blocking, once=True, clock=clock) == Tally(lost=1)
    assert len(refused) == 1


def test_an_async_handler_works_on_a_loop_in_a_thread_of_its_own(client: Client, server: ScriptedServer) -> None:
    server.will(free("inc-1"), *taken(WRITTEN))
    threads: list[str] = []

    async def handle(task: HeldTask) -> Finish:
        await asyncio.to_thread(task.check)
        threads.append(threading.current_thread().name)
        return Finish(put={"status": "mitigated"})

    assert run(client, CLASS, FIELD, handle, once=True) == Tally(done=1)
    assert threads[0] != threading.current_thread().name


def test_an_async_handler_that_raises_is_a_handler_that_raises(client: Client, server: ScriptedServer) -> None:
    async def broken(_task: HeldTask) -> None:
        raise ZeroDivisionError

    server.will(free("inc-1"), CLAIMED, record_answer())

    with pytest.raises(ZeroDivisionError):
        run(client, CLASS, FIELD, broken, once=True)


def test_an_interrupt_cancels_the_async_handler_and_waits_for_it() -> None:
    started, ended = threading.Event(), list[str]()

    class Interrupted(Loss):
        @contextmanager
        def heard_by(self, call: Callable[[], object]) -> Iterator[None]:
            with super().heard_by(call):
                if started.wait(10):
                    raise KeyboardInterrupt
                yield

    async def endless() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        awaited(endless(), Interrupted())

    assert ended == ["cancelled"]


# --- looking again, and waiting --------------------------------------------------------------------------------------


def test_without_a_wish_a_record_is_taken_once_and_again_when_it_was_written_since(
    client: Client, server: ScriptedServer
) -> None:
    changed = record_answer(status="open", severity="high")
    server.will(NOW, free("inc-1", status="open"), *taken())  # taken, as it was never seen
    server.will(NOW, free("inc-1", status="open"), happened("record.put"))  # unchanged: left, and waited
    server.will(NOW, free("inc-1", status="open", severity="high"))
    server.will(CLAIMED, changed, changed, RELEASED)

    assert run(client, CLASS, FIELD, nothing, max_tasks=2) == Tally(done=2)
    assert server.paths().count(CLAIM) == 4


def test_a_wish_that_stays_true_though_nothing_was_written_is_granted_at_leisure(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    def look_away(_request: httpx.Request) -> httpx.Response:
        clock.advance(5)
        return happened()

    server.will(NOW, free("inc-1", status="open"), *taken())
    server.will(NOW, free("inc-1", status="open"), look_away, look_away, look_away)
    server.will(NOW, free("inc-1", status="open"), *taken())

    tally = run(client, CLASS, FIELD, nothing, max_tasks=2, wanted=lambda _record: True, look_s=15, clock=clock)

    assert tally == Tally(done=2)


def test_it_waits_for_what_may_free_a_task_from_before_it_looked(client: Client, server: ScriptedServer) -> None:
    server.will(NOW, free(), happened(at="p2"), happened("lease.released", at="p3"), NOW, free("inc-1"), *taken())

    run(client, CLASS, FIELD, nothing, max_tasks=1, look_s=600)

    waits = [dict(request.url.params) for request in server.requests if request.url.path == EVENTS]
    about: Mapping[str, str] = {
        "wait": "5",
        "class": "incidents",
        "kind": "record.put,record.append,lease.released,lease.revoked",
    }
    assert waits == [{"after": "now"}, {"after": "p1", **about}, {"after": "p2", **about}, {"after": "now"}]


def test_a_lapse_that_is_no_event_is_found_by_looking(
    client: Client, server: ScriptedServer, clock: ManualSeconds
) -> None:
    def quiet(_request: httpx.Request) -> httpx.Response:
        clock.advance(5)
        return happened()

    server.will(NOW, free(), quiet, quiet, quiet, NOW, free("inc-1"), *taken())

    assert run(client, CLASS, FIELD, nothing, max_tasks=1, clock=clock) == Tally(done=1)


def test_a_feed_that_was_restored_is_read_from_its_end(client: Client, server: ScriptedServer) -> None:
    restored = answer({"error": {"code": "resync", "message": "another incarnation"}}, 410)
    server.will(NOW, free(), restored, NOW, free("inc-1"), *taken())

    assert run(client, CLASS, FIELD, nothing, max_tasks=1) == Tally(done=1)


def test_a_server_that_is_away_is_waited_for(client: Client, server: ScriptedServer, slept: list[float]) -> None:
    paused: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            paused.append(timeout)
            return False

    server.will(*[httpx.ConnectError("refused")] * 5, NOW, free("inc-1"), *taken())

    assert run(client, CLASS, FIELD, nothing, max_tasks=1, stop=Stop()) == Tally(done=1)
    assert len(slept) == 4
    assert paused == [5.0]


def test_a_server_that_is_not_there_yet_is_waited_for_unless_it_is_for_one_pass(
    client: Client, server: ScriptedServer
) -> None:
    stop = threading.Event()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            del timeout
            return False

    server.will(*[httpx.ConnectError("refused")] * 5, PROGRESS_CLASS, NOW, free("inc-1"), *taken())
    assert run(client, CLASS, FIELD, nothing, checkpoint="progress", max_tasks=1, stop=Stop()) == Tally(done=1)

    server.will(*[httpx.ConnectError("refused")] * 5)
    with pytest.raises(Unavailable):
        run(client, CLASS, FIELD, nothing, checkpoint="progress", once=True)

    stop.set()
    assert run(client, CLASS, FIELD, nothing, checkpoint="progress", stop=stop) == Tally(), (
        "told to stop before it began"
    )


def test_a_record_that_others_had_meanwhile_and_left_as_it_was_is_not_taken_again(
    client: Client, server: ScriptedServer
) -> None:
    """Or two loops without a wish would hand each record to and fro for ever."""
    server.will(NOW, free("inc-1", status="open"), *taken())
    server.will(NOW, free(), happened("lease.released"))  # somebody else had it while we looked
    server.will(NOW, free("inc-1", status="open"), happened("record.put"))
    other = record_answer(status="open", record="incidents/inc-2")
    server.will(NOW, free("inc-1", "inc-2", status="open"), CLAIMED, other, other, RELEASED)

    assert run(client, CLASS, FIELD, nothing, max_tasks=2) == Tally(done=2)
    assert server.paths().count(CLAIM) == 2, "once, and what was claimed later is inc-2"


def test_what_was_handled_and_is_not_met_again_is_forgotten_in_the_end(
    client: Client, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "REMEMBERED_MAX", 0)
    server.will(NOW, free("inc-1", status="open"), *taken())
    server.will(NOW, free(), happened("lease.released"))
    server.will(NOW, free("inc-1", status="open"), *taken())

    assert run(client, CLASS, FIELD, nothing, max_tasks=2) == Tally(done=2)


def test_what_a_handler_returned_waits_for_a_server_that_is_away(
    client: Client, server: ScriptedServer, slept: list[float]
) -> None:
    server.will(free("inc-1"), CLAIMED, record_answer(), *[httpx.ReadTimeout("restarting")] * 7, WRITTEN)
    server.will(record_answer(), RELEASED)

    assert run(client, CLASS, FIELD, lambda _task: MITIGATED, once=True) == Tally(done=1)
    keys = [sent.headers["Idempotency-Key"] for sent in server.requests if b"writes" in sent.content]
    assert (len(keys), len(set(keys))) == (8, 1), "however often it was sent, it is one write"
    assert len(slept) == 4 + 1 + 2


def test_what_a_handler_returned_is_given_up_with_its_task_where_the_server_stays_away(
    server: ScriptedServer, clock: ManualSeconds
) -> None:
    patience = Patience(tries_max=1, sleep=clock.advance, jitter=lambda: 1.0)
    client = Client("http://baton.test", None, transport=httpx.MockTransport(server), patience=patience)
    server.will(free("inc-1"), CLAIMED, record_answer(), *[httpx.ReadTimeout("away")] * (12 + DECIDING_TRIES_MAX))

    assert run(client, CLASS, FIELD, lambda _task: MITIGATED, once=True, clock=clock) == Tally(lost=1)
    assert not server.answers


def test_told_to_stop_it_ends_with_the_task_in_hand(client: Client, server: ScriptedServer) -> None:
    stop = threading.Event()
    server.will(NOW, free("inc-1", "inc-2"), *taken(WRITTEN))

    def stopping(_task: HeldTask) -> Finish:
        stop.set()
        return Finish(put={"status": "mitigated"})

    assert run(client, CLASS, FIELD, stopping, stop=stop) == Tally(done=1)
    assert server.answers == type(server.answers)()


def test_a_lost_task_without_a_server_is_raised_as_that(client: Client, server: ScriptedServer) -> None:
    """What the handler itself asks is refused with the reason."""
    server.will(free("inc-1"), CLAIMED, record_answer(), stale(FIELD, expected=4, actual=5))
    refused: list[LeaseLost] = []

    def handle(task: HeldTask) -> None:
        try:
            task.put("status", "x")
        except LeaseLost as error:
            refused.append(error)

    assert run(client, CLASS, FIELD, handle, once=True) == Tally(lost=1)
    assert refused[0].holder is not None
