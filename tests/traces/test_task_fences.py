"""A record's write under a fence and the takeover of its task: never both, wherever one is stopped (D33, D44; H3)."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, waits
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

LEASE: Final = timedelta(seconds=300)
CLASS: Final = {
    "fields": {
        "status": {"type": "register"},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task", "lease": "300s"},
    },
    "roles": {"all": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}},
}
RECORD: Final = "incidents/inc-1"
BEFORE_THE_LOCK: Final = {"postgres": "tx.begun"}
UNDER_THE_LOCK: Final = {
    "postgres": ("lease.locked", "fence.checked", "commit.sent"),
    "sqlite": ("member.begun", "lease.locked", "fence.checked"),
}
OF_A_TAKEOVER: Final = {
    "postgres": ("lease.locked", "batch.locked", "lease.clock_read", "lease.decided", "lease.written", "commit.sent"),
    "sqlite": ("member.begun", "lease.locked", "lease.clock_read", "lease.decided", "lease.written"),
}
AFTER_THE_LOCK: Final = {"postgres": "commit.returned"}


@pytest.fixture(autouse=True)
async def incidents(team: Crew) -> None:
    """The class in force."""
    await team.server.ask("PUT", "/v1/classes/incidents", CLASS)


async def sent(team: Crew, who: str, path: str, body: object, *, at: int = 0) -> httpx.Response:
    return await team.servers[at].send("PUT", f"/v1/records/{path}", body, token=team.tokens[who])


async def claim(
    team: Crew, who: str, record: str = RECORD, *, field: str = "remediation", at: int = 0, **body: object
) -> httpx.Response:
    return await sent(team, who, f"{record}/fields/{field}/claim", body, at=at)


async def claimed(team: Crew, who: str, record: str = RECORD) -> dict[str, Any]:
    answer = await claim(team, who, record)
    assert answer.is_success, answer.text
    return dict(answer.json())


async def put_under(team: Crew, who: str, held: dict[str, Any], record: str = RECORD) -> httpx.Response:
    """Put the status under the fence of a claim's reply."""
    fence = {"kind": "fence", "field": held["field"], "version": held["version"]}
    return await sent(team, who, f"{record}/fields/status", {"value": f"{who} was here", "based_on": [fence]})


def story(team: Crew, record: str = RECORD) -> list[tuple[object, ...]]:
    """Return a record's history: who did what."""
    rows = [row for row in contents(team.url)["record_log"] if f"{row[0]}/{row[1]}" == record]
    return [(row[4], row[5]) for row in sorted(rows, key=lambda row: int(str(row[2])))]


BOTH: Final = [("agent:agent-a1", "claim"), ("agent:agent-a1", "put"), ("agent:agent-b1", "takeover")]
ONLY_THE_TAKEOVER: Final = [("agent:agent-a1", "claim"), ("agent:agent-b1", "takeover")]


async def test_wherever_a_fenced_write_is_stopped_under_its_lock_the_takeover_comes_after_it(
    team: Crew, clock: ManualClock
) -> None:
    stops = UNDER_THE_LOCK[team.server.store.dialect]
    records = [f"incidents/inc-{number}" for number in range(len(stops))]
    held = [await claimed(team, "a1", record) for record in records]
    clock.advance(LEASE)
    for point, record, mine in zip(stops, records, held, strict=True):
        async with points.held(point) as stopped:
            write = asyncio.create_task(put_under(team, "a1", mine, record))
            await stopped.reached()
            takeover = asyncio.create_task(claim(team, "b1", record, at=1))
            await waits(team, takeover, at=1)
            stopped.open()
            written, taken = await asyncio.gather(write, takeover)

        assert (written.status_code, taken.json()["took_over_from"]) == (200, "agent:agent-a1"), point
        assert story(team, record) == BOTH, point


async def test_wherever_a_takeover_is_stopped_under_its_lock_the_fenced_write_after_it_is_refused(
    team: Crew, clock: ManualClock
) -> None:
    stops = OF_A_TAKEOVER[team.server.store.dialect]
    records = [f"incidents/inc-{number}" for number in range(len(stops))]
    held = [await claimed(team, "a1", record) for record in records]
    clock.advance(LEASE)
    for point, record, mine in zip(stops, records, held, strict=True):
        async with points.held(point) as stopped:
            takeover = asyncio.create_task(claim(team, "b1", record, at=1))
            await stopped.reached()
            write = asyncio.create_task(put_under(team, "a1", mine, record))
            await waits(team, write)
            stopped.open()
            taken, written = await asyncio.gather(takeover, write)

        assert (taken.status_code, written.json()["error"]) == (200, "STALE_PREMISE"), point
        assert story(team, record) == ONLY_THE_TAKEOVER, point


async def test_a_fenced_write_stopped_before_its_lock_is_refused_after_the_takeover(
    team: Crew, clock: ManualClock
) -> None:
    if (point := BEFORE_THE_LOCK.get(team.server.store.dialect)) is None:
        pytest.skip("a SQLite member that has begun has the writer's turn: there is nothing before the lock")
    mine = await claimed(team, "a1")
    clock.advance(LEASE)
    async with points.held(point) as stopped:
        write = asyncio.create_task(put_under(team, "a1", mine))
        await stopped.reached()
        assert (await claim(team, "b1", at=1)).is_success
        stopped.open()

        assert (await write).json()["error"] == "STALE_PREMISE"
    assert story(team) == ONLY_THE_TAKEOVER


