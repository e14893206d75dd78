"""A run whose tenure is over: every door that writes is walked, and none lets it change anything (D2a, D2b).

What each door of the graph and of the leases answers, and in which
interleavings, is `tests/traces`' to show; here no route can be forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.testing.doors import AGENT, DOORS, Door, prefix_of
from batonpass.testing.populated import CLAIMED, FREE, WORKED, Populated
from batonpass.testing.walks import Walk, walk_through

pytestmark = pytest.mark.anyio

WRITES: Final = [door for door in DOORS if door.writes]
ONTO: Final = {
    "its own item": CLAIMED,
    "what it took besides": WORKED,
    "what is free": FREE,
}
ENUMERATING: Final = {"/v1/queue/renew", "/v1/queue/release"}
"""Without ids these reach what the run holds, which is nothing any more."""


@pytest.fixture
async def walk(populated: Populated) -> AsyncIterator[Walk]:
    async with walk_through(populated) as walk:
        yield walk


async def taken_over(walk: Walk) -> None:
    walk.clock.advance(timedelta(hours=2))
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/claim", {}, token=walk.fleet.rival)


async def taken_away(walk: Walk) -> None:
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/claim", {"take": True, "reason": "it hangs"})


async def released(walk: Walk) -> None:
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/release", {}, token=walk.fleet.agent)


async def reserved(walk: Walk) -> None:
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/reserve", {}, token=walk.fleet.agent)


async def revoked(walk: Walk) -> None:
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/release", {"reason": "it hangs"})


async def token_ended(walk: Walk) -> None:
    prefix = prefix_of(walk.fleet, "run")
    await walk.server.ask("DELETE", f"/v1/agents/{AGENT}/tokens/{prefix}", token=walk.fleet.person)


async def token_replaced(walk: Walk) -> None:
    tenure = {"node": CLAIMED, "epoch": walk.fleet.epoch}
    await walk.server.ask(
        "POST", f"/v1/agents/{AGENT}/token", {"lease": tenure, "replace": True}, token=walk.fleet.agent
    )


ENDS: Final[Mapping[str, Callable[[Walk], Awaitable[None]]]] = {
    "takeover": taken_over,
    "a take": taken_away,
    "release": released,
    "reservation": reserved,
    "revocation": revoked,
    "the token's end": token_ended,
    "the token's replacement": token_replaced,
}


def aimed(door: Door, node: str) -> dict[str, Any]:
    """Return the body of a door, aimed at `node` where it names one."""
    body: dict[str, Any] = dict(door.body)
    if "ids" in body:
        body["ids"] = [node]
    if "nodes" in body:
        edge = {"type": "mentions", "to": node}
        body["nodes"] = [{**entry, "edges": [edge]} for entry in body["nodes"]]
    if "to" in body:
        body["to"] = FREE if node != FREE else CLAIMED
    return body


async def knocked(walk: Walk, node: str) -> dict[str, str]:
    """Return which doors let a run in that is over, onto `node`, and how."""
    found = {}
    for door in WRITES:
        path = door.path(walk.fleet, **({"id": node} if door.template.startswith("/v1/nodes/{id}") else {}))
        answer = await walk.server.send(door.method, path, aimed(door, node), token=walk.fleet.run)
        if not _refused(door, answer):
            found[door.name] = f"{answer.status_code} {answer.text}"
    return found


def _refused(door: Door, answer: httpx.Response) -> bool:
    if answer.is_success and door.template in ENUMERATING:
        return bool(answer.json()["count"] == 0)
    if answer.is_success and "failed" in answer.json():
        return bool(answer.json()["status"] == "refused")
    return answer.status_code in {401, 403, 409}


@pytest.mark.parametrize("end", ENDS)
async def test_no_door_that_writes_lets_a_run_in_whose_tenure_is_over(walk: Walk, end: str) -> None:
    await ENDS[end](walk)

    with walk.unchanged():
        let_in = {what: await knocked(walk, node) for what, node in ONTO.items()}

    assert let_in == {what: {} for what in ONTO}


async def test_the_same_doors_let_the_run_in_while_its_tenure_stands(walk: Walk) -> None:
    let_in = await knocked(walk, CLAIMED)

    assert {name.split()[1] for name in let_in} >= {
        "/v1/nodes",
        "/v1/nodes/{id}/edges",
        "/v1/nodes/{id}/status",
        "/v1/nodes/{id}/priority",
        "/v1/nodes/{id}/commits",
        "/v1/nodes/{id}/claim",
        "/v1/nodes/{id}/renew",
        "/v1/nodes/{id}/extend",
        "/v1/queue/claim",
        "/v1/queue/renew",
        "/v1/queue/release",
        "/v1/queue/next",
        "/v1/agents/session",
    }


async def test_no_door_that_writes_opens_for_a_fence_that_does_not_hold(walk: Walk) -> None:
    """By the header, whoever sends it: an agent, a person, an admin."""
    let_in = {}
    with walk.unchanged():
        for door in WRITES:
            for fence in (
                f"{CLAIMED}; epoch={walk.fleet.epoch + 1}",
                "task-nobody; epoch=1",
                "record:runs/7#f; epoch=1",
            ):
                body, headers = aimed(door, FREE), {"If-Lease": fence}
                answer = await walk.server.send(
                    door.method, door.path(walk.fleet), body, token=door.token(walk.fleet), headers=headers
                )
                if not _refused(door, answer):
                    let_in[f"{door.name}, {fence}"] = f"{answer.status_code} {answer.text}"

    assert let_in == {}
