"""Calls of `next` that come together (D15, D16): one look at the head, one transaction, each another item."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.server.test_queue import put, take, task

from batonpass.store import postgres, sqlite
from batonpass.store import taking as stored
from batonpass.store.base import Reader, Row, Statement
from batonpass.testing import points
from batonpass.testing.server import InProcessServer
from batonpass.testing.waits import until_gathered

pytestmark = pytest.mark.anyio

AGENTS = 12
QUESTIONS_MAX = 3
"""The clock, who reserves, what has lapsed, the head of the queue; then the locks, and the facts under them."""


@pytest.fixture
async def crowd(server: InProcessServer) -> list[str]:
    """The tokens of agents that come together."""
    return [await server.add_agent(f"crowd-{n}") for n in range(AGENTS)]


async def together(server: InProcessServer, tokens: list[str], **wish: object) -> list[Any]:
    """Let everybody call at once: the first is held until the others have gathered behind it."""
    async with points.held("next.chosen") as door:
        first = asyncio.create_task(take(server, tokens[0], **wish))
        await door.reached()
        others = [asyncio.create_task(take(server, token, **wish)) for token in tokens[1:]]
        if len(set(tokens)) == len(tokens):  # of the twins of a launch one is in a set
            await until_gathered(server.app.state.services.queue.taking, calls=len(others))
    return [await call for call in (first, *others)]


def item_of(answer: Any) -> str | None:  # noqa: ANN401 — JSON
    return answer["item"]["id"] if answer["status"] == "claimed" else None


async def test_each_gets_another_item_and_the_best_are_gone_first(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, *(task(f"p1-{n:02}", priority="p1") for n in range(AGENTS)), task("low", priority="p3"))

    taken = [item_of(answer) for answer in await together(server, crowd)]

    assert sorted(map(str, taken)) == [f"task-p1-{n:02}" for n in range(AGENTS)]


async def test_they_share_transactions(
    server: InProcessServer, crowd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(server, *(task(f"{n:02}") for n in range(AGENTS)))
    looks: list[int] = []
    reserving_asked = stored.reserving_asked

    def noting(callers: Any) -> Any:  # noqa: ANN401 — passed on
        looks.append(len(callers))
        return reserving_asked(callers)

    monkeypatch.setattr(stored, "reserving_asked", noting)
    answers = await together(server, crowd)

    assert Counter(answer["status"] for answer in answers) == {"claimed": AGENTS}
    assert sum(looks) == AGENTS, "nobody had to come again"
    assert looks == [1, AGENTS - 1]


async def test_when_there_are_fewer_items_than_calls_the_rest_is_told_so(
    server: InProcessServer, crowd: list[str]
) -> None:
    await put(server, task("a"), task("b"))

    taken = [item_of(answer) for answer in await together(server, crowd)]

    assert sorted(filter(None, taken)) == ["task-a", "task-b"]
    assert taken.count(None) == AGENTS - 2


async def test_what_is_routed_to_somebody_goes_to_nobody_else(server: InProcessServer, crowd: list[str]) -> None:
    routed = [
        task(f"for-{n}", priority="p1", edges=[{"type": "assigned", "to": f"agent-crowd-{n}"}]) for n in range(AGENTS)
    ]
    await put(server, *routed, task("free", priority="p3"), ready=False)

    taken = [item_of(answer) for answer in await together(server, crowd)]

    assert taken == [f"task-for-{n}" for n in range(AGENTS)]


async def test_one_who_finds_only_what_is_routed_to_others_gets_what_ranks_behind_it(
    server: InProcessServer, crowd: list[str]
) -> None:
    routed = [
        task(f"for-{n:02}", priority="p1", edges=[{"type": "assigned", "to": "agent-crowd-0"}]) for n in range(40)
    ]
    await put(server, *routed, ready=False)
    await put(server, task("free", priority="p3"))

    assert item_of(await take(server, crowd[1])) == "task-free"
    assert item_of(await take(server, crowd[2])) is None


async def test_twins_of_one_launch_get_one_item(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, task("a"), task("b"))

    answers = await together(server, [crowd[0]] * AGENTS, dispatch="launch-1")

    assert {item_of(answer) for answer in answers} == {item_of(answers[0])}
    assert {answer["lease"]["epoch"] for answer in answers} == {1}
    assert item_of(await take(server, crowd[1])) is not None, "the other item is still there"


async def test_launches_of_one_agent_get_an_item_each(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, *(task(f"{n}") for n in range(3)))

    answers = await asyncio.gather(*(take(server, crowd[0], dispatch=f"launch-{n}") for n in range(3)))

    assert len({item_of(answer) for answer in answers}) == len(answers)


async def test_a_limit_of_claims_holds_within_a_set(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, *(task(f"{n}") for n in range(4)))
    await server.ask("PUT", "/v1/policy/*", {"max_claims": 2})

    responses = await asyncio.gather(
        *(server.send("POST", "/v1/queue/next", {"dispatch": f"n{n}"}, token=crowd[0]) for n in range(4))
    )

    assert Counter(response.status_code for response in responses) == {200: 2, 409: 2}


async def test_what_each_excludes_or_names_is_its_own(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, task("a", priority="p1"), task("b", priority="p2"), task("c", priority="p3"))

    excluding, naming, plain = await asyncio.gather(
        take(server, crowd[0], exclude=["task-a", "task-b"]),
        take(server, crowd[1], candidates=["task-b", "task-a"]),
        take(server, crowd[2]),
    )

    assert [item_of(answer) for answer in (excluding, naming, plain)] == ["task-c", "task-b", "task-a"]


async def test_a_broken_fence_refuses_its_own_call_only(server: InProcessServer, crowd: list[str]) -> None:
    await put(server, task("stood-on"), task("a"), task("b"), ready=False)
    for node in ("task-a", "task-b"):
        await server.ask("POST", f"/v1/nodes/{node}/readiness", {"readiness": "agent"})
    stale = {"If-Lease": "task-stood-on; epoch=7"}

    refused, taken = await asyncio.gather(
        server.send("POST", "/v1/queue/next", {}, token=crowd[0], headers=stale), take(server, crowd[1])
    )

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "lease_lost")
    assert item_of(taken) is not None
    assert item_of(await take(server, crowd[2])) is not None, "what the refused call was shown is still free"


async def test_one_alone_takes_an_item_in_three_questions(
    server: InProcessServer, crowd: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(server, task("a"), task("b"))
    await take(server, crowd[0])
    asked: list[list[str]] = []

    def counting(fetch: Callable[..., Awaitable[list[list[Row]]]]) -> Callable[..., Awaitable[list[list[Row]]]]:
        async def counted(self: Reader, *statements: Statement) -> list[list[Row]]:
            asked.append([statement.name for statement in statements])
            return await fetch(self, *statements)

        return counted

    # No public door tells round trips apart.
    for reader in (postgres.PostgresReader, sqlite.SqliteReader):
        monkeypatch.setattr(reader, "fetch", counting(reader.fetch))
    answer = await take(server, crowd[1])

    assert answer["status"] == "claimed"
    of_next = [names for names in asked if "tokens.known" not in names]
    assert len(of_next) <= QUESTIONS_MAX, of_next
