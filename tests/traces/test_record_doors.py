"""Every door under a fence on a record's task, against that task's takeover: never both (D2a, D33, D44; H3).

What is written is a record's or the graph's; the fence is a premise by version
or by epoch, the If-Lease header, or a run's token that was minted for the
tenure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import cycle, product
from typing import Any, Final

import pytest

from batonpass.store import queries
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, task, waits
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

LEASE: Final = timedelta(seconds=300)
CLASS: Final = {
    "fields": {
        "status": {"type": "register"},
        "actions": {"type": "append"},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task", "lease": "300s"},
    },
    "roles": {"all": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}},
}
SHA: Final = "0123456789abcdef0123456789abcdef01234567"
UNDER_THE_LOCK: Final = {
    "postgres": ("lease.locked", "fence.checked", "commit.sent"),
    "sqlite": ("member.begun", "lease.locked", "fence.checked"),
}
OF_A_TAKEOVER: Final = {
    "postgres": ("lease.locked", "lease.clock_read", "lease.decided", "lease.written", "commit.sent"),
    "sqlite": ("member.begun", "lease.locked", "lease.clock_read", "lease.decided", "lease.written"),
}
BEFORE_THE_LOCK: Final = {"postgres": "tx.begun"}


@dataclass(frozen=True)
class Writer:
    """Who writes under the fence of its tenure on the task `remediation` of `record`, and how the fence is named."""

    team: Crew
    record: str
    who: str = "a1"
    premise: Mapping[str, object] | None = None
    headers: Mapping[str, str] | None = None

    @property
    def item(self) -> str:
        """A node of its own, for what is written to the graph."""
        return f"task-{self.record.rpartition('/')[2]}"

    async def of_record(self, method: str, rest: str, body: Mapping[str, object]) -> Answer:
        based_on = {"based_on": [self.premise]} if self.premise is not None else {}
        path = f"/v1/records/{self.record}{rest}"
        return await self.team.send(self.who, method, path, {**body, **based_on}, headers=self.headers)

    async def claim(self, field: str = "remediation", **body: object) -> Answer:
        return await self.of_record("PUT", f"/fields/{field}/claim", body)

    async def of_graph(self, path: str, **body: object) -> Answer:
        return await self.team.send(self.who, "POST", f"/v1/{path}", {**body, **self._on_task()}, headers=self.headers)

    def _on_task(self) -> dict[str, object]:
        """Return the premise as bodies of the graph have it, with the record in its name."""
        if self.premise is None:
            return {}
        return {"based_on": [{**self.premise, "field": f"record:{self.record}#{self.premise['field']}"}]}

    async def of_item(self, verb: str, **body: object) -> Answer:
        return await self.of_graph(f"nodes/{self.item}/{verb}", **body)


Door = Callable[[Writer], Coroutine[None, None, Answer]]
WRITES: Final[dict[str, Door]] = {
    "put": lambda by: by.of_record("PUT", "/fields/status", {"value": 1}),
    "append": lambda by: by.of_record("POST", "/fields/actions", {"value": 1}),
    "batch": lambda by: by.of_record(
        "POST", "", {"writes": [{"field": "status", "put": 1}, {"field": "actions", "append": 1}]}
    ),
    "claim another": lambda by: by.claim("review"),
    "renew another": lambda by: by.claim("review", renew=True),
}
KEEPS: Final[dict[str, Door]] = {"claim again": lambda by: by.claim(), "renew": lambda by: by.claim(renew=True)}
"""What goes on with the tenure itself: who comes after it finds the task held."""
ENDS: Final[dict[str, Door]] = {
    "release": lambda by: by.claim(lease_seconds=0),
    "delete": lambda by: by.of_record("DELETE", "", {}),
}
"""What ends the tenure itself: who comes after it finds the task free, and displaces nobody."""
GRAPH: Final[dict[str, Door]] = {
    "put over": lambda by: by.of_graph("nodes", nodes=[task(by.item, body="was here")], if_exists="update"),
    "put new": lambda by: by.of_graph("nodes", nodes=[task(f"{by.item}-new")]),
    "add an edge": lambda by: by.of_item("edges", type="relates-to", to="task-1"),
    "status": lambda by: by.of_item("status", status="open"),
    "priority": lambda by: by.of_item("priority", priority="p1"),
    "readiness": lambda by: by.of_item("readiness", readiness="agent"),
    "commits": lambda by: by.of_item("commits", repo="mail", sha=SHA),
    "ask": lambda by: by.of_graph("questions", text=f"What of {by.record}?", mentions=[by.item]),
    "correct": lambda by: by.of_graph("corrections", target=by.item, text="It is not so."),
    "capture": lambda by: by.of_graph("capture", text=f"Seen at {by.record}.", during=by.item),
}
LEASES: Final[dict[str, Door]] = {
    "claim an item": lambda by: by.of_item("claim"),
    "claim many": lambda by: by.of_graph("queue/claim", ids=[by.item]),
    "next": lambda by: by.of_graph("queue/next", accept="open", candidates=[by.item]),
}
"""These take no premise in their bodies."""


async def by_version(team: Crew, record: str, held: Mapping[str, Any]) -> Writer:
    return Writer(team, record, premise={"kind": "fence", "field": "remediation", "version": held["version"]})


async def by_epoch(team: Crew, record: str, held: Mapping[str, Any]) -> Writer:
    return Writer(team, record, premise={"kind": "fence", "field": "remediation", "epoch": held["epoch"]})


async def by_header(team: Crew, record: str, held: Mapping[str, Any]) -> Writer:
    return Writer(team, record, headers={"If-Lease": f"record:{record}#remediation; epoch={held['epoch']}"})


async def by_token(team: Crew, record: str, held: Mapping[str, Any]) -> Writer:
    tenure = {"record": record, "field": "remediation", "epoch": held["epoch"]}
    minted = await team.send("a1", "POST", "/v1/agents/agent-a1/token", {"lease": tenure})
    assert minted.ok, minted
    return Writer(team, record, who=team.known(minted.body["token"]))


Fencing = Callable[[Crew, str, Mapping[str, Any]], Awaitable[Writer]]
PREMISES: Final = [by_version, by_epoch]
OF_THE_REQUEST: Final = [by_header, by_token]
"""Fences that any door takes."""


def doors_of(fencing: Fencing) -> dict[str, Door]:
    """Return the doors that take the fence: the graph knows no versions, and no run ends its own tenure (D2b)."""
    graph = GRAPH if fencing is not by_version else {}
    leases = LEASES if fencing in OF_THE_REQUEST else {}
    return {**WRITES, **KEEPS, **(ENDS if fencing is not by_token else {}), **graph, **leases}


@pytest.fixture
async def team(team: Crew) -> Crew:
    """The crew, with the class in force."""
    return await with_class(team)


async def with_class(team: Crew) -> Crew:
    await team.server.ask("PUT", "/v1/classes/incidents", CLASS)
    return team


async def claimed(team: Crew, who: str, record: str, *, at: int = 0, **body: object) -> Answer:
    return await team.send(who, "PUT", f"/v1/records/{record}/fields/remediation/claim", body, at=at)


async def held_by_a1(team: Crew, fencing: Fencing, count: int) -> list[Writer]:
    """Let a1 hold the tasks of so many records; each has a node beside it, and a second task that was free before."""

    async def begun(record: str) -> Writer:
        for body in ({}, {"lease_seconds": 0}):
            assert (await team.send("a1", "PUT", f"/v1/records/{record}/fields/review/claim", body)).ok
        held = await claimed(team, "a1", record)
        assert held.ok, held
        return await fencing(team, record, held.body)

    writers = await asyncio.gather(*(begun(f"incidents/inc-{n}") for n in range(count)))
    assert (await team.write("ada", *(task(writer.item) for writer in writers))).ok
    return writers


def stopped_at(stops: Sequence[str], doors: Mapping[str, Door], fencing: Fencing) -> list[tuple[str, str]]:
    """Return at which point each door is stopped: at all of them under one fence, in turn under the others."""
    return list(product(stops, doors)) if fencing is by_version else list(zip(cycle(stops), doors, strict=False))


def assert_stale(answer: Answer, what: object) -> None:
    """Require the refusal of a fence that does not hold, as records and the graph have it."""
    error = answer.body["error"]
    assert answer.status == 409, (what, answer)
    assert error == "STALE_PREMISE" or error["code"] == "lease_lost", (what, answer)


def assert_came_after(door: str, taken: Answer, what: object) -> None:
    """Require of `taken`, a claim that waited for a write, that it found what the write left."""
    if door in KEEPS:
        assert (taken.status, taken.body["error"], taken.body["owner"]) == (409, "HELD", "agent:agent-a1"), what
    else:
        displaced = None if door in ENDS else "agent:agent-a1"
        assert (taken.status, taken.body.get("took_over_from")) == (200, displaced), (what, taken)


@pytest.mark.parametrize("fencing", [*PREMISES, *OF_THE_REQUEST])
async def test_wherever_a_door_is_stopped_under_its_lock_the_takeover_comes_after_it(
    team: Crew, clock: ManualClock, fencing: Fencing
) -> None:
    doors = doors_of(fencing)
    stops = stopped_at(UNDER_THE_LOCK[team.server.store.dialect], doors, fencing)
    writers = await held_by_a1(team, fencing, len(stops))
    clock.advance(LEASE)
    for (point, name), writer in zip(stops, writers, strict=True):
        async with points.held(point) as stopped:
            write = asyncio.create_task(doors[name](writer))
            await stopped.reached()
            takeover = asyncio.create_task(claimed(team, "b1", writer.record, at=1))
            await waits(team, takeover, at=1)
            assert not write.done(), (point, name)
            stopped.open()
            written, taken = await asyncio.gather(write, takeover)

        assert written.ok, (point, name, written)
        assert_came_after(name, taken, (point, name))


@pytest.mark.parametrize("fencing", [*PREMISES, *OF_THE_REQUEST])
async def test_wherever_a_takeover_is_stopped_under_its_lock_every_door_is_closed_after_it(
    team: Crew, clock: ManualClock, fencing: Fencing
) -> None:
    doors = doors_of(fencing)
    stops = stopped_at(OF_A_TAKEOVER[team.server.store.dialect], doors, fencing)
    writers = await held_by_a1(team, fencing, len(stops))
    clock.advance(LEASE)
    for (point, name), writer in zip(stops, writers, strict=True):
        async with points.held(point) as stopped:
            takeover = asyncio.create_task(claimed(team, "b1", writer.record, at=1))
            await stopped.reached()
            write = asyncio.create_task(doors[name](writer))
            await waits(team, write)
            assert not takeover.done(), (point, name)
            stopped.open()
            taken, written = await asyncio.gather(takeover, write)

        assert taken.body["took_over_from"] == "agent:agent-a1", (point, name, taken)
        assert_stale(written, (point, name))


@pytest.mark.parametrize("fencing", [*PREMISES, *OF_THE_REQUEST])
async def test_a_door_stopped_before_its_lock_is_closed_by_the_takeover(
    team: Crew, clock: ManualClock, fencing: Fencing
) -> None:
    if (point := BEFORE_THE_LOCK.get(team.server.store.dialect)) is None:
        pytest.skip("a SQLite member that has begun has the writer's turn: there is nothing before the lock")
    doors = doors_of(fencing)
    writers = await held_by_a1(team, fencing, len(doors))
    clock.advance(LEASE)
    before = beside_takeovers(team)
    for (name, door), writer in zip(doors.items(), writers, strict=True):
        async with points.held(point) as stopped:
            write = asyncio.create_task(door(writer))
            await stopped.reached()
            assert (await claimed(team, "b1", writer.record, at=1)).ok
            stopped.open()

            assert_stale(await write, name)
    assert beside_takeovers(team) == before


def beside_takeovers(team: Crew) -> dict[str, object]:
    """Return all that is in the database but what a takeover writes."""
    theirs = {"leases", "records", "record_log", "events"}
    return {name: rows for name, rows in contents(team.url).items() if name not in theirs}


async def test_a_task_that_is_held_locks_nothing_of_its_record_for_others(team: Crew) -> None:
    """What a claim is not: whoever may write a field writes it, and the holder's fence holds on (D33)."""
    (writer,) = await held_by_a1(team, by_version, 1)
    other = Writer(team, writer.record, who="b1")

    assert [(await WRITES[door](other)).status for door in ("put", "append", "batch", "claim another")] == [200] * 4
    assert (await WRITES["put"](writer)).ok


