"""The loop of an agent against the real server: in this process, and around agents that are frozen and killed."""

from __future__ import annotations

import asyncio
import functools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import BlockingPortal

from batonpass.client.client import Client
from batonpass.client.records import Record
from batonpass.client.run import Finish, Tally, run
from batonpass.client.task import HeldTask
from batonpass.core import points
from batonpass.core.errors import AlreadyClaimed, LeaseLost
from batonpass.core.identity import agent_id_for
from batonpass.server.services.identity import bootstrap
from batonpass.store.open import open_store
from batonpass.testing.clock import SharedClock
from batonpass.testing.processes import server_process
from batonpass.testing.world import INCIDENTS, World

CLASS, FIELD = "incidents", "remediation"
RECORD = "incidents/inc-1"
LEASE = timedelta(seconds=300)
THIRD = LEASE / 3
WAIT_S_MAX = 20
MITIGATED = Finish(put={"status": "mitigated"})


@pytest.fixture
def world(bare_world: World) -> World:
    """Return a server with one open incident."""
    admin = bare_world.client()
    admin.put_class(CLASS, INCIDENTS)
    bare_world.agent("watch").records.put(RECORD, "status", "open")
    return bare_world


def is_open(record: Record) -> bool:
    return record.value("status") == "open"


@contextmanager
def at_point(name: str, call: Callable[[], None]) -> Iterator[None]:
    """Have `call` called whenever `name` is reached within the block."""
    points.armed[name] = call
    try:
        yield
    finally:
        del points.armed[name]


def beat(task: HeldTask, world: World) -> None:
    """Let a third of a lease pass for everybody, and wait until the thread of the task has asked the server."""
    answered = threading.Event()
    with at_point("beat.answered", answered.set):
        world.pass_time(THIRD)
        task.heartbeat.wake()
        assert answered.wait(WAIT_S_MAX)


def take_over(world: World, kiln: Client) -> None:
    """Let a lease pass for the database alone, as for a holder that is frozen, and have `kiln` take the task over."""
    world.database_clock.advance(LEASE)
    kiln.records.claim(RECORD, FIELD)


# --- the handler, whatever it does -----------------------------------------------------------------------------------


def test_a_handler_that_blocks_for_three_leases_keeps_its_task(world: World) -> None:
    mill, kiln = world.agent("mill"), world.agent("kiln")
    refused: list[str] = []

    def block(task: HeldTask) -> Finish:
        for _ in range(9):
            beat(task, world)
            with pytest.raises(AlreadyClaimed) as raised:
                kiln.records.claim(RECORD, FIELD)
            refused.append(raised.value.message)
        return MITIGATED

    assert run(mill, CLASS, FIELD, block, once=True, wanted=is_open, clock=world.seconds) == Tally(done=1)
    assert len(refused) == 9
    assert kiln.records.get(RECORD).value("status") == "mitigated"
    assert kiln.records.claim(RECORD, FIELD).took_over_from is None


def test_a_handler_that_computes_keeps_its_task(world: World) -> None:
    """Case 20: the interpreter is busy, and the beats go on."""
    mill = world.agent("mill")
    answered = threading.Event()

    def compute(task: HeldTask) -> Finish:
        world.pass_time(THIRD)
        task.heartbeat.wake()
        rounds = 0
        while not answered.is_set() and rounds < 1_000_000:
            rounds += sum(range(1000)) > 0
        return MITIGATED

    with at_point("beat.answered", answered.set):
        assert run(mill, CLASS, FIELD, compute, once=True, clock=world.seconds) == Tally(done=1)

    assert answered.is_set()


