"""Requests that travel together: no false loss and no deadlock between two servers (D44; H16), bulk calls (D7)."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Final

import psycopg
import pytest

from batonpass.core.errors import BatonError
from batonpass.core.identity import Principal
from batonpass.core.ids import Resource
from batonpass.core.leases import Request, Verb
from batonpass.server.services.asks import Ask
from batonpass.server.services.engine import Done, LeaseEngine, Outcome
from batonpass.store.base import Fences
from batonpass.testing.crew import Crew, task, waits

pytestmark = pytest.mark.anyio

NODES: Final = [f"task-h16-{n}" for n in range(300)]
RENEWERS: Final = 256
ROUNDS: Final = 5


@pytest.fixture
async def holder(team: Crew) -> Principal:
    """Agent a1, who holds three hundred items at epoch 1."""
    assert (await team.send("ada", "PUT", "/v1/policy/*", {"max_claims": 1000})).ok
    for first in range(0, len(NODES), 100):
        chunk = NODES[first : first + 100]
        assert (await team.write("ada", *(task(node) for node in chunk))).ok
        assert (await team.queue("a1", "claim", ids=chunk)).body["status"] == "claimed"
    return await team.server.services.identity.authenticate(team.tokens["a1"])


def renewal(holder: Principal, node: str, *, session: str | None = None) -> Ask:
    resource = Resource(node)
    request = Request(holder, Verb.RENEW, resource, session=session, if_epoch=1, reclaim=False)
    return Ask(request, Fences(changing=frozenset({resource})))


async def renew_each(engine: LeaseEngine, holder: Principal, nodes: list[str]) -> list[Outcome]:
    """Send a renewal of each of `nodes` at once, as that many workers do."""
    answers = await asyncio.gather(*(engine.decide([renewal(holder, node)]) for node in nodes))
    return [outcome for (outcome,) in answers]


async def test_h16_no_renewal_is_lost_to_another_set_a_duplicate_or_a_poison(team: Crew, holder: Principal) -> None:
    chance = random.Random(16)  # noqa: S311  # the same draw in every run
    engines = [server.services.engine for server in team.servers]
    poison = renewal(holder, NODES[0], session="nul\0")

    for _ in range(ROUNDS):
        batches = [[chance.choice(NODES) for _ in range(RENEWERS)] for _ in engines]
        poisoned = [asyncio.create_task(engine.decide([poison])) for engine in engines]
        answers = await asyncio.gather(
            *(renew_each(engine, holder, batch) for engine, batch in zip(engines, batches, strict=True))
        )
        await asyncio.wait(poisoned)

        lost = [outcome for batch in answers for outcome in batch if isinstance(outcome, BatonError)]
        assert lost == []
        for batch, outcomes in zip(batches, answers, strict=True):
            assert len(set(batch)) < len(batch), "some were asked for twice"
            done = [outcome for outcome in outcomes if isinstance(outcome, Done)]
            assert [outcome.granted.lease.resource for outcome in done] == batch
            assert {outcome.granted.lease.epoch for outcome in done} == {1}
        if team.server.store.dialect == "postgres":
            assert all(task.exception() is not None for task in poisoned), "no text of PostgreSQL's holds a NUL"
    if team.server.store.dialect == "postgres":
        await assert_no_deadlock(team)


async def assert_no_deadlock(team: Crew) -> None:
    async with await psycopg.AsyncConnection.connect(team.url, autocommit=True) as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        cursor = await connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert await cursor.fetchone() == (0,)


async def test_h16_a_row_that_a_slow_transaction_holds_keeps_no_other_renewal_waiting(
    team: Crew, holder: Principal
) -> None:
    if team.server.store.dialect == "sqlite":
        pytest.skip("one writer at a time: a slow transaction holds up everybody, and the next test says for how long")
    engine = team.server.services.engine
    async with AsyncExitStack() as stack:
        slow = await stack.enter_async_context(await psycopg.AsyncConnection.connect(team.url))
        await slow.execute("SELECT 1 FROM leases WHERE resource = %s FOR UPDATE", [NODES[7]])
        held_up = asyncio.create_task(engine.decide([renewal(holder, NODES[7])]))
        await waits(team, held_up)

        others = await renew_each(engine, holder, [node for node in NODES[:256] if node != NODES[7]])

        assert all(isinstance(outcome, Done) for outcome in others)
        assert not held_up.done()
    (outcome,) = await held_up
    assert isinstance(outcome, Done)


async def test_h16_writers_that_stand_on_each_others_rows_do_not_deadlock(team: Crew, holder: Principal) -> None:
    """Each changes one row and stands on the next: in order of resource, whoever asks for which."""
    del holder
    nodes = [f"task-{n}" for n in range(1, 5)]
    await team.queue("a1", "claim", ids=nodes)

    answers = await asyncio.gather(
        *(
            team.verb(
                "a1",
                "status",
                node,
                at=turn % 2,
                headers={"If-Lease": f"{nodes[(place + turn) % 4]}; epoch=1"},
                status="active",
            )
            for turn in range(1, 9)
            for place, node in enumerate(nodes)
        )
    )

    assert {answer.status for answer in answers} == {200}
    if team.server.store.dialect == "postgres":
        await assert_no_deadlock(team)


# --- bulk (D7, case 36) ----------------------------------------------------------------------------------------------


async def test_case_36_duplicates_count_once_and_each_failure_has_its_own_code(team: Crew) -> None:
    await team.verb("b1", "claim", "task-2")

    answer = await team.queue("a1", "claim", ids=["task-1", "task-1", "task-missing", "task-2", "agent-a1"])

    body = answer.body
    assert (body["ok"], body["status"], body["count"], body["claimed"]) == (True, "partial", 1, ["task-1"])
    assert [lease["node_id"] for lease in body["leases"]] == ["task-1"]
    assert {one["node_id"]: one["code"] for one in body["failed"]} == {
        "task-missing": "not_found",
        "task-2": "already_claimed",
        "agent-a1": "invalid_node",
    }
    assert body["expires_in_ms"] == 45 * 60_000
    (held,) = [one for one in body["failed"] if one["node_id"] == "task-2"]
    assert held["holder"]["by"] == "agent-b1"


@pytest.mark.parametrize("ids", [["task-1", ""], ["task-1", 7], ["TASK-1"], ["task-1\0"], [None], [["task-1"]], []])
async def test_case_36_a_malformed_member_refuses_the_whole_call_and_claims_nothing(
    team: Crew, ids: list[object]
) -> None:
    answer = await team.queue("a1", "claim", ids=ids)

    assert answer.status == 422
    assert answer.body["error"]["field"].startswith("ids")
    assert (await team.row("task-1")).epoch == 0


async def test_case_36_a_call_without_ids_has_nothing_to_claim(team: Crew) -> None:
    assert (await team.queue("a1", "claim")).status == 422


async def test_d7_two_hundred_different_ids_are_the_most_however_often_each_is_named(team: Crew) -> None:
    ids = [f"task-none-{n}" for n in range(200)]

    assert len((await team.queue("a1", "claim", ids=[*ids, *ids])).body["failed"]) == 200
    refused = await team.queue("a1", "claim", ids=[*ids, "task-none-200"])

    assert refused.status == 422
    assert "200" in refused.body["error"]["message"]


async def test_a_bulk_call_in_which_nothing_landed_names_no_horizon(team: Crew) -> None:
    refused = await team.queue("a1", "claim", ids=["task-none"])
    empty = await team.queue("a1", "renew")

    assert (refused.body["status"], "expires_in_ms" in refused.body) == ("refused", False)
    assert (empty.body["renewed"], "expires_in_ms" in empty.body) == ([], False)
