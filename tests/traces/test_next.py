"""H5: `queue/next` hands out what is free under its lock, and a lost answer costs a minute at most (law 1, D15)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import PROJECT, Answer, Crew
from batonpass.testing.points import held

pytestmark = pytest.mark.anyio

FIRST, SECOND = "task-1", "task-2"
A_MINUTE: Final = timedelta(seconds=60)


async def make_ready(team: Crew, *nodes: str) -> None:
    for node in nodes:
        assert (await team.verb("ada", "readiness", node, readiness="agent")).ok


async def pick_while(team: Crew, change: Any, **wish: object) -> tuple[Answer, Answer]:  # noqa: ANN401 — a coroutine
    """Let b1 ask for an item of two, and `change` happen after it has looked and before anything is locked."""
    async with held("next.chosen") as door:
        picking = asyncio.create_task(team.queue("b1", "next", at=1, project=PROJECT, **wish))
        await door.reached()
        changed = await change
    return await picking, changed


@pytest.mark.parametrize("wish", [{}, {"candidates": [FIRST, SECOND]}], ids=["best", "named"])
async def test_h5a_what_was_claimed_between_the_look_and_the_lock_is_given_to_nobody_else(
    team: Crew, wish: dict[str, object]
) -> None:
    """The row is free to be locked, and the look is old: whoever goes by the look gives one item to two."""
    await make_ready(team, FIRST, SECOND)

    picked, claimed = await pick_while(team, team.verb("a1", "claim", FIRST), **wish)

    assert claimed.epoch == 1
    assert picked.body["item"]["id"] == SECOND
    assert ((await team.row(FIRST)).holder, (await team.row(SECOND)).holder) == ("agent-a1", "agent-b1")


async def test_h5a_what_was_claimed_and_released_meanwhile_is_given_as_another_tenure(team: Crew) -> None:
    """One was told epoch 1; an epoch counted on from the look would be told twice."""
    await make_ready(team, FIRST)

    async def claim_and_release() -> Answer:
        claimed = await team.verb("a1", "claim", FIRST)
        assert (await team.verb("a1", "release", FIRST, if_epoch=claimed.epoch)).ok
        return claimed

    picked, claimed = await pick_while(team, claim_and_release())

    assert (claimed.epoch, picked.epoch) == (1, 2)
    assert (await team.row(FIRST)).epoch == 2


@pytest.mark.parametrize("end", ["blocked", "done", "closed", "withdrawn"])
async def test_h5a_what_was_taken_off_the_queue_meanwhile_is_not_given(team: Crew, end: str) -> None:
    await make_ready(team, FIRST, SECOND)
    decision = {"id": "dec-x", "type": "decision", "title": "x", "summary": "x"}
    changes = {
        "blocked": lambda: team.send("ada", "POST", f"/v1/nodes/{SECOND}/edges", {"type": "blocks", "to": FIRST}),
        "done": lambda: team.write("ada", {**decision, "edges": [{"type": "resolves", "to": FIRST}]}),
        "closed": lambda: team.verb("ada", "status", FIRST, status="abandoned"),
        "withdrawn": lambda: team.verb("ada", "readiness", FIRST, readiness="clear"),
    }

    picked, changed = await pick_while(team, changes[end]())

    assert changed.ok
    assert picked.body["item"]["id"] == SECOND
    assert (await team.row(FIRST)).epoch == 0


async def test_h5c_a_lost_answer_is_given_again_to_the_same_launch_and_takes_nothing_more(team: Crew) -> None:
    await make_ready(team, FIRST, SECOND)

    lost = await team.queue("a1", "next", project=PROJECT, dispatch="u1")
    again = await team.queue("a1", "next", at=1, project=PROJECT, dispatch="u1")

    assert (again.body["item"]["id"], again.epoch) == (lost.body["item"]["id"], lost.epoch) == (FIRST, 1)
    assert (await team.row(SECOND)).epoch == 0


async def test_h5c_a_lost_answer_without_a_nonce_costs_its_item_a_minute_and_counts_for_nothing(
    team: Crew, clock: ManualClock
) -> None:
    await make_ready(team, FIRST, SECOND)
    await team.send("ada", "PUT", f"/v1/policy/{PROJECT}", {"lapse_limit": 1})

    lost = await team.queue("a1", "next", project=PROJECT)
    again = await team.queue("a1", "next", project=PROJECT)
    in_vain = await team.queue("b1", "next", project=PROJECT)
    clock.advance(A_MINUTE)
    later = await team.queue("b1", "next", at=1, project=PROJECT)

    assert (lost.body["item"]["id"], again.body["item"]["id"], in_vain.body["status"]) == (FIRST, SECOND, "empty")
    assert (later.body["item"]["id"], later.epoch) == (FIRST, 2)
    assert (await team.row(FIRST)).lapses == 0


async def test_h5c_a_launch_that_asks_again_after_a_minute_goes_on_unless_somebody_came(
    team: Crew, clock: ManualClock
) -> None:
    await make_ready(team, FIRST, SECOND)
    lost = await team.queue("a1", "next", candidates=[FIRST], dispatch="u1")
    other = await team.queue("a2", "next", candidates=[SECOND], dispatch="u2")
    clock.advance(A_MINUTE)
    taken = await team.queue("b1", "next", at=1, candidates=[SECOND])

    resumed = await team.queue("a1", "next", candidates=[FIRST, SECOND], dispatch="u1")
    refused = await team.queue("a2", "next", candidates=[FIRST, SECOND], dispatch="u2")

    assert (lost.epoch, resumed.epoch, resumed.body["item"]["id"]) == (1, 1, FIRST)
    assert (other.epoch, taken.epoch) == (1, 2)
    assert refused.body.get("item") is None, "its item is another's, and a nonce acquires nothing again"
