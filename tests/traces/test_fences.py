"""A tenure that is over writes nothing, through any door and in any interleaving (D2a, D2b, D20a; H3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pytest

from batonpass.store import queries
from batonpass.store.events import events_after
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, task, waits
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

TTL: Final = timedelta(minutes=45)
SHA: Final = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Writer:
    """Somebody who writes on `node` under a fence: a run by its token, or an agent that names its tenure."""

    team: Crew
    who: str
    node: str = "task-1"
    headers: Mapping[str, str] | None = None
    at: int = 0

    async def verb(self, verb: str, body: object) -> Answer:
        return await self.send("POST", f"/v1/nodes/{self.node}/{verb}", body)

    async def send(self, method: str, path: str, body: object) -> Answer:
        return await self.team.send(self.who, method, path, body, at=self.at, headers=self.headers)

    async def put(self, *nodes: object) -> Answer:
        return await self.send("POST", "/v1/nodes", {"nodes": nodes, "if_exists": "update"})

    def report(self, **more: object) -> dict[str, object]:
        return {"id": f"art-{self.node}", "type": "artifact", "title": "report", "summary": "what was done", **more}


Fencing = Callable[[Crew, str], Awaitable[Writer]]
Door = Callable[[Writer], Coroutine[None, None, Answer]]
GRAPH: Final[dict[str, Door]] = {
    "put over": lambda by: by.put(task(by.node, body="the zombie was here")),
    "put new": lambda by: by.put(by.report()),
    "put a resolver": lambda by: by.put(by.report(edges=[{"type": "resolves", "to": by.node}])),
    "add an edge": lambda by: by.verb("edges", {"type": "relates-to", "to": f"{by.node}-c"}),
    "remove an edge": lambda by: by.send(
        "DELETE", f"/v1/nodes/{by.node}/edges", {"type": "relates-to", "to": f"{by.node}-b"}
    ),
    "status": lambda by: by.verb("status", {"status": "open"}),
    "status that claims": lambda by: by.verb("status", {"status": "active"}),
    "priority": lambda by: by.verb("priority", {"priority": "p1"}),
    "readiness": lambda by: by.verb("readiness", {"readiness": "agent"}),
    "commits": lambda by: by.verb("commits", {"repo": "mail", "sha": SHA}),
}
LEASES: Final[dict[str, Door]] = {
    "renew": lambda by: by.verb("renew", {}),
    "extend": lambda by: by.verb("extend", {"ms": 60_000}),
    "claim again": lambda by: by.verb("claim", {}),
    "claim another": lambda by: by.send("POST", f"/v1/nodes/{by.node}-b/claim", {}),
    "claim many": lambda by: by.send("POST", "/v1/queue/claim", {"ids": [f"{by.node}-b", f"{by.node}-c"]}),
    "renew many": lambda by: by.send("POST", "/v1/queue/renew", {"ids": [by.node, f"{by.node}-b"]}),
    "renew held": lambda by: by.send("POST", "/v1/queue/renew", {}),
    "release held": lambda by: by.send("POST", "/v1/queue/release", {}),
    "next": lambda by: by.send("POST", "/v1/queue/next", {"accept": "open", "candidates": [f"{by.node}-b"]}),
}
DOORS: Final = {**GRAPH, **LEASES}
ITEMS: Final = {name: f"task-door-{number}" for number, name in enumerate(DOORS)}
"""An item of its own for each door, so that one's write is not another's beginning."""


async def taken_over(team: Crew, clock: ManualClock) -> None:
    clock.advance(TTL)
    assert (await team.verb("b1", "claim")).ok


async def taken_away(team: Crew, clock: ManualClock) -> None:
    del clock
    assert (await team.verb("ada", "claim", take=True, reason="it hangs")).ok


async def released(team: Crew, clock: ManualClock) -> None:
    del clock
    assert (await team.verb("a1", "release")).ok


async def released_by_its_owner(team: Crew, clock: ManualClock) -> None:
    del clock
    assert (await team.verb("ann", "release")).ok


async def revoked_by_an_admin(team: Crew, clock: ManualClock) -> None:
    del clock
    assert (await team.verb("ada", "release", reason="it hangs")).ok


async def reserved(team: Crew, clock: ManualClock) -> None:
    del clock
    assert (await team.verb("a1", "reserve")).ok


async def reserved_and_taken_up(team: Crew, clock: ManualClock) -> None:
    await reserved(team, clock)
    assert (await team.verb("a1", "claim", dispatch="u2")).ok


ENDINGS: Final = [
    taken_over,
    taken_away,
    released,
    released_by_its_owner,
    revoked_by_an_admin,
    reserved,
    reserved_and_taken_up,
]


@pytest.fixture(autouse=True)
async def items(team: Crew) -> None:
    """Let a1 hold task-1 and an item for each door, each related to a neighbour."""
    held = ["task-1", *ITEMS.values()]
    family = [
        task(f"{item}{suffix}", edges=[] if suffix else [{"type": "relates-to", "to": f"{item}-b"}])
        for item in held
        for suffix in ("-b", "-c", "")
    ]
    assert (await team.write("ada", *family, if_exists="update")).ok
    assert (await team.queue("a1", "claim", ids=held)).body["status"] == "claimed"


async def run_of(team: Crew, node: str = "task-1", *, at: int = 0) -> Writer:
    return Writer(team, await team.mint("a1", node, 1), node, at=at)


async def named_by(team: Crew, node: str = "task-1") -> Writer:
    return Writer(team, "a1", node, headers={"If-Lease": f"{node}; epoch=1"})


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: str(end.__name__))
async def test_a_run_whose_tenure_is_over_writes_nothing_through_any_door(
    team: Crew, clock: ManualClock, end: Callable[[Crew, ManualClock], Awaitable[None]]
) -> None:
    zombie = await run_of(team)
    await end(team, clock)

    await assert_refused(team, zombie, DOORS)


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: str(end.__name__))
async def test_a_writer_that_names_its_tenure_writes_nothing_once_it_is_over(
    team: Crew, clock: ManualClock, end: Callable[[Crew, ManualClock], Awaitable[None]]
) -> None:
    zombie = await named_by(team)
    await end(team, clock)

    await assert_refused(team, zombie, GRAPH)


async def test_a_replaced_run_token_writes_nothing_through_a_server_that_remembers_it(team: Crew) -> None:
    first = await run_of(team, at=1)
    assert (await first.verb("priority", {"priority": "p2"})).ok, "the second server knows it now"
    await team.mint("a1", "task-1", 1, replace=True)

    await assert_refused(team, first, DOORS)


async def test_a_revoked_run_token_writes_nothing_through_a_server_that_remembers_it(team: Crew) -> None:
    run = await run_of(team, at=1)
    assert (await run.verb("priority", {"priority": "p2"})).ok, "the second server knows it now"
    assert (await team.revoke("ann", run.who, of="a1")).ok

    await assert_refused(team, run, DOORS)
    assert (await run_at(run, 0).verb("priority", {"priority": "p1"})).status == 401


def run_at(run: Writer, at: int) -> Writer:
    return Writer(run.team, run.who, run.node, at=at)


async def assert_refused(team: Crew, zombie: Writer, doors: Mapping[str, Door]) -> None:
    """Try each of `doors`: every answer is `lease_lost`, and the database is as it was, to the byte."""
    before = contents(team.url)

    answers = {name: await door(zombie) for name, door in doors.items()}

    assert {name: answer.code for name, answer in answers.items()} == dict.fromkeys(answers, "lease_lost")
    assert contents(team.url) == before


async def test_a_lapse_that_nobody_used_costs_a_writer_nothing(team: Crew, clock: ManualClock) -> None:
    runs = {name: await run_of(team, node) for name, node in ITEMS.items()}
    clock.advance(TTL * 2)

    for name, door in DOORS.items():
        assert (await door(runs[name])).ok, name


async def test_a_refusal_names_who_holds_the_item_now(team: Crew, clock: ManualClock) -> None:
    zombie = await run_of(team)
    await taken_over(team, clock)

    for name in ("status", "renew", "put over"):
        assert (await DOORS[name](zombie)).holder == "agent-b1", name


# --- H3: a write and a takeover, statement by statement --------------------------------------------------------------


@pytest.mark.parametrize("fence", [run_of, named_by])
async def test_h3_a_takeover_waits_for_every_write_that_passed_its_fence(
    team: Crew, clock: ManualClock, fence: Fencing
) -> None:
    """Each door in turn: its write has locked and compared its fence; then somebody takes the item over."""
    doors = DOORS if fence is run_of else GRAPH
    writers = {name: await fence(team, ITEMS[name]) for name in doors}
    clock.advance(TTL)
    for name, door in doors.items():
        node, writer = ITEMS[name], writers[name]
        async with points.held("fence.checked") as checked:
            write = asyncio.create_task(door(writer))
            await checked.reached()
            takeover = asyncio.create_task(team.verb("ann", "claim", node, at=1, take=True, force=True))
            await waits(team, takeover, at=1)
            assert not write.done(), name
            checked.open()
            written, taken = await asyncio.gather(write, takeover)

        assert written.ok, (name, written)
        assert taken.body["took_over_from"] == "agent-a1", (name, taken)
        assert (await kinds_of(team, node))[-1] == "lease.taken_over", name


@pytest.mark.parametrize("fence", [run_of, named_by])
async def test_h3_a_write_waits_for_the_takeover_that_came_first_and_is_refused(
    team: Crew, clock: ManualClock, fence: Fencing
) -> None:
    doors = DOORS if fence is run_of else GRAPH
    writers = {name: await fence(team, ITEMS[name]) for name in doors}
    clock.advance(TTL)
    for name, door in doors.items():
        node, writer = ITEMS[name], writers[name]
        async with points.held("lease.decided") as decided:
            takeover = asyncio.create_task(team.verb("b1", "claim", node, at=1))
            await decided.reached()
            write = asyncio.create_task(door(writer))
            await waits(team, write)
            assert not takeover.done(), name
            decided.open()
            taken, written = await asyncio.gather(takeover, write)

        assert taken.epoch == 2, (name, taken)
        assert written.code == "lease_lost" or written.body["count"] == 0, (name, written)
        assert (await kinds_of(team, node))[-1] == "lease.taken_over", name


async def kinds_of(team: Crew, node: str) -> list[str]:
    """Return what the feed says happened to `node`, in order."""
    async with team.server.store.read() as tx:
        return [event.kind for event in await events_after(tx, 0, most=10_000) if event.node == node]


BEFORE_THE_LOCK: Final = {"postgres": "tx.begun"}
UNDER_THE_LOCK: Final = {
    "postgres": ("lease.locked", "fence.checked", "edge.written", "event.written", "commit.sent"),
    "sqlite": ("member.begun", "lease.locked", "fence.checked", "edge.written", "event.written"),
}
AFTER_THE_LOCK: Final = {"postgres": "commit.returned"}


async def test_h3_wherever_a_write_is_stopped_under_its_lock_the_takeover_comes_after_it(
    team: Crew, clock: ManualClock
) -> None:
    stops = UNDER_THE_LOCK[team.server.store.dialect]
    runs = [await run_of(team, node) for node in list(ITEMS.values())[: len(stops)]]
    clock.advance(TTL)
    for point, run in zip(stops, runs, strict=True):
        async with points.held(point) as stopped:
            write = asyncio.create_task(run.verb("priority", {"priority": "p1"}))
            await stopped.reached()
            takeover = asyncio.create_task(team.verb("b1", "claim", run.node, at=1))
            await waits(team, takeover, at=1)
            stopped.open()
            written, taken = await asyncio.gather(write, takeover)

        assert (written.ok, taken.ok) == (True, True), point
        assert (await kinds_of(team, run.node))[-2:] == ["node.priority", "lease.taken_over"], point


async def test_h3_a_write_stopped_before_its_lock_is_refused_after_the_takeover(team: Crew, clock: ManualClock) -> None:
    if (point := BEFORE_THE_LOCK.get(team.server.store.dialect)) is None:
        pytest.skip("a SQLite member that has begun has the writer's turn: there is nothing before the lock")
    run = await run_of(team)
    clock.advance(TTL)
    async with points.held(point) as stopped:
        write = asyncio.create_task(run.verb("priority", {"priority": "p1"}))
        await stopped.reached()
        assert (await team.verb("b1", "claim", at=1)).epoch == 2
        stopped.open()

        assert (await write).code == "lease_lost"


async def test_h3_a_write_whose_answer_is_stopped_holds_up_nobody(team: Crew, clock: ManualClock) -> None:
    if (point := AFTER_THE_LOCK.get(team.server.store.dialect)) is None:
        pytest.skip("SQLite frees the writer's turn and answers in one step")
    run = await run_of(team)
    clock.advance(TTL)
    async with points.held(point) as stopped:
        write = asyncio.create_task(run.verb("priority", {"priority": "p1"}))
        await stopped.reached()
        assert (await team.verb("b1", "claim", at=1)).epoch == 2
        stopped.open()

        assert (await write).ok
    assert (await kinds_of(team, "task-1"))[-2:] == ["node.priority", "lease.taken_over"]


# --- what the lock is for --------------------------------------------------------------------------------------------


async def test_without_its_lock_the_late_write_appears_after_the_takeover_was_answered(
    gathered_postgres: Gathered, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule switched off: the fence is read and compared as before, but nothing holds it to the COMMIT."""
    unlocked = {
        name: replace(query, sql=re.sub(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?", "", query.sql))
        for name, query in queries.load("postgres").items()
    }
    monkeypatch.setattr(queries, "load", lambda _: unlocked)
    async with crew(gathered_postgres, clock=clock, servers=2) as team:
        await team.verb("a1", "claim")
        zombie = await run_of(team)
        clock.advance(TTL)
        async with points.held("fence.checked") as checked:
            write = asyncio.create_task(zombie.verb("commits", {"repo": "mail", "sha": SHA}))
            await checked.reached()
            assert (await team.verb("b1", "claim", at=1)).epoch == 2
            read = (await team.send("b1", "GET", "/v1/nodes/task-1")).body
            checked.open()

            assert (await write).ok
        assert (await team.send("b1", "GET", "/v1/nodes/task-1")).body != read
