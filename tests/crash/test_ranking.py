"""A server killed between a change's COMMIT and what follows it: the index lags, what it shows does not (D16)."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from batonpass.core import ranking
from batonpass.core.readiness import Ready
from batonpass.server.services.ranking import FANOUT_MAX, refresh
from batonpass.store.counting import census
from batonpass.store.open import open_store
from batonpass.store.ranking import Narrow
from batonpass.testing.clock import SharedClock
from batonpass.testing.crew import Gathered
from batonpass.testing.points import wait_paused
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


def test_a_server_killed_when_all_is_derived_has_left_nothing_to_do(gathered: Gathered, clock: SharedClock) -> None:
    with server_process(gathered.url, clock=clock) as server:
        put(server, gathered.tokens["ada"], task("b", ("blocks", "task-a")), task("a", readiness="agent"))
    with server_process(gathered.url, clock=clock, points="rank.refreshed:kill") as doomed:
        put_and_die(
            doomed, gathered.tokens["ada"], {**task("c", ("resolves", "task-b"), kind="decision"), "id": "dec-c"}
        )

    assert indexed(gathered.url) == {Ready.AGENT: 1}


def test_two_changes_that_missed_each_other_over_two_hops_show_nothing_ineligible_when_both_servers_die(
    gathered_postgres: Gathered, clock: SharedClock, tmp_path: Path
) -> None:
    """One adds the edge that the other's effect would travel along, and neither locks what the other does.

    What blocks is a decision, which is no item and has no row in the index. On SQLite one follows the other (D42).
    """
    url, ada = gathered_postgres.url, gathered_postgres.tokens["ada"]
    with server_process(url, clock=clock) as server:
        resolver = {**task("over", ("resolves", "dec-first"), kind="decision"), "id": "dec-over"}
        blocker = {**task("first", kind="decision"), "id": "dec-first"}
        put(server, ada, blocker, resolver, task("then", readiness="agent"))
    refresh_all(url, clock)

    paused = tmp_path / "paused"
    spec = f"event.written:pause={paused}, rank.noted:kill"
    with ExitStack() as stack:
        blocking = stack.enter_context(server_process(url, clock=clock, points=spec))
        reopening = stack.enter_context(server_process(url, clock=clock, points="rank.noted:kill"))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        edge = {"type": "blocks", "to": "task-then"}
        adding = pool.submit(ask, blocking, ada, "POST", "/v1/nodes/dec-first/edges", body=edge)
        wait_paused(paused)
        with pytest.raises(httpx.TransportError):
            ask(reopening, ada, "POST", "/v1/nodes/dec-over/status", body={"status": "rejected"})
        paused.unlink()
        with pytest.raises(httpx.TransportError):
            adding.result()
        assert (blocking.died(), reopening.died()) == (KILLED, KILLED)

    assert indexed(url) == {Ready.AGENT: 1}, "nothing lags, so nothing is tested"
    with server_process(url, clock=clock) as server:
        page = ask(server, ada, "GET", f"/v1/queue?project={PROJECT}")
        assert (page["items"], page["blocked"]) == ([], 1)
        taken = ask(server, gathered_postgres.tokens["a1"], "POST", "/v1/queue/next", body={"project": PROJECT})
        assert taken == {"ok": True, "status": "empty"}
    refresh_all(url, clock)
    assert indexed(url).get(Ready.AGENT, 0) == 0