@pytest.mark.parametrize("answered", [True, False], ids=["late", "lost"])
def test_a_renewal_in_flight_when_the_handler_returns_never_makes_its_writes_stale(
    world: World, *, answered: bool
) -> None:
    """Case 142: its answer is two seconds late, or never comes."""
    mill = world.agent("mill")
    in_flight, settling = threading.Event(), threading.Event()

    def hold_up(request: httpx.Request) -> None:
        if b'"renew":true' in request.content and not in_flight.is_set():
            in_flight.set()
            assert settling.wait(WAIT_S_MAX)
            if not answered:
                raise httpx.ReadTimeout("the answer is lost")

    def handle(task: HeldTask) -> Finish:
        world.pass_time(THIRD)
        task.heartbeat.wake()
        assert in_flight.wait(WAIT_S_MAX)
        return MITIGATED

    world.transport.on_answer = hold_up
    with at_point("lease.settling", settling.set):
        assert run(mill, CLASS, FIELD, handle, once=True, clock=world.seconds) == Tally(done=1)

    assert mill.records.get(RECORD).value("status") == "mitigated"
    assert mill.records.claims(RECORD)[FIELD].held is False


def test_a_handler_that_raises_leaves_its_task_and_checkpoint_to_who_comes_next(world: World) -> None:
    mill, kiln = world.agent("mill"), world.agent("kiln")
    found: list[object] = []

    def fail(task: HeldTask) -> None:
        task.save_checkpoint({"step": 2})
        raise ZeroDivisionError

    def resume(task: HeldTask) -> Finish:
        found.extend([task.checkpoint, task.took_over_from])
        return MITIGATED

    with pytest.raises(ZeroDivisionError):
        run(mill, CLASS, FIELD, fail, checkpoint="progress", clock=world.seconds)
    take = functools.partial(run, kiln, CLASS, FIELD, resume, checkpoint="progress", once=True, clock=world.seconds)
    assert take() == Tally(), "its lease stands"
    world.pass_time(LEASE)

    assert take() == Tally(done=1)
    assert found == [{"step": 2}, "agent:agent-mill"]


# --- losing the task -------------------------------------------------------------------------------------------------


def test_a_handler_whose_task_is_taken_over_is_cancelled_and_writes_nothing(world: World) -> None:
    mill, kiln = world.agent("mill"), world.agent("kiln")
    ended: list[str] = []

    async def endless(task: HeldTask) -> Finish:
        try:
            await asyncio.to_thread(task.put, "progress", "begun")
            await asyncio.to_thread(take_over, world, kiln)
            await asyncio.to_thread(beat, task, world)
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return MITIGATED

    assert run(mill, CLASS, FIELD, endless, once=True, clock=world.seconds) == Tally(lost=1)
    assert ended == ["cancelled"]
    record = kiln.records.get(RECORD)
    assert (record.value("status"), record.value("progress")) == ("open", "begun")
    assert kiln.records.claims(RECORD)[FIELD].owner == "agent:agent-kiln"


def test_a_handler_that_does_not_look_is_refused_at_every_write(world: World) -> None:
    mill, kiln = world.agent("mill"), world.agent("kiln")

    def heedless(task: HeldTask) -> Finish:
        take_over(world, kiln)
        for write in (task.put, task.append):
            with pytest.raises(LeaseLost):
                write("actions_taken", "late")
        assert task.loss.event.is_set()
        return MITIGATED

    assert run(mill, CLASS, FIELD, heedless, once=True, clock=world.seconds) == Tally(lost=1)
    assert kiln.records.get(RECORD).value("status") == "open"


# --- several agents --------------------------------------------------------------------------------------------------


def test_agents_side_by_side_take_each_task_once(world: World) -> None:
    agents = [world.agent(f"racer-{n}") for n in range(3)]
    for n in range(2, 6):
        agents[0].records.put(f"incidents/inc-{n}", "status", "open")
    handled: list[str] = []
    together = threading.Barrier(len(agents))

    def handle(task: HeldTask) -> Finish:
        handled.append(str(task.path))
        return MITIGATED

    def work(client: Client) -> None:
        together.wait(WAIT_S_MAX)
        run(client, CLASS, FIELD, handle, once=True, wanted=is_open)

    threads = [threading.Thread(target=work, args=[client]) for client in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S_MAX)

    assert sorted(handled) == [f"incidents/inc-{n}" for n in range(1, 6)]


