"""H5: two hundred pollers that die at random for a minute leave no item with nobody for more than another (D9, D15).

In the suite the clock is the test's, so the minute after takes no time; the whole soak goes by the database's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from tests.soak.conftest import Size

from batonpass.core.ids import Resource
from batonpass.store.leases import leases_of
from batonpass.store.open import open_store
from batonpass.testing.account import admit, tenures_of, told_of
from batonpass.testing.clock import SharedClock
from batonpass.testing.crowd import PROJECT, Caller, Crowd, crowd_around
from batonpass.testing.mortals import mortals
from batonpass.testing.processes import server_process

pytestmark = pytest.mark.anyio

AGENTS: Final = 20
MINUTE_S: Final = 60
SLACK_S: Final = 1
NOTICED_S_MAX: Final = 10
"""How long after its lease an item may be handed on, on a busy machine: looks follow each other in a second."""


async def file_items(writer: Caller, many: int) -> list[str]:
    ids = [f"task-{n:04}" for n in range(many)]
    for first in range(0, many, 100):
        nodes = [
            {"id": id_, "type": "task", "title": id_, "summary": "x", "project": PROJECT, "readiness": "agent"}
            for id_ in ids[first : first + 100]
        ]
        assert (await writer.change("put", "/v1/nodes", {"nodes": nodes})).ok
    return ids


async def take_all(taker: Caller) -> list[str]:
    """Take what there is until there is nothing."""
    taken: list[str] = []
    while True:
        reply = await taker.ask("next", "POST", "/v1/queue/next", body={"project": PROJECT})
        if reply.body["status"] == "empty":
            return sorted(taken)
        taken.append(reply.body["item"]["id"])


async def lapses(url: str, ids: list[str]) -> set[int]:
    store = await open_store(url)
    try:
        async with store.read() as tx:
            return {lease.lapses for lease in (await leases_of(tx, [Resource(id_) for id_ in ids])).values()}
    finally:
        await store.close()


def overtaken(wrong: tuple[str, int, object]) -> bool:
    """Whether it is a release that came after its minute: the clock was moved while its holder was at work."""
    what, status, told = wrong
    return (what, status) == ("release", 409) and "'code': 'lease_lost'" in str(told)


async def survive(crowd: Crowd, many: int, over: asyncio.Event) -> None:
    pollers = [crowd.poller(number) for number in range(many)]
    for poller in pollers:
        poller.resolves_of_ten = poller.abandons_of_ten = 0
    await asyncio.gather(*(poller.run(over) for poller in pollers))


@pytest.mark.timeout(400)
async def test_h5_what_pollers_leave_who_die_at_random_is_with_nobody_for_a_minute_at_most(
    database_url: str, tmp_path: Path, size: Size, say: Callable[[object], None]
) -> None:
    clock = None if size.whole else SharedClock(tmp_path / "clock")
    people = await admit(database_url, agents=AGENTS, clock=clock)
    with server_process(database_url, clock=clock) as server:
        async with crowd_around([server.port], people, wait_s=size.of(2, 20)) as crowd:
            writer = crowd.writer(0)
            strict = await writer.ask("policy", "PUT", "/v1/policy/*", body={"lapse_limit": 1, "max_claims": 1000})
            assert strict.ok, "one lapse that counts, and an item is never offered again"
            items = await file_items(writer, size.of(60, 600))
            start, over = await crowd.listen(), asyncio.Event()
            surviving = asyncio.create_task(survive(crowd, size.of(4, 20), over))
            async with mortals(crowd, many=size.of(40, 200), herds=size.of(2, 8)) as doomed:
                await doomed.reap(seconds=size.of(3, MINUTE_S), each_s=0.1)
                await doomed.die_out()
                # Of those who fell silent the server knows nothing: they are given items until their waits are over.
                await asyncio.wait([surviving], timeout=crowd.wait_s + SLACK_S)
                if clock is not None:
                    clock.advance(timedelta(seconds=MINUTE_S))
                else:
                    await asyncio.wait([surviving], timeout=MINUTE_S + NOTICED_S_MAX)
                over.set()
                await surviving
                taken = await take_all(crowd.poller(0))
                events = await told_of(database_url, after=start)

    tenures = tenures_of(events)
    left = [tenure for tenure in tenures if tenure.ended is not None and not tenure.released]
    say(f"{doomed.deaths}; {len(tenures)} tenures, {len(left)} of them left by the dead and taken on")
    assert [one for one in crowd.diary.wrong if clock is None or not overtaken(one)] == []
    assert len(left) > 0, "nobody died with an item in hand"
    assert min(tenure.lasted_s for tenure in left) >= MINUTE_S, "nobody lost an item to somebody before its time"
    assert taken == items, "a minute after the last could be given to one of the dead, each is there again"
    assert await lapses(database_url, items) == {0}