async def test_a_fenced_write_whose_answer_is_stopped_holds_up_nobody(team: Crew, clock: ManualClock) -> None:
    if (point := AFTER_THE_LOCK.get(team.server.store.dialect)) is None:
        pytest.skip("SQLite frees the writer's turn and answers in one step")
    mine = await claimed(team, "a1")
    clock.advance(LEASE)
    async with points.held(point) as stopped:
        write = asyncio.create_task(put_under(team, "a1", mine))
        await stopped.reached()
        assert (await claim(team, "b1", at=1)).is_success
        stopped.open()

        assert (await write).is_success
    assert story(team) == BOTH


async def test_a_record_that_somebody_is_writing_holds_up_only_its_own_claims(team: Crew) -> None:
    if team.server.store.dialect != "postgres":
        pytest.skip("on SQLite writers take turns, whatever they write")
    mine, _ = await claimed(team, "a1"), await claimed(team, "b1", "incidents/inc-2")
    async with points.held("commit.sent") as stopped:
        write = asyncio.create_task(put_under(team, "a1", mine))
        await stopped.reached()
        same, other = (
            asyncio.create_task(claim(team, who, record, at=1, renew=True))
            for who, record in (("a1", RECORD), ("b1", "incidents/inc-2"))
        )
        assert (await other).json()["version"] == 2
        await waits(team, same, at=1)
        stopped.open()

        assert ((await write).status_code, (await same).json()["version"]) == (200, 2)


# --- what is not there yet -------------------------------------------------------------------------------------------


ALONE: Final = 2
"""A set leaves a first claim to a transaction of its own, which makes its rows: the second to arrive at a point."""


async def test_of_two_first_claims_of_a_task_the_second_waits_for_the_first_and_is_held(team: Crew) -> None:
    async with points.held("lease.written", nth=ALONE) as written:
        first = asyncio.create_task(claim(team, "a1"))
        await written.reached()
        second = asyncio.create_task(claim(team, "b1", at=1))
        await waits(team, second, at=1)
        written.open()
        won, lost = await asyncio.gather(first, second)

    assert (won.json()["owner"], lost.json()["error"]) == ("agent:agent-a1", "HELD")
    assert lost.json()["owner"] == "agent:agent-a1"


async def test_a_first_claim_that_is_taken_back_leaves_no_row_behind(team: Crew) -> None:
    with points.failing("lease.written", RuntimeError("the process is in trouble"), nth=ALONE):
        failed = await claim(team, "a1")

    assert (failed.status_code, failed.json()["error"]) == (500, "INTERNAL")
    assert contents(team.url)["records"] == []
    assert (await claim(team, "b1", at=1)).json()["version"] == 1


async def test_a_first_claim_breaks_the_premise_that_there_was_none_though_it_came_meanwhile(team: Crew) -> None:
    """The task named by the premise has no row to lock; the record's is waited for, and by then there is one."""
    await claimed(team, "a1")
    never = [{"field": "review", "version": 0}]
    async with points.held("lease.written", nth=ALONE) as written:
        first = asyncio.create_task(claim(team, "a1", field="review"))
        await written.reached()
        based = asyncio.create_task(claim(team, "a1", at=1, renew=True, based_on=never))
        await waits(team, based, at=1)
        written.open()
        won, lost = await asyncio.gather(first, based)

    assert (won.status_code, lost.json()["error"]) == (200, "STALE_PREMISE")
    assert lost.json()["premises"] == [{"field": "review", "expected": 0, "actual": 1, "owner": "agent:agent-a1"}]


# --- a crowd ---------------------------------------------------------------------------------------------------------


async def test_a_crowd_of_claims_and_writes_of_few_records_meets_no_deadlock_and_loses_no_version(team: Crew) -> None:
    chance = random.Random(4)  # noqa: S311  # the same draw in every run

    async def one() -> httpx.Response:
        record, field = f"incidents/inc-{chance.randrange(3)}", chance.choice(["remediation", "review"])
        based_on = [{"field": "review", "version": chance.randrange(4)}] if chance.random() < 0.3 else None
        body: dict[str, object] = {} if based_on is None else {"based_on": based_on}
        who, at = chance.choice(["a1", "a2", "b1", "b2"]), chance.randrange(2)
        match chance.randrange(4):
            case 0:
                return await sent(team, who, f"{record}/fields/status", {"value": 1, **body}, at=at)
            case 1:
                return await claim(team, who, record, field=field, at=at, lease_seconds=0, **body)
            case _:
                return await claim(team, who, record, field=field, at=at, renew=chance.random() < 0.5, **body)

    answers = [answer for _ in range(6) for answer in await asyncio.gather(*(one() for _ in range(25)))]

    assert {answer.status_code for answer in answers} <= {200, 409}
    told = [(answer.json()["record"], answer.json()["record_version"]) for answer in answers if answer.is_success]
    rows = {f"{row[0]}/{row[1]}": row[3] for row in contents(team.url)["records"]}
    assert {record: max(version for named, version in told if named == record) for record in rows} == rows
    for record, version in rows.items():
        assert {version for named, version in told if named == record} >= set(range(1, int(str(version)) + 1)) - {0}
