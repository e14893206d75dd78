"""What is past its retention goes; what somebody may still need stays (D11, D43)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from batonpass.core.tokens import Secret, hash_of
from batonpass.server.services import retention
from batonpass.store import events, tokens
from batonpass.testing.clock import ManualClock
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
