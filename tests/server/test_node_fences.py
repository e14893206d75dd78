"""A write onto a node that is no longer the writer's is refused at every door, and changes nothing (D2a, D2b)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.store.events import events_after
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import held
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Door:
    """One way to write, sent so that it would succeed but for the fence."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)


def task(id_: str, **keys: object) -> dict[str, object]:
    return {"id": id_, "type": "task", "title": f"About {id_}", "summary": "S", **keys}


RESOLVER: Final = {
    "id": "art-x",
    "type": "artifact",
    "title": "X",
    "summary": "S",
    "edges": [{"type": "resolves", "to": "task-a"}],
}
DOORS: Final = {
    "create": Door("POST", "/v1/nodes", {"nodes": [RESOLVER]}),
    "create elsewhere": Door("POST", "/v1/nodes", {"nodes": [task("task-new")]}),
    "update": Door("POST", "/v1/nodes", {"nodes": [{"node": task("task-a", title="Mine"), "if_exists": "skip"}]}),
    "flip": Door("POST", "/v1/nodes", {"nodes": [task("task-flip", edges=[{"type": "blocked-by", "to": "task-a"}])]}),
    "add edge": Door("POST", "/v1/nodes/task-a/edges", {"type": "mentions", "to": "task-b"}),
    "add edge onto it": Door("POST", "/v1/nodes/task-b/edges", {"type": "mentions", "to": "task-a"}),
    "remove edge": Door("DELETE", "/v1/nodes/task-a/edges", {"type": "relates-to", "to": "task-b"}),
    "status": Door("POST", "/v1/nodes/task-a/status", {"status": "open"}),
    "give up": Door("POST", "/v1/nodes/task-a/status", {"status": "abandoned"}),
    "priority": Door("POST", "/v1/nodes/task-a/priority", {"priority": "p1"}),
    "readiness": Door("POST", "/v1/nodes/task-a/readiness", {"readiness": "clear"}),
    "commits": Door("POST", "/v1/nodes/task-a/commits", {"repo": "web", "sha": "abcdef1"}),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of agent-one on task-a: the agent's own token, and the run's, which is bound to the first tenure."""

    server: InProcessServer
    clock: ManualClock
    person: str
    agent: str
    token: str

    async def send(self, door: Door, token: str, **headers: str) -> Any:  # noqa: ANN401 — a response
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.send(door.method, door.path, door.body, token=token, headers=named)


@pytest.fixture
async def run(server: InProcessServer, clock: ManualClock) -> Run:
    return await running(server, clock)


async def running(server: InProcessServer, clock: ManualClock) -> Run:
    """Return a run under way."""
    ben = await server.add_person("Ben")
    agent = await server.add_agent("one", token=ben)
    nodes = [
        task("task-b"),
        task("task-a", readiness="agent", edges=[{"type": "relates-to", "to": "task-b"}]),
    ]
    await server.ask("POST", "/v1/nodes", {"nodes": nodes})
    await server.ask("POST", "/v1/nodes/task-a/claim", {"dispatch": "n1"}, token=agent)
    minted = await server.ask(
        "POST", "/v1/agents/agent-one/token", {"lease": {"node": "task-a", "epoch": 1}}, token=agent
    )
    return Run(server, clock, ben, agent, minted["token"])


async def state(server: InProcessServer) -> tuple[Any, ...]:
    """All that a write could have changed."""
    listed = (await server.ask("GET", "/v1/nodes"))["nodes"]
    read = [await server.ask("GET", f"/v1/nodes/{row['id']}") for row in listed]
    async with server.store.read() as tx:
        return (read, await events_after(tx, 0, most=1_000))


async def taken_over(run: Run) -> None:
    stranger = await run.server.add_agent("two", token=await run.server.add_person("Cy"))
    run.clock.advance(HOUR)
    await run.server.ask("POST", "/v1/nodes/task-a/claim", {}, token=stranger)


async def released(run: Run) -> None:
    await run.server.ask("POST", "/v1/nodes/task-a/release", {}, token=run.agent)


async def reserved(run: Run) -> None:
    await run.server.ask("POST", "/v1/nodes/task-a/reserve", {}, token=run.agent)


async def revoked(run: Run) -> None:
    await run.server.ask("POST", "/v1/nodes/task-a/release", {"reason": "stop"})


async def reclaimed(run: Run) -> None:
    await released(run)
    await run.server.ask("POST", "/v1/nodes/task-a/claim", {"dispatch": "n2"}, token=run.agent)


ENDS: Final[Mapping[str, Callable[[Run], Awaitable[None]]]] = {
    "takeover": taken_over,
    "release": released,
    "reservation": reserved,
    "revocation": revoked,
    "another launch": reclaimed,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_run_whose_tenure_is_over_writes_through_no_door(run: Run, end: str) -> None:
    await ENDS[end](run)
    before = await state(run.server)

    refusals = {name: await run.send(door, run.token) for name, door in DOORS.items()}

    assert {name: (r.status_code, r.json()["error"]["code"]) for name, r in refusals.items()} == dict.fromkeys(
        DOORS, (409, "lease_lost")
    )
    assert await state(run.server) == before


@pytest.mark.parametrize("lapsed", [False, True])
async def test_the_same_writes_land_within_the_tenure_and_after_a_lapse_nobody_used(*, run: Run, lapsed: bool) -> None:
    run.clock.advance(HOUR if lapsed else timedelta())

    for name, door in DOORS.items():
        assert (await run.send(door, run.token)).status_code == 200, name


async def test_the_refusal_names_who_has_the_node_now(run: Run) -> None:
    await taken_over(run)

    refused = (await run.send(DOORS["priority"], run.token)).json()

    assert (refused["holder"]["by"], refused["holder"]["epoch"]) == ("agent-two", 2)


async def test_a_runner_that_names_the_tenure_it_settles_is_refused_once_it_is_over(run: Run) -> None:
    await taken_over(run)
    before = await state(run.server)

    for name in ("update", "add edge", "remove edge", "status", "priority", "readiness", "commits"):
        door = DOORS[name]
        nodes = [{**entry, "if_epoch": 1} for entry in door.body.get("nodes", ())]
        premises = [{"kind": "fence", "field": "task-a", "epoch": 1}]
        by_body = Door(door.method, door.path, {**door.body, **({"nodes": nodes} if nodes else {"if_epoch": 1})})
        by_premise = Door(door.method, door.path, {**door.body, "based_on": premises})
        for answer in (
            await run.send(by_body, run.agent),
            await run.send(by_premise, run.agent),
            await run.send(door, run.agent, If_Lease="task-a; epoch=1"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease_lost"), name

    assert await state(run.server) == before


async def test_a_fence_of_a_record_nobody_holds_is_broken(run: Run) -> None:
    premise = {"kind": "fence", "field": "record:pipelines/7f3a#driver", "epoch": 1}

    answer = await run.server.send(
        "POST", "/v1/nodes/task-a/priority", {"priority": "p1", "based_on": [premise]}, token=run.agent
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease_lost")


async def test_a_run_writes_no_longer_onto_what_it_claimed_besides_and_lost(run: Run) -> None:
    await run.server.ask("POST", "/v1/nodes", {"nodes": [task("task-n2"), task("task-free")]})
    await run.server.ask("POST", "/v1/nodes/task-n2/claim", {}, token=run.token)
    onto_n2 = [
        Door("POST", "/v1/nodes/task-n2/status", {"status": "abandoned"}),
        Door("POST", "/v1/nodes/task-n2/priority", {"priority": "p1"}),
        Door("POST", "/v1/nodes/task-b/edges", {"type": "mentions", "to": "task-n2"}),
        Door("POST", "/v1/nodes", {"nodes": [{**RESOLVER, "edges": [{"type": "resolves", "to": "task-n2"}]}]}),
    ]
    stranger = await run.server.add_agent("two", token=await run.server.add_person("Cy"))
    run.clock.advance(HOUR)
    await run.server.ask("POST", "/v1/nodes/task-n2/claim", {}, token=stranger)
    before = await state(run.server)

    refused = [await run.send(door, run.token) for door in onto_n2]
    unchanged = await state(run.server)
    elsewhere = await run.send(Door("POST", "/v1/nodes/task-free/priority", {"priority": "p1"}), run.token)

    assert [(r.status_code, r.json()["error"]["code"]) for r in refused] == [(409, "lease_lost")] * len(onto_n2)
    assert unchanged == before
    assert elsewhere.status_code == 200


@pytest.fixture
async def lost(run: Run) -> Run:
    return await losing(run)


async def losing(run: Run) -> Run:
    """Return the run after it claimed task-n2 besides, let task-b block it, and lost it to a stranger."""
    await run.server.ask("POST", "/v1/nodes", {"nodes": [task("task-n2")]})
    await run.server.ask("POST", "/v1/nodes/task-n2/claim", {}, token=run.token)
    await run.send(BLOCK, run.token)
    stranger = await run.server.add_agent("two", token=await run.server.add_person("Cy"))
    run.clock.advance(HOUR)
    await run.server.ask("POST", "/v1/nodes/task-n2/claim", {}, token=stranger)
    return run


BLOCK: Final = Door("POST", "/v1/nodes/task-b/edges", {"type": "blocks", "to": "task-n2"})
UNBLOCK: Final = Door("DELETE", "/v1/nodes/task-b/edges", {"type": "blocks", "to": "task-n2"})


def without_edges(id_: str, revision: str) -> Door:
    """Return a put that takes all edges of a node away."""
    return Door("POST", "/v1/nodes", {"nodes": [{"node": task(id_), "if_exists": "update", "revision": revision}]})


async def test_a_run_takes_no_edge_away_from_what_it_lost_by_leaving_it_out_of_a_put(lost: Run) -> None:
    before = await state(lost.server)
    revision = (await lost.server.ask("GET", "/v1/nodes/task-b"))["revision"]

    by_verb = await lost.send(UNBLOCK, lost.token)
    by_put = await lost.send(without_edges("task-b", revision), lost.token)
    unchanged = await state(lost.server)
    by_its_agent = await lost.send(without_edges("task-b", revision), lost.agent)

    assert [(r.status_code, r.json()["error"]["code"]) for r in (by_verb, by_put)] == [(409, "lease_lost")] * 2
    assert unchanged == before
    assert by_its_agent.json()["results"][0]["status"] == "updated", "its tokens outside the run may"


async def test_what_a_put_takes_away_is_looked_at_again_under_the_lock(postgres_url: str, clock: ManualClock) -> None:
    """An edge that comes between the look and the lock; on SQLite nobody writes in between."""
    async with in_process_server(postgres_url, clock=clock) as server:
        lost = await losing(await running(server, clock))
        revision = (await server.ask("GET", "/v1/nodes/task-b"))["revision"]
        await lost.send(UNBLOCK, server.admin_token)
        async with held("tx.begun") as door:
            put = asyncio.create_task(lost.send(without_edges("task-b", revision), lost.token))
            await door.reached()
            await lost.send(BLOCK, server.admin_token)
            before = await state(server)
            door.open()
            answer = await put

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease_lost")
        assert await state(server) == before


async def test_a_routed_item_is_as_it_was_after_claim_crash_takeover_and_release(run: Run) -> None:
    routed = task("task-r", edges=[{"type": "assigned", "to": "agent-one"}])
    await run.server.ask("POST", "/v1/nodes", {"nodes": [routed]}, token=run.person)
    stranger = await run.server.add_agent("two", token=await run.server.add_person("Cy"))

    async def seen() -> tuple[Any, Any]:
        (item,) = [
            i for i in (await run.server.ask("GET", "/v1/queue", token=run.person))["items"] if i["id"] == "task-r"
        ]
        return (await run.server.ask("GET", "/v1/nodes/task-r"))["raw"], (item["readiness"], item["readiness_reasons"])

    before = await seen()
    await run.server.ask("POST", "/v1/nodes/task-r/claim", {}, token=run.agent)
    await run.server.ask("POST", "/v1/nodes/task-r/release", {}, token=run.agent)
    after_release = await seen()
    await run.server.ask("POST", "/v1/nodes/task-r/claim", {}, token=run.agent)
    run.clock.advance(HOUR)
    await run.server.ask("POST", "/v1/nodes/task-r/claim", {}, token=stranger)
    await run.server.ask("POST", "/v1/nodes/task-r/release", {}, token=stranger)

    assert before[1] == ("agent", ["assigned to agent agent-one"])
    assert after_release == before
    assert await seen() == before
