"""An item has so many runs, then it waits for a person (D22): what counts, once, and what a person's word resets."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from batonpass.core.runs import RUNS_KEPT
from batonpass.server.services import retention
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

NODE: Final = "task-a"
LIMIT: Final = 3


@pytest.fixture
async def pat(server: InProcessServer) -> str:
    """Return a person's token."""
    return await server.add_person("Pat")


@pytest.fixture
async def mill(server: InProcessServer, pat: str) -> str:
    """Return an agent's token; there is an item to run, and a limit of three."""
    entry = {"id": NODE, "type": "task", "title": "A", "summary": "A", "project": "mail", "readiness": "agent"}
    await server.ask("POST", "/v1/nodes", {"nodes": [entry]}, token=pat)
    await server.ask("PUT", "/v1/policy/mail", {"run_limit": LIMIT})
    return await server.add_agent("mill", token=pat)


async def tenure(server: InProcessServer, token: str, nonce: str) -> int:
    """Claim the item and give it back, and return the epoch."""
    claimed = await server.ask("POST", f"/v1/nodes/{NODE}/claim", {"dispatch": nonce}, token=token)
    epoch: int = claimed["lease"]["epoch"]
    await server.ask("POST", f"/v1/nodes/{NODE}/release", {"if_epoch": epoch}, token=token)
    return epoch


def settled(nonce: str, epoch: int, /, **fields: object) -> dict[str, Any]:
    ended = {"state": "done", "attempt": 1, "contract_pending": False, "terminal_state": "reported"}
    return {"record": {"agent": "agent-mill", "node_id": NODE, "dispatch": nonce, "epoch": epoch, **ended, **fields}}


async def run(server: InProcessServer, token: str, nonce: str, **fields: Any) -> Any:  # noqa: ANN401 — JSON
    epoch = await tenure(server, token, nonce)
    return await server.ask("PUT", f"/v1/runs/run-{nonce}", settled(nonce, epoch, **fields), token=token)


async def item(server: InProcessServer) -> Any:  # noqa: ANN401 — JSON
    (found,) = (await server.ask("GET", "/v1/queue?type=task"))["items"]
    return found


async def test_an_item_that_was_run_as_often_as_it_may_waits_for_a_person(
    server: InProcessServer, pat: str, mill: str
) -> None:
    for nonce in ("n1", "n2"):
        assert (await run(server, mill, nonce))["counts"] is True
    before = await item(server)
    await run(server, mill, "n3", terminal_state="failed", termination_class="failed")

    after = await item(server)
    taken = await server.ask("POST", "/v1/queue/next", {"accept": "open"}, token=mill)
    why = await server.ask("GET", f"/v1/nodes/{NODE}/why", token=mill)
    agents_word = await server.ask("POST", f"/v1/nodes/{NODE}/readiness", {"readiness": "agent"}, token=mill)
    still = await item(server)
    await server.ask("POST", f"/v1/nodes/{NODE}/readiness", {"readiness": "agent"}, token=pat)
    forgiven = await item(server)

    assert (before["readiness"], after["readiness"], after["readiness_reasons"]) == ("agent", "human", ["run 3 times"])
    assert taken["status"] == "empty"
    assert "run 3 times" in str(why)
    assert "baton ready task-a" in str(why)
    assert (agents_word["status"], still["readiness"]) == ("skipped", "human")
    assert forgiven["readiness"] == "agent"
    (event,) = (await server.ask("GET", f"/v1/events?kind=node.readiness&node={NODE}"))["events"]
    assert event["data"] == {"readiness": "agent", "runs_forgiven": 3}


async def test_what_failed_in_its_surroundings_costs_the_item_nothing(server: InProcessServer, mill: str) -> None:
    replies = [await run(server, mill, f"n{i}", termination_class="environment") for i in range(LIMIT)]

    assert not any("counts" in reply for reply in replies)
    assert (await item(server))["readiness"] == "agent"


