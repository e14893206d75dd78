"""Waiting for the queue: a page that changes, an item that comes, each by an event or by time (D15)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from batonpass.core.feed import StoredEvent
from batonpass.server.services.change import Caller
from batonpass.server.services.choosing import Choice, Wish
from batonpass.server.services.lines import BATONS_MAX, HELD_ON, MISSES_MAX, Line
from batonpass.server.services.queue import Queue
from batonpass.testing.callers import calling
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import held
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_in_line, until_waiting

pytestmark = pytest.mark.anyio

NODE = {"type": "task", "summary": "To do", "date": "2026-06-01"}


async def put(server: InProcessServer, *ids: str, project: str = "web", **more: object) -> None:
    nodes = [{**NODE, "id": id_, "title": id_, "project": project, **more} for id_ in ids]
    reply = await server.ask("POST", "/v1/nodes", {"nodes": nodes})
    assert all(result["ok"] for result in reply["results"]), reply


async def page(server: InProcessServer, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await server.ask("GET", f"/v1/queue?{asked}")


async def take(server: InProcessServer, *, token: str | None = None, **wish: object) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("POST", "/v1/queue/next", {"accept": "open", **wish}, token=token)


async def settled(server: InProcessServer, **query: object) -> str:
    """Return the `seq` of a page that the feed has caught up with."""
    await server.services.feed.now()
    seq: str = (await page(server, **query))["seq"]
    return seq


async def test_a_page_is_answered_when_something_in_its_scope_changes(server: InProcessServer) -> None:
    seq = await settled(server, project="web")
    waiting = asyncio.create_task(page(server, project="web", wait=30, after=seq))
    await until_waiting(server.services.feed)

    await put(server, "task-a")
    answer = await waiting

    assert [item["id"] for item in answer["items"]] == ["task-a"]
    assert answer["seq"] != seq


async def test_a_page_that_is_behind_is_answered_at_once(server: InProcessServer) -> None:
    seq = await settled(server)
    await put(server, "task-a")

    answer = await page(server, wait=30, after=seq)

    assert [item["id"] for item in answer["items"]] == ["task-a"]


async def test_a_page_is_answered_when_a_lease_ends(server: InProcessServer, clock: ManualClock) -> None:
    await put(server, "task-a")
    rival = await server.add_person("Rosa")
    await server.ask("POST", "/v1/nodes/task-a/claim", token=rival)
    seq = await settled(server)
    waiting = asyncio.create_task(page(server, wait=30, after=seq))
    await until_waiting(server.services.feed)

    clock.advance(timedelta(minutes=46))

    assert [item["id"] for item in (await waiting)["items"]] == ["task-a"]


async def test_a_page_is_answered_at_midnight_when_a_sleeper_wakes(server: InProcessServer, clock: ManualClock) -> None:
    await put(server, "task-a", wake="2026-06-02")
    seq = await settled(server)
    waiting = asyncio.create_task(page(server, wait=30, after=seq))
    await until_waiting(server.services.feed)

    clock.advance(timedelta(hours=12))

    assert [item["id"] for item in (await waiting)["items"]] == ["task-a"]


async def test_what_ended_between_two_waits_is_not_missed(server: InProcessServer, clock: ManualClock) -> None:
    await put(server, "task-a")
    rival = await server.add_person("Rosa")
    await server.ask("POST", "/v1/nodes/task-a/claim", token=rival)
    seq = await settled(server)

    clock.advance(timedelta(minutes=46))
    answer = await page(server, wait=30, after=seq)

    assert [item["id"] for item in answer["items"]] == ["task-a"]


async def test_next_waits_for_an_item_and_takes_it(server: InProcessServer) -> None:
    agent = await server.add_agent("mill", standing=True)
    waiting = asyncio.create_task(take(server, token=agent, wait=30, dispatch="d-1"))
    await until_waiting(server.services.feed)

    await put(server, "task-a")
    taken = await waiting

    assert (taken["status"], taken["item"]["id"], taken["lease"]["by"]) == ("claimed", "task-a", "agent-mill")


async def test_next_takes_what_is_freed_by_time(server: InProcessServer, clock: ManualClock) -> None:
    await put(server, "task-a")
    agent = await server.add_agent("mill", standing=True)
    rival = await server.add_person("Rosa")
    await server.ask("POST", "/v1/nodes/task-a/claim", token=rival)
    waiting = asyncio.create_task(take(server, token=agent, wait=30))
    await until_waiting(server.services.feed)

    clock.advance(timedelta(minutes=46))

    assert (await waiting)["item"]["id"] == "task-a"


async def test_next_takes_what_a_resolver_in_another_project_unblocks(server: InProcessServer) -> None:
    await put(server, "task-first", project="mail", edges=[{"type": "blocks", "to": "task-then"}])
    await put(server, "task-then")
    agent = await server.add_agent("mill", standing=True)
    waiting = asyncio.create_task(take(server, token=agent, wait=30, project="web"))
    await until_waiting(server.services.feed)

    await server.ask("POST", "/v1/nodes/task-first/status", {"status": "abandoned"})

    assert (await waiting)["item"]["id"] == "task-then"


async def test_next_in_vain_is_empty_when_its_wait_is_over(server: InProcessServer) -> None:
    assert (await take(server, wait=1))["status"] == "empty"


async def test_an_item_goes_to_whom_it_is_routed_behind_others_who_may_not_have_it(server: InProcessServer) -> None:
    tokens = [await server.add_agent(f"mill-{n}", standing=True) for n in range(12)]
    waiting = []
    for n, token in enumerate(tokens):
        waiting.append(asyncio.create_task(take(server, token=token, wait=30)))
        await until_waiting(server.services.feed, requests=n + 1)

    await put(server, "task-a", edges=[{"type": "assigned", "to": "agent-mill-11"}])

    assert (await waiting[11])["item"]["id"] == "task-a"
    await put(server, *(f"task-{n}" for n in range(11)))
    taken = await asyncio.gather(*waiting[:11])
    assert sorted(answer["item"]["id"] for answer in taken) == sorted(f"task-{n}" for n in range(11))


AGENTS, EACH, BATCH = 6, 20, 20
"""So many agents wait so often each: nobody may hold more than fifty claims."""


async def test_an_event_wakes_as_many_as_it_feeds_in_the_order_in_which_they_came(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    all_tried = asyncio.Event()
    plain = Queue.next

    async def counted(self: Queue, caller: Caller, wish: Wish) -> Choice:
        nonlocal tries
        try:
            return await plain(self, caller, wish)
        finally:
            tries += 1
            if tries >= AGENTS * EACH:
                all_tried.set()

    rounds = 0
    hear = Line.hear

    def heard(self: Line[Choice], rows: Sequence[StoredEvent] = ()) -> None:
        nonlocal rounds
        rounds += not rows or not all(row.kind in HELD_ON for row in rows)
        hear(self, rows)

    monkeypatch.setattr(Queue, "next", counted)
    monkeypatch.setattr(Line, "hear", heard)
    tokens = [await server.add_agent(f"mill-{n}", standing=True) for n in range(AGENTS)]
    waiting = []
    for n in range(AGENTS * EACH):
        waiting.append(asyncio.create_task(take(server, token=tokens[n % AGENTS], wait=60)))
        await until_waiting(server.services.feed, requests=n + 1)
    await until_in_line(server.services.lines, requests=AGENTS * EACH)
    async with asyncio.timeout(30):
        await all_tried.wait()

    served: list[int] = []
    for batch in range(AGENTS * EACH // BATCH):
        before, rounds = tries, 0
        await put(server, *(f"task-{batch}-{n}" for n in range(BATCH)))
        done: set[int] = set(served)
        while len(done) < len(served) + BATCH:
            await asyncio.wait([task for task in waiting if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            done = {n for n, task in enumerate(waiting) if task.done()}
        fed = sorted(done - set(served))
        assert fed[-1] < len(served) + BATCH + BATONS_MAX, "those who came first, but for who was just trying"
        # Once for each time that the line was told of it, which is once unless the feed came in pieces, and once later.
        assert tries - before <= BATCH + (rounds + 1) * BATONS_MAX, "and hardly anybody else has tried"
        served += fed

    items = [(await task)["item"]["id"] for task in waiting]
    assert len(set(items)) == AGENTS * EACH, "none was handed out twice, and nobody went without"


async def test_who_comes_is_not_served_before_those_who_wait_however_slow_they_are(server: InProcessServer) -> None:
    """On a busy server whoever is back from work would otherwise get what there is, and the line nothing."""
    items = [f"task-{n}" for n in range(5)]
    early = len(items) + BATONS_MAX + 1
    gate = {**NODE, "id": "dec-gate", "type": "decision", "title": "gate", "project": "web"}
    blocks = [{"type": "blocks", "to": item} for item in items]
    await server.ask("POST", "/v1/nodes", {"nodes": [{**gate, "edges": blocks}]})
    await put(server, *items)
    tokens = [await server.add_agent(f"mill-{n}", standing=True) for n in range(early + 1)]
    waiting = []
    for n, token in enumerate(tokens[:early]):
        waiting.append(asyncio.create_task(take(server, token=token, wait=60)))
        await until_in_line(server.services.lines, requests=n + 1)

    async with held("next.chosen") as door:
        await server.ask("POST", "/v1/nodes/dec-gate/status", {"status": "rejected"})  # all of them at one moment
        await door.reached()
        late = asyncio.create_task(take(server, token=tokens[early], wait=60))
        await until_in_line(server.services.lines, requests=early + 1)
    async with asyncio.timeout(20):
        while sum(task.done() for task in waiting) < len(items):
            pending = [task for task in waiting if not task.done()]
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)

    assert not late.done()
    await put(server, *(f"task-{n}" for n in range(len(items), early + 1)))
    async with asyncio.timeout(20):
        taken = await asyncio.gather(*waiting, late)
    assert len({answer["item"]["id"] for answer in taken}) == early + 1


async def test_who_comes_while_others_wait_in_vain_is_served_at_once(server: InProcessServer) -> None:
    """There may be something for it alone: the others take no incident, or are not whom it is routed to."""
    tokens = [await server.add_agent(f"mill-{n}", standing=True) for n in range(MISSES_MAX + BATONS_MAX + 1)]
    await put(server, "task-a")
    waiting = []
    for n, token in enumerate(tokens[1:]):
        waiting.append(asyncio.create_task(take(server, token=token, wait=60, types=["incident"])))
        await until_in_line(server.services.lines, requests=n + 1)

    async with asyncio.timeout(5):
        served = await take(server, token=tokens[0], wait=60)

    assert served["item"]["id"] == "task-a"
    server.services.feed.stop()
    assert {answer["status"] for answer in await asyncio.gather(*waiting)} == {"empty"}


async def test_h5_a_client_that_has_gone_takes_nothing(server: InProcessServer) -> None:
    agent = await server.add_agent("mill", standing=True)
    wish = {"accept": "open", "wait": 30}
    async with AsyncExitStack() as stack:
        gone = [
            await stack.enter_async_context(calling(server, "POST", "/v1/queue/next", wish, token=agent))
            for _ in range(5)
        ]
        await until_waiting(server.services.feed, requests=5)
        there = asyncio.create_task(take(server, token=agent, wait=30))
        await until_waiting(server.services.feed, requests=6)
        for caller in gone:
            caller.hang_up()
            await caller.answered()

        await put(server, "task-a", "task-b")
        taken = await there

    leases = await server.ask("GET", "/v1/leases")
    assert [held["lease"]["node_id"] for held in leases["leases"]] == [taken["item"]["id"]], "the other one is free"


async def test_a_pause_is_told_when_the_wait_is_over_and_its_end_is_waited_for(server: InProcessServer) -> None:
    await put(server, "task-a")
    agent = await server.add_agent("mill", standing=True)
    await server.ask("PUT", "/v1/policy/web", {"paused": "not today"})
    in_vain = await server.send("POST", "/v1/queue/next", {"accept": "open", "wait": 1}, token=agent)
    waiting = asyncio.create_task(take(server, token=agent, wait=30))
    await until_waiting(server.services.feed)

    await server.ask("PUT", "/v1/policy/web", {"paused": None})

    assert (in_vain.status_code, in_vain.json()["error"]["code"]) == (409, "paused")
    assert (await waiting)["item"]["id"] == "task-a"


async def test_the_claim_counts_from_when_it_was_made(server: InProcessServer) -> None:
    agent = await server.add_agent("mill", standing=True)
    at_once = asyncio.create_task(take(server, token=agent, wait=30))
    await until_waiting(server.services.feed)
    await put(server, "task-a")

    taken = await at_once

    assert taken["expires_in_ms"] == 60_000
    assert taken["waited_ms"] > 0


async def test_a_wait_for_a_page_needs_a_position(server: InProcessServer) -> None:
    response = await server.send("GET", "/v1/queue?wait=5")

    assert (response.status_code, response.json()["error"]["field"]) == (422, "wait")


async def test_a_token_that_has_ended_while_it_waited_takes_nothing(server: InProcessServer) -> None:
    token = await server.add_person("Rosa")
    waiting = asyncio.create_task(server.send("POST", "/v1/queue/next", {"accept": "open", "wait": 30}, token=token))
    await until_in_line(server.services.lines)
    (mine,) = (await server.ask("GET", "/v1/me/tokens", token=token))["tokens"]
    await server.ask("DELETE", f"/v1/admin/tokens/{mine['hash_prefix']}")

    await put(server, "task-a")
    answer = await waiting

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    assert (await server.ask("GET", "/v1/leases"))["leases"] == []