# --- what the locks are for ------------------------------------------------------------------------------------------


def unlocked(monkeypatch: pytest.MonkeyPatch, room: str) -> None:
    """Switch a rule off: what a transaction reads of the tables of `room` it reads as before, but holds nothing."""
    free = {
        name: replace(query, sql=re.sub(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?", "", query.sql))
        if name.startswith(f"{room}.")
        else query
        for name, query in queries.load("postgres").items()
    }
    monkeypatch.setattr(queries, "load", lambda _: free)


async def test_without_the_lock_of_the_lease_a_fenced_write_appears_after_the_takeover_was_answered(
    gathered_postgres: Gathered, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch, "leases")
    async with crew(gathered_postgres, clock=clock, servers=2) as free:
        team = await with_class(free)
        (writer,) = await held_by_a1(team, by_version, 1)
        clock.advance(LEASE)
        async with points.held("commit.sent") as sending:
            takeover = asyncio.create_task(claimed(team, "b1", writer.record, at=1))
            await sending.reached()
            write = asyncio.create_task(WRITES["put"](writer))
            await waits(team, write)  # for the record, with the lease read before
            sending.open()
            taken, late = await asyncio.gather(takeover, write)

    assert (taken.body["took_over_from"], late.ok) == ("agent:agent-a1", True)
    assert late.body["record_version"] > taken.body["record_version"]


async def test_without_the_lock_of_the_record_two_writes_of_it_are_decided_on_one_version(
    gathered_postgres: Gathered, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write still looks whether the row is as it was read: the one that comes late fails, and nothing is lost."""
    unlocked(monkeypatch, "records")
    async with crew(gathered_postgres, clock=clock, servers=2) as free:
        team = await with_class(free)
        (writer,) = await held_by_a1(team, by_version, 1)
        async with points.held("commit.sent") as sending:
            first = asyncio.create_task(WRITES["put"](writer))
            await sending.reached()
            path = f"/v1/records/{writer.record}/fields/status"
            second = await team.send("b1", "PUT", path, {"value": 2}, at=1)
            sending.open()
            late = await first

    assert (second.status, late.status, late.body["error"]) == (200, 500, "INTERNAL")