async def test_a_tenure_counts_once_whatever_is_sent_of_it(
    server: InProcessServer, pat: str, mill: str, clock: ManualClock
) -> None:
    epoch = await tenure(server, mill, "n1")
    for name, fields in (("run-a", {}), ("run-a", {"steps": 2}), ("run-b", {}), ("run-c", {"attempt": 4})):
        await server.ask("PUT", f"/v1/runs/{name}", settled("n1", epoch, **fields), token=mill)
    await server.ask("PUT", "/v1/policy/mail", {"run_limit": 1})
    once = await item(server)
    await server.ask("POST", f"/v1/nodes/{NODE}/readiness", {"readiness": "agent"}, token=pat)
    clock.advance(2 * RUNS_KEPT)
    await retention.sweep(server.store)
    again = await server.ask("PUT", "/v1/runs/run-a", settled("n1", epoch), token=mill)

    assert once["readiness_reasons"] == ["run 1 times"]
    assert (again["status"], "counts" in again) == ("created", False), "forgiven, and forgotten but for that"
    assert (await item(server))["readiness"] == "agent"


@pytest.mark.parametrize(
    "lie", [{"dispatch": "made-up"}, {"dispatch": None}, {"epoch": 99}, {"node_id": "task-nowhere"}], ids=str
)
async def test_a_run_that_no_claim_stands_behind_counts_for_nothing(
    server: InProcessServer, mill: str, lie: dict[str, Any]
) -> None:
    await server.ask("PUT", "/v1/policy/mail", {"run_limit": 1})
    epoch = await tenure(server, mill, "n1")

    reply = await server.ask("PUT", "/v1/runs/liar", settled("n1", epoch, **lie), token=mill)

    assert "counts" not in reply
    assert (await item(server))["readiness"] == "agent"


async def test_a_run_that_counts_goes_on_counting_whatever_is_said_of_it_later(
    server: InProcessServer, mill: str
) -> None:
    await run(server, mill, "n1")

    later = await server.ask(
        "PUT", "/v1/runs/run-n1", settled("n1", 1, attempt=2, termination_class="environment"), token=mill
    )

    assert (later["status"], later["counts"]) == ("updated", True)


async def test_a_lower_limit_counts_what_there_was(server: InProcessServer, mill: str) -> None:
    await run(server, mill, "n1")
    await server.ask("PUT", "/v1/policy/mail", {"run_limit": 1})

    taken = await server.ask("POST", "/v1/queue/next", {"accept": "ready"}, token=mill)

    assert taken["status"] == "empty"


async def test_runs_that_are_settled_at_once_are_all_counted_and_each_once(server: InProcessServer, mill: str) -> None:
    epochs = {nonce: await tenure(server, mill, nonce) for nonce in ("n1", "n2", "n3")}
    together = asyncio.Barrier(2 * len(epochs))

    async def send(nonce: str, epoch: int, name: str) -> bool:
        await together.wait()
        reply = await server.ask("PUT", f"/v1/runs/{name}-{nonce}", settled(nonce, epoch), token=mill)
        return bool(reply.get("counts"))

    counted = await asyncio.gather(*[send(*each, name) for each in epochs.items() for name in ("one", "other")])

    assert sum(counted) == len(epochs)
    assert (await item(server))["readiness_reasons"] == ["run 3 times"]


async def test_a_run_settled_while_a_person_forgives_is_counted_before_or_after_and_never_lost(
    server: InProcessServer, pat: str, mill: str
) -> None:
    await server.ask("PUT", "/v1/policy/mail", {"run_limit": 1})
    epoch = await tenure(server, mill, "n1")
    together = asyncio.Barrier(2)

    async def settle() -> None:
        await together.wait()
        await server.ask("PUT", "/v1/runs/run-n1", settled("n1", epoch), token=mill)

    async def forgive() -> None:
        await together.wait()
        await server.ask("POST", f"/v1/nodes/{NODE}/readiness", {"readiness": "agent"}, token=pat)

    await asyncio.gather(settle(), forgive())

    events = (await server.ask("GET", f"/v1/events?kind=node.readiness&node={NODE}"))["events"]
    forgiven = sum(event["data"].get("runs_forgiven", 0) for event in events)
    stands = (await item(server))["readiness"] == "human"
    assert forgiven + stands == 1
