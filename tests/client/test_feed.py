"""Following the feed: behind what was read, and over a server that is away."""

from __future__ import annotations

import itertools

import httpx
import pytest

from batonpass.client.client import Client
from batonpass.client.feed import follow
from batonpass.core.errors import Resync
from batonpass.testing.scripted import ScriptedServer, refusal


def page(*nodes: str, next_: str) -> httpx.Response:
    common: dict[str, object] = {
        "at": "2026-06-01T12:00:00.000+00:00",
        "kind": "node.put",
        "project": None,
        "actor": "a",
        "data": {},
    }
    events = [{**common, "seq": n, "node": node} for n, node in enumerate(nodes)]
    return httpx.Response(200, json={"events": events, "next": next_, "more": False})


def asked(server: ScriptedServer) -> list[tuple[str | None, str | None]]:
    return [(request.url.params.get("after"), request.url.params.get("wait")) for request in server.requests]


def test_each_request_waits_behind_the_one_before(server: ScriptedServer, client: Client) -> None:
    server.will(page(next_="p-0"))
    server.will(page("task-a", "task-b", next_="p-2"))
    server.will(page(next_="p-3"))
    server.will(page("task-c", next_="p-4"))

    following = follow(client, project="web", kinds=["node"])
    nodes = [event.node for event in itertools.islice(following, 3)]

    assert nodes == ["task-a", "task-b", "task-c"]
    assert asked(server) == [("now", None), ("p-0", "30"), ("p-2", "30"), ("p-3", "30")]
    assert following.position == "p-3", "the last page was not taken to its end"
    assert server.requests[-1].url.params["kind"] == "node"


def test_a_server_that_is_away_is_asked_again_for_the_same(
    server: ScriptedServer, client: Client, slept: list[float]
) -> None:
    for _ in range(7):
        server.will(httpx.ConnectError("refused"))
    server.will(page("task-a", next_="p-2"))

    (first,) = itertools.islice(follow(client, after="p-1"), 1)

    assert first.node == "task-a"
    assert {after for after, _ in asked(server)} == {"p-1"}
    assert len(slept) >= 6


def test_a_position_that_means_nothing_any_more_is_told(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(410, "resync"))

    with pytest.raises(Resync):
        next(iter(follow(client, after="p-1")))
