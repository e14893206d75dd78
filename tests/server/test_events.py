"""The feed through its door: what happened, in order, page by page, waited for, and as a stream (D15a)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from batonpass.core.clock import micros
from batonpass.core.ids import Instant
from batonpass.server.services import feed as feeds
from batonpass.server.services.feed import Feed
from batonpass.server.services.retention import EVENTS_KEPT
from batonpass.store import retention
from batonpass.store.base import SYSTEM, Fences
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_waiting

pytestmark = pytest.mark.anyio

NODE = {"type": "task", "summary": "To do", "date": "2026-06-01"}


async def put(server: InProcessServer, *ids: str, project: str = "web") -> None:
    nodes = [{**NODE, "id": id_, "title": id_, "project": project} for id_ in ids]
    reply = await server.ask("POST", "/v1/nodes", {"nodes": nodes})
    assert all(result["ok"] for result in reply["results"]), reply


async def read(server: InProcessServer, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await server.ask("GET", f"/v1/events?{asked}")


def nodes_of(reply: Any) -> list[str]:  # noqa: ANN401 — a reply as JSON
    return [event["node"] for event in reply["events"]]


async def test_the_feed_tells_what_happened_by_whom_and_in_which_order(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]

    await put(server, "task-a")
    await server.ask("POST", "/v1/nodes/task-a/claim", {"session": "s-1"})
    await server.ask("POST", "/v1/nodes/task-a/release")
    told = await read(server, after=start)

    assert [event["kind"] for event in told["events"]] == ["node.put", "lease.claimed", "lease.released"]
    put_, claimed, _ = told["events"]
    assert (put_["node"], put_["project"], put_["actor"]) == ("task-a", "web", server.admin.id)
    assert put_["at"] == "2026-06-01T12:00:00.000+00:00"
    assert (claimed["epoch"], claimed["session"], claimed["data"]) == (1, "s-1", {})
    seqs = [event["seq"] for event in told["events"]]
    assert seqs == sorted(set(seqs))
    assert not told["more"]
    assert (await read(server, after=told["next"]))["events"] == []


async def test_a_wait_is_answered_by_the_next_event_of_its_topic(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    waiting = asyncio.create_task(read(server, after=start, wait=30, project="web", kind="node"))
    await until_waiting(server.services.feed)

    await put(server, "task-other", project="mail")
    await put(server, "task-mine")

    assert nodes_of(await waiting) == ["task-mine"]


async def test_a_wait_that_nothing_ends_answers_empty_with_a_position_to_go_on_from(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    waiting = asyncio.create_task(read(server, after=start, wait=1, project="web"))
    await until_waiting(server.services.feed)

    await put(server, "task-other", project="mail")
    answer = await waiting

    assert answer["events"] == []
    assert answer["next"] != start


async def test_a_page_has_at_most_what_it_was_asked_for_and_says_that_there_is_more(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    await put(server, "task-a", "task-b", "task-c")

    first = await read(server, after=start, limit=2)
    rest = await read(server, after=first["next"], limit=2)

    assert (nodes_of(first), first["more"]) == (["task-a", "task-b"], True)
    assert (nodes_of(rest), rest["more"]) == (["task-c"], False)


async def test_what_is_not_in_memory_is_read_from_the_database(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "WINDOW", 3)
    monkeypatch.setattr(feeds, "SCANNED_MAX", 6)
    await put(server, *(f"task-{n}" for n in range(9)))
    await put(server, "task-mail", project="mail")

    whole = await read(server)
    mine = [await read(server, project="mail")]
    while mine[-1]["more"]:
        mine.append(await read(server, project="mail", after=mine[-1]["next"]))

    assert nodes_of(whole)[:2] == ["org-root", server.admin.id], "the feed is read from its beginning"
    assert [node for page in mine for node in nodes_of(page)] == ["task-mail"]
    assert len(mine) == 2, "an answer looks through a bounded number of events, and says how far it came"


async def test_one_node_and_one_kind_can_be_asked_for(server: InProcessServer) -> None:
    await put(server, "task-a", "task-b")
    await server.ask("POST", "/v1/nodes/task-a/claim")

    of_node = await read(server, node="task-a")
    of_kind = await read(server, kind="lease.claimed,policy")

    assert [event["kind"] for event in of_node["events"]] == ["node.put", "lease.claimed"]
    assert nodes_of(of_kind) == ["task-a"]


async def test_changes_are_those_of_nodes_since_a_moment_or_a_position(
    server: InProcessServer, clock: ManualClock
) -> None:
    await put(server, "task-old")
    clock.advance(timedelta(minutes=1))
    await put(server, "task-new")
    await server.ask("POST", "/v1/nodes/task-new/claim")

    since = await server.ask("GET", "/v1/changes?since=2026-06-01T12:00:30%2B00:00")
    after = await server.ask("GET", f"/v1/changes?since={since['next']}")

    assert [(change["kind"], change["node"]) for change in since["changes"]] == [("node.put", "task-new")]
    assert after["changes"] == []


async def test_what_makes_no_sense_is_refused_by_name(server: InProcessServer) -> None:
    for query, field in (
        ("after=12", "after"),
        ("after=abc-12", "after"),
        ("after=2026-06-01T12:00:00", "after"),
        ("wait=61", "wait"),
        ("wait=-1", "wait"),
        ("limit=0", "limit"),
        ("node=No", "node"),
        (f"kind={'k' * 61}", "kind"),
        ("project=No%20slug", "project"),
    ):
        response = await server.send("GET", f"/v1/events?{query}")

        assert (query, response.status_code) == (query, 422)
        assert response.json()["error"]["field"] == field


async def test_a_position_of_another_incarnation_is_to_be_taken_anew(server: InProcessServer) -> None:
    position = (await read(server, after="now"))["next"]
    other = "0" * 12 + position[12:]

    for path in (f"/v1/events?after={other}", f"/v1/changes?since={other}", f"/v1/queue?after={other}"):
        response = await server.send("GET", path)
        assert (response.status_code, response.json()["error"]["code"]) == (410, "resync"), path


async def test_a_position_older_than_what_is_kept_is_to_be_taken_anew(
    server: InProcessServer, clock: ManualClock
) -> None:
    await put(server, "task-a", "task-b")
    begin = (await read(server, limit=2))["next"]
    end = (await read(server, after="now"))["next"]
    clock.advance(timedelta(days=31))
    async with server.store.write(SYSTEM, Fences()) as tx:
        await retention.remove(tx, "events", before=Instant(await tx.now() - micros(EVENTS_KEPT)))
    server.app.state.services = replace(server.services, feed=Feed(server.store))  # one that has nothing in memory

    gone = await server.send("GET", f"/v1/events?after={begin}")
    rest = await read(server, after=end)

    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "resync")
    assert rest["events"] == [], "nothing is missing behind the last one"


async def test_more_waits_than_a_server_takes_are_refused_and_nothing_else_is(server: InProcessServer) -> None:
    server.app.state.services = replace(server.services, feed=Feed(server.store, waits_max=1))
    start = (await read(server, after="now"))["next"]
    waiting = asyncio.create_task(read(server, after=start, wait=30))
    await until_waiting(server.services.feed)

    refused = await server.send("GET", f"/v1/events?after={start}&wait=30")

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) >= 1
    await put(server, "task-a")
    assert nodes_of(await waiting) == ["task-a"]


async def test_a_server_that_ends_answers_those_who_wait(server: InProcessServer) -> None:
    start = (await read(server, after="now"))["next"]
    waiting = [asyncio.create_task(read(server, after=start, wait=30)) for _ in range(3)]
    await until_waiting(server.services.feed, requests=3)

    server.services.feed.stop()

    async with asyncio.timeout(5):
        answers = await asyncio.gather(*waiting)
    assert [answer["events"] for answer in answers] == [[], [], []]
