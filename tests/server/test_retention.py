"""What is past its retention goes; what somebody may still need stays (D11, D43)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest

from batonpass.core.tokens import Secret, hash_of
from batonpass.server.services import retention
from batonpass.store import events, tokens
from batonpass.store import retention as rows
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import failing
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def test_a_repetition_past_a_day_is_a_new_request_and_its_reply_is_gone(
    server: InProcessServer, clock: ManualClock
) -> None:
    body = {"nodes": [{"id": "task-a", "type": "task", "title": "A", "summary": "A"}]}
    first = await server.ask("POST", "/v1/nodes", body, idempotency_key="k1")
    clock.advance(timedelta(hours=23))
    await retention.sweep(server.store)
    replayed = await server.send("POST", "/v1/nodes", body, headers={"Idempotency-Key": "k1"})

    clock.advance(timedelta(hours=2))
    await retention.sweep(server.store)
    again = await server.send("POST", "/v1/nodes", body, headers={"Idempotency-Key": "k1"})

    assert replayed.headers["Idempotency-Replayed"] == "true"
    assert replayed.json() == first
    assert "Idempotency-Replayed" not in again.headers
    assert again.json()["results"][0]["status"] == "skipped", "it was carried out, and found the node there"


async def test_events_are_kept_thirty_days(server: InProcessServer, clock: ManualClock) -> None:
    async with server.store.read() as tx:
        before = await events.events_after(tx, 0, most=100)
    clock.advance(timedelta(days=31))
    await server.ask("POST", "/v1/nodes", {"nodes": [{"id": "task-a", "type": "task", "title": "A", "summary": "A"}]})

    await retention.sweep(server.store)

    async with server.store.read() as tx:
        after = await events.events_after(tx, 0, most=100)
    assert before
    assert [event.node for event in after] == ["task-a"]


PORTION: Final = 3


@pytest.fixture
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one transaction remove few rows."""
    monkeypatch.setattr(rows, "ROWS_MAX", PORTION)


@pytest.mark.usefixtures("_small_portions")
async def test_one_sweep_removes_all_there_is_in_small_transactions_that_stand_by_themselves(
    server: InProcessServer, clock: ManualClock, database_url: str
) -> None:
    many = 3 * PORTION
    agent = await server.add_agent("mill", standing=True, expires="365d")
    for n in range(many):
        entry = {"id": f"task-{n}", "type": "task", "title": "T", "summary": "S"}
        await server.ask("POST", "/v1/nodes", {"nodes": [entry]}, idempotency_key=f"k{n}")
        await server.ask("POST", "/v1/agents/agent-mill/token", {"session": f"s{n}"})
    await server.ask("POST", "/v1/nodes/task-0/claim", {}, token=agent)
    lease = {"node": "task-0", "epoch": 1}
    run = (await server.ask("POST", "/v1/agents/agent-mill/token", {"lease": lease}, token=agent))["token"]
    await server.ask("POST", "/v1/queue/claim", {"ids": [f"task-{n}" for n in range(1, many)]}, token=run)
    clock.advance(timedelta(days=62))

    def kept() -> dict[str, int]:
        tables = contents(database_url)
        return {name: len(tables[name]) for name in ("idempotency_keys", "events", "run_tenures", "tokens")}

    before = kept()
    with failing("fence.checked", OSError("the database went away"), nth=3), pytest.raises(OSError, match="went away"):
        await retention.sweep(server.store)
    interrupted = kept()
    await retention.sweep(server.store)

    assert before["run_tenures"] == many - 1
    assert interrupted == {**before, "idempotency_keys": many - 2 * PORTION}
    assert kept() == {"idempotency_keys": 0, "events": 0, "run_tenures": 0, "tokens": 3}, "Ada's, mill's, and the run's"


async def test_an_ended_token_is_kept_a_month_and_the_one_a_lease_names_as_long_as_that(
    server: InProcessServer, clock: ManualClock
) -> None:
    agent = await server.add_agent("mill", standing=True, expires="365d")
    await server.ask("POST", "/v1/nodes", {"nodes": [{"id": "task-a", "type": "task", "title": "A", "summary": "A"}]})
    claim = await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=agent)
    lease = {"node": "task-a", "epoch": claim["lease"]["epoch"]}
    run = (await server.ask("POST", "/v1/agents/agent-mill/token", {"lease": lease}, token=agent))["token"]
    session = (await server.ask("POST", "/v1/agents/agent-mill/token", {"session": "s1"}))["token"]

    async def is_kept(token: str) -> bool:
        async with server.store.read() as tx:
            (rows,) = await tx.fetch(tokens.known_asked(hash_of(Secret(token))))
        return bool(rows)

    clock.advance(timedelta(days=20))
    await retention.sweep(server.store)
    after_twenty = [await is_kept(run), await is_kept(session)]
    clock.advance(timedelta(days=30))
    await retention.sweep(server.store)
    after_fifty = [await is_kept(run), await is_kept(session), await is_kept(agent)]

    assert after_twenty == [True, True]
    assert after_fifty == [True, False, True], "the lease has only lapsed, and names the run's token"
