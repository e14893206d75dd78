"""What one caller can do to others: starve them, wait in their way, feed or take what is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from batonpass.store import postgres
from batonpass.store.base import q
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, Gathered, crew, task
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

WRITERS = 8
LOCK = "SELECT 1 FROM leases WHERE resource = %s FOR UPDATE"


async def test_a_run_that_writes_without_pause_does_not_keep_its_revocation_waiting(team: Crew) -> None:
    """Share locks would let each new write in past whoever waits to end the tenure."""
    await team.verb("a1", "claim")
    run = await team.mint("a1", "task-1", 1)
    under_way = asyncio.Event()
    landed = 0

    async def write_on() -> None:
        nonlocal landed
        while (await team.verb(run, "priority", priority="p1" if landed % 2 else "p2")).ok:
            landed += 1
            if landed >= WRITERS:
                under_way.set()

    writers = [asyncio.create_task(write_on()) for _ in range(WRITERS)]
    await asyncio.wait_for(under_way.wait(), 5)
    before = landed
    released = await asyncio.wait_for(team.verb("a1", "release", if_epoch=1), 5)
    await asyncio.gather(*writers)

    assert released.ok
    assert landed - before <= 10 * WRITERS, "one for each that stood in line, not one after another for ever"


async def test_ordinary_writers_of_a_node_do_not_keep_its_heartbeat_waiting(team: Crew) -> None:
    await team.verb("a1", "claim")
    writing = True

    async def write_on(number: int) -> None:
        while writing:
            assert (await team.verb("ann", "priority", priority=f"p{number % 3 + 1}")).ok

    writers = [asyncio.create_task(write_on(number)) for number in range(WRITERS)]
    for _ in range(5):
        assert (await asyncio.wait_for(team.verb("a1", "renew", if_epoch=1), 5)).ok
    writing = False
    await asyncio.gather(*writers)


async def test_a_row_that_is_stuck_costs_a_bulk_call_that_item_alone(
    gathered_postgres: Gathered, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_patience(monkeypatch)
    async with crew(gathered_postgres, clock=clock) as team, stuck(team.url, "task-2"):
        answer = await team.queue("a1", "claim", ids=["task-1", "task-2", "task-3"])

    assert answer.body["claimed"] == ["task-1", "task-3"]
    assert [(one["node_id"], one["code"]) for one in answer.body["failed"]] == [("task-2", "unavailable")]


async def test_a_row_that_is_stuck_leaves_the_server_to_everybody_else(
    gathered_postgres: Gathered, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_patience(monkeypatch)
    async with crew(gathered_postgres, clock=clock) as team, stuck(team.url, "task-1"):
        waiting = [asyncio.create_task(team.verb("a1", "claim", "task-1")) for _ in range(30)]
        await until_blocked(team.url)
        others = await asyncio.gather(
            team.verb("b1", "claim", "task-2"),
            team.send("b1", "GET", "/v1/nodes/task-1"),
            team.send("b1", "GET", "/v1/status"),
            team.verb("b1", "priority", "task-3", priority="p1"),
        )
        still = sum(not task.done() for task in waiting)
        answers = await asyncio.gather(*waiting)

    assert [answer.status for answer in others] == [200, 200, 200, 200]
    assert still > 0
    assert {answer.status for answer in answers} == {503}


async def test_a_heartbeat_feeds_only_what_its_caller_holds(team: Crew, clock: ManualClock) -> None:
    """A person whose lapsed claim an agent of theirs has taken over keeps nothing of that agent's alive."""
    await team.verb("ann", "claim")
    clock.advance(timedelta(minutes=46))
    taken = await team.verb("a1", "claim")
    clock.advance(timedelta(minutes=30))

    beat = await team.queue("ann", "renew")
    clock.advance(timedelta(minutes=15))

    assert beat.body["renewed"] == []
    assert [(one["node_id"], one["code"], one["holder"]["by"]) for one in beat.body["failed"]] == [
        ("task-1", "lease_lost", "agent-a1")
    ]
    assert taken.epoch == 2
    assert (await team.verb("b1", "claim")).epoch == 3, "it lapsed on time"


async def test_an_agent_does_not_give_itself_its_persons_lease(team: Crew) -> None:
    await team.verb("ann", "claim", session="s-9")
    await team.send("a1", "POST", "/v1/agents/session", {"session": "s-9"})

    for verb in ("renew", "claim", "release", "reserve"):
        assert (await team.verb("a1", verb)).holder == "person-ann", verb


async def test_the_limit_of_claims_holds_for_claims_at_once_and_for_reservations(team: Crew) -> None:
    await team.send("ada", "PUT", "/v1/policy/*", {"max_claims": 2})

    claims = await asyncio.gather(*(team.verb("a1", "claim", f"task-{number}") for number in range(1, 7)))
    nexts = await asyncio.gather(*(team.queue("b1", "next", accept="open") for _ in range(4)))
    await team.write("ada", *(task(f"task-new-{number}") for number in range(4)))
    reserved = [await team.verb("b2", "reserve", f"task-new-{number}") for number in range(4)]

    assert sum(answer.ok for answer in claims) == 2
    assert {answer.code for answer in claims if not answer.ok} == {"too_many_claims"}
    assert sum(answer.ok and answer.body["status"] == "claimed" for answer in nexts) == 2
    assert [answer.status for answer in reserved] == [200, 200, 409, 409]


def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction wait a quarter of a second for a lock."""
    limits = q("session.limits", lock_ms="250", statement_ms="20000", idle_ms="5000")
    monkeypatch.setattr(postgres, "LIMITS", limits)


@asynccontextmanager
async def stuck(url: str, node: str) -> AsyncIterator[None]:
    """Hold one lease row locked in a transaction of somebody else's while the block runs."""
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute(LOCK, [node])
        yield
        await other.rollback()
