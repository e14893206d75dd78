"""A server killed between a change's COMMIT and what follows it: the index lags, what it shows does not (D16)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from batonpass.core import ranking
from batonpass.core.readiness import Ready
from batonpass.server.services.ranking import FANOUT_MAX, refresh
from batonpass.store.open import open_store
from batonpass.store.ranking import Narrow, census
from batonpass.testing.clock import SharedClock
from batonpass.testing.crew import Gathered
from batonpass.testing.processes import ServerProcess, server_process

PROJECT: Final = "hub"
NEIGHBOURS: Final = FANOUT_MAX + 44
"""More than a change derives in its own transaction."""
KILLED: Final = -signal.SIGKILL


@pytest.fixture
def clock(tmp_path: Path) -> SharedClock:
    """What the servers of a test go by, and the crew's tokens."""
    return SharedClock(tmp_path / "clock")


def ask(server: ServerProcess, token: str, method: str, path: str, *, body: object = None) -> Any:  # noqa: ANN401 — JSON
    sent = {"Authorization": f"Bearer {token}"}
    reply = httpx.request(method, f"{server.url}{path}", json=body, headers=sent, timeout=30)
    assert reply.is_success, reply.text
    return reply.json()


def task(name: str, *edges: tuple[str, str], kind: str = "task", **more: object) -> dict[str, object]:
    node = {"id": f"{kind}-{name}", "type": kind, "title": name, "summary": name, "project": PROJECT, **more}
    return {**node, "edges": [{"type": type_, "to": to} for type_, to in edges]}


def put(server: ServerProcess, token: str, *nodes: dict[str, object]) -> None:
    reply = ask(server, token, "POST", "/v1/nodes", body={"nodes": list(nodes)})
    assert all(result["ok"] for result in reply["results"]), reply


def put_and_die(server: ServerProcess, token: str, *nodes: dict[str, object]) -> None:
    with pytest.raises(httpx.TransportError):
        put(server, token, *nodes)
    assert server.died() == KILLED


def indexed(url: str) -> dict[Ready | None, int]:
    """Return how many items the index has for whom."""

    async def look() -> dict[Ready | None, int]:
        store = await open_store(url)
        try:
            async with store.read() as tx:
                counts: dict[Ready | None, int] = {}
                for tally in await census(tx, Narrow((PROJECT,)), ranking.lanes(), today=0):
                    ready = ranking.ready_of(tally.lane)
                    counts[ready] = counts.get(ready, 0) + tally.count
                return counts
        finally:
            await store.close()

    return asyncio.run(look())


def refresh_all(url: str, clock: SharedClock) -> None:
    async def run() -> None:
        store = await open_store(url, clock=clock)
        try:
            assert not await refresh(store, rounds=100)
        finally:
            await store.close()

    asyncio.run(run())


def hub(gathered: Gathered, clock: SharedClock, *, dies_at: str) -> None:
    """File tasks that are ready for agents around a question, and then the question; a server dies over that one."""
    tasks = [task(f"{n:03}", ("mentions", "question-hub"), readiness="agent") for n in range(NEIGHBOURS)]
    with server_process(gathered.url, clock=clock) as server:
        for first in range(0, NEIGHBOURS, 100):
            put(server, gathered.tokens["ada"], *tasks[first : first + 100])
    refresh_all(gathered.url, clock)
    with server_process(gathered.url, clock=clock, points=f"{dies_at}:kill") as doomed:
        put_and_die(doomed, gathered.tokens["ada"], task("hub", kind="question"))


@pytest.mark.parametrize("point", ["rank.noted", "rank.derived"])
def test_an_index_that_lags_behind_a_killed_server_shows_nothing_ineligible(
    gathered: Gathered, clock: SharedClock, point: str
) -> None:
    hub(gathered, clock, dies_at=point)
    assert indexed(gathered.url).get(Ready.AGENT, 0) > 0, "nothing lags, so nothing is tested"

    with server_process(gathered.url, clock=clock) as server:
        page = ask(server, gathered.tokens["ada"], "GET", f"/v1/queue?project={PROJECT}&limit=100")
        assert {item["readiness"] for item in page["items"]} == {"human"}
        ready = ask(server, gathered.tokens["ada"], "GET", f"/v1/queue?project={PROJECT}&readiness=agent")
        assert ready["items"] == []
        taken = ask(server, gathered.tokens["a1"], "POST", "/v1/queue/next", body={"project": PROJECT})
        assert taken == {"ok": True, "status": "empty"}

    refresh_all(gathered.url, clock)
    assert indexed(gathered.url) == {Ready.HUMAN: NEIGHBOURS + 1}, "what a killed server left is taken up by any other"


@pytest.mark.parametrize("point", ["event.written", "rank.noted"])
def test_eligibility_is_committed_with_the_change_or_not_at_all(
    gathered: Gathered, clock: SharedClock, point: str
) -> None:
    nth = {"event.written": 2, "rank.noted": 1}[point]
    with server_process(gathered.url, clock=clock, points=f"{point}@{nth}:kill") as doomed:
        put(doomed, gathered.tokens["ada"], task("a", readiness="agent"))
        put_and_die(doomed, gathered.tokens["ada"], task("b", ("blocks", "task-a")))

    with server_process(gathered.url, clock=clock) as server:
        page = ask(server, gathered.tokens["ada"], "GET", f"/v1/queue?project={PROJECT}")
        shown = [item["id"] for item in page["items"]]
        committed = point == "rank.noted"
        assert (shown, page.get("blocked", 0)) == ((["task-b"], 1) if committed else (["task-a"], 0))
        taken = ask(server, gathered.tokens["a1"], "POST", "/v1/queue/next", body={"project": PROJECT})
        assert taken["status"] == ("empty" if committed else "claimed")