def test_an_agent_that_waits_is_woken_by_what_comes(world: World) -> None:
    """It has an API key, as agents outside of the graph do: that is enough for all that the loop asks."""
    mill, watch = world.key("crew/worker-1"), world.agent("other-watch")
    waiting, stop = threading.Event(), threading.Event()
    handled: list[str] = []

    def seen(request: httpx.Request) -> None:
        if request.url.path == "/v1/events" and request.url.params.get("after") == "now":
            waiting.set()

    def handle(task: HeldTask) -> Finish:
        handled.append(str(task.path))
        assert task.owner == "apikey:crew/worker-1"
        task.save_checkpoint(len(handled))
        if len(handled) == 2:
            stop.set()
        return MITIGATED

    world.transport.on_answer = seen
    agent = threading.Thread(
        target=run,
        args=[mill, CLASS, FIELD, handle],
        kwargs={"wanted": is_open, "stop": stop, "look_s": 600.0, "checkpoint": "progress"},
    )
    agent.start()
    assert waiting.wait(WAIT_S_MAX)
    watch.records.put("incidents/inc-2", "status", "open")
    agent.join(WAIT_S_MAX)

    assert handled == [RECORD, "incidents/inc-2"]


# --- agents that are frozen and killed -------------------------------------------------------------------------------


@contextmanager
def agent_process(server: str, token: str) -> Iterator[subprocess.Popen[str]]:
    """Run `batonpass.testing.remediator` until the end of the block."""
    argv = [sys.executable, "-m", "batonpass.testing.remediator", server, token]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_agents_that_are_frozen_or_killed_are_taken_over_where_they_left_off(
    database_url: str, portal: BlockingPortal, tmp_path: Path
) -> None:
    clock = SharedClock(tmp_path / "clock")
    store = portal.call(functools.partial(open_store, database_url, clock=clock))
    _, secret = portal.call(functools.partial(bootstrap, store, name="Ada Admin", email="ada@example.org"))
    portal.call(store.close)
    with server_process(database_url, clock=clock) as server, Client(server.url, secret.reveal()) as admin:
        admin.put_class(CLASS, INCIDENTS)
        tokens = {
            name: admin.mint_standing_token(agent_id_for(admin.add_agent(label=name).id), label="tests").token
            for name in ("killed", "frozen", "last")
        }
        with Client(server.url, tokens["last"]) as last:
            last.records.put(RECORD, "status", "open")
            with agent_process(server.url, tokens["killed"]) as killed:
                assert line_of(killed) == "step 1"
                killed.kill()
                killed.wait(WAIT_S_MAX)
            clock.advance(LEASE)

            with agent_process(server.url, tokens["frozen"]) as frozen:
                assert line_of(frozen) == "step 2"
                frozen.send_signal(signal.SIGSTOP)
                clock.advance(LEASE)

                steps: list[object] = []

                def finish(task: HeldTask) -> Finish:
                    steps.extend([task.checkpoint, task.took_over_from])
                    return Finish(put={"status": f"mitigated by {task.owner}"}, checkpoint=3)

                assert run(last, CLASS, FIELD, finish, checkpoint="progress", once=True) == Tally(done=1)
                assert steps == [2, "agent:agent-frozen"]

                frozen.send_signal(signal.SIGCONT)
                go_on(frozen)
                assert line_of(frozen) == str(Tally(lost=1))

            record = last.records.get(RECORD)
            assert (record.value("status"), record.value("progress")) == ("mitigated by agent:agent-last", 3)
            story = [
                (entry.verb, entry.author, entry.took_over_from)
                for entry in reversed(last.records.history(RECORD).entries)
                if entry.field == FIELD
            ]
            assert story == [
                ("claim", "agent:agent-killed", None),
                ("takeover", "agent:agent-frozen", "agent:agent-killed"),
                ("takeover", "agent:agent-last", "agent:agent-frozen"),
                ("release", "agent:agent-last", None),
            ]
