"""H18: what is no lapse, through the API: with a limit of one, an item that counted one is a person's (D9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import PROJECT, Crew

pytestmark = pytest.mark.anyio

ITEM: Final = "task-1"
TTL: Final = timedelta(minutes=45)
A_MINUTE: Final = timedelta(seconds=60)
GRACE: Final = timedelta(hours=48)
RUNS: Final = 10

Story = Callable[[Crew, ManualClock], Awaitable[None]]


async def file(team: Crew, who: str, node: str, type_: str, *edges: tuple[str, str]) -> None:
    """Write a node of `who` with its edges."""
    stood_on = [{"type": kind, "to": to} for kind, to in edges]
    wrote = await team.write(who, {"id": node, "type": type_, "title": node, "summary": "said", "edges": stood_on})
    assert [result["ok"] for result in wrote.body["results"]] == [True], wrote


async def claim(team: Crew, who: str, node: str = ITEM) -> int:
    """Claim as an ordinary launch does, and return the epoch."""
    return (await team.verb(who, "claim", node)).epoch


# What does not count


async def a_reservation_that_ran_out(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    assert (await team.verb("a1", "reserve", ITEM)).ok
    clock.advance(GRACE)


async def a_run_that_slept_and_resumed(team: Crew, clock: ManualClock) -> None:
    epoch = await claim(team, "a1")
    for _ in range(3):
        clock.advance(TTL)
        assert (await team.verb("a1", "renew", ITEM, if_epoch=epoch)).epoch == epoch
    assert (await team.verb("a1", "release", ITEM, if_epoch=epoch)).ok


async def a_persons_own_claim(team: Crew, clock: ManualClock) -> None:
    await claim(team, "ann")
    clock.advance(TTL)


async def a_grant_of_next_that_nobody_renewed(team: Crew, clock: ManualClock) -> None:
    taken = await team.queue("a1", "next", candidates=[ITEM])
    assert taken.body["item"]["id"] == ITEM
    clock.advance(A_MINUTE)


async def a_run_that_left_its_report(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    await file(team, "a1", "art-report", "artifact", ("relates-to", ITEM))
    clock.advance(TTL)


async def a_run_that_declined(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    await file(team, "a1", "find-declined", "finding", ("relates-to", ITEM))
    clock.advance(TTL)


async def resolve_and_lapse(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    await file(team, "a1", "dec-done", "decision", ("resolves", ITEM))
    clock.advance(TTL)


async def resolved_and_the_resolver_was_rejected(team: Crew, clock: ManualClock) -> None:
    await resolve_and_lapse(team, clock)
    assert (await team.verb("ada", "status", "dec-done", status="rejected")).ok


async def resolved_and_the_resolver_was_superseded(team: Crew, clock: ManualClock) -> None:
    await resolve_and_lapse(team, clock)
    await file(team, "ada", "dec-not-so", "decision", ("supersedes", "dec-done"))


EXCUSED: Final[tuple[Story, ...]] = (
    a_reservation_that_ran_out,
    a_run_that_slept_and_resumed,
    a_persons_own_claim,
    a_grant_of_next_that_nobody_renewed,
    a_run_that_left_its_report,
    a_run_that_declined,
    resolved_and_the_resolver_was_rejected,
    resolved_and_the_resolver_was_superseded,
)

# What does


async def a_run_that_left_nothing(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    clock.advance(TTL)


async def a_grant_of_next_that_was_renewed(team: Crew, clock: ManualClock) -> None:
    taken = await team.queue("a1", "next", candidates=[ITEM])
    assert (await team.verb("a1", "renew", ITEM, if_epoch=taken.epoch)).ok
    clock.advance(TTL)


async def a_run_of_which_only_somebody_else_wrote(team: Crew, clock: ManualClock) -> None:
    await claim(team, "a1")
    await file(team, "b1", "art-gossip", "artifact", ("relates-to", ITEM))
    clock.advance(TTL)


async def a_report_from_before_the_tenure(team: Crew, clock: ManualClock) -> None:
    await file(team, "a1", "art-earlier", "artifact", ("relates-to", ITEM))
    clock.advance(A_MINUTE)
    await claim(team, "a1")
    clock.advance(TTL)


COUNTED: Final[tuple[Story, ...]] = (
    a_run_that_left_nothing,
    a_grant_of_next_that_was_renewed,
    a_run_of_which_only_somebody_else_wrote,
    a_report_from_before_the_tenure,
)


async def readiness_after(team: Crew, clock: ManualClock, story: Story) -> tuple[str, list[str]]:
    """Play the story, let somebody else take the item and hand it back, and return what the queue says of it then."""
    await team.send("ada", "PUT", f"/v1/policy/{PROJECT}", {"lapse_limit": 1})
    assert (await team.verb("ada", "readiness", ITEM, readiness="agent")).ok
    await story(team, clock)
    taken = await team.verb("b1", "claim", ITEM)
    assert (await team.verb("b1", "release", ITEM, if_epoch=taken.epoch)).ok
    page = await team.send("ada", "GET", "/v1/queue?type=task")
    (item,) = (item for item in page.body["items"] if item["id"] == ITEM)
    return item["readiness"], item.get("readiness_reasons", [])


@pytest.mark.parametrize("story", EXCUSED)
async def test_h18_what_is_excused_leaves_the_item_ready(team: Crew, clock: ManualClock, story: Story) -> None:
    assert (await readiness_after(team, clock, story))[0] == "agent"


@pytest.mark.parametrize("story", COUNTED)
async def test_h18_a_lapse_that_left_nothing_makes_the_item_a_persons(
    team: Crew, clock: ManualClock, story: Story
) -> None:
    assert await readiness_after(team, clock, story) == ("human", ["lapsed 1 times"])


@pytest.mark.parametrize("kind, prefix", [("decision", "dec"), ("finding", "find")])
async def test_h18_ten_reported_runs_on_what_its_status_closes_leave_it_ready(
    team: Crew, clock: ManualClock, kind: str, prefix: str
) -> None:
    """Its lease is never released, by specification: each run ends by letting it lapse (D9, D10)."""
    node = f"{prefix}-much-discussed"
    await team.write("ada", {"id": node, "type": kind, "title": node, "summary": "open", "project": PROJECT})
    assert (await team.verb("ada", "readiness", node, readiness="agent")).ok

    for run in range(1, RUNS + 1):
        who = ("a1", "b1", "a2", "b2")[run % 4]
        assert await claim(team, who, node) == run
        await file(team, who, f"art-report-{run}", "artifact", ("relates-to", node))
        clock.advance(TTL)

    assert await claim(team, "a1", node) == RUNS + 1
    again = await team.verb("ada", "readiness", node, readiness="agent")
    assert again.body["status"] == "skipped", "it is ready as it was, and there is nothing to forgive"
