"""H15 with a hundred thousand events: readers of two replicas get each once and in order (`feed-complete`, D15a).

Their writers pause between drawing numbers and committing, and one in ten is
rolled back. On PostgreSQL: SQLite's writers draw and commit one after the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest
from tests.soak.conftest import Size
from tests.traces.test_feed import WRITERS, Pauses, follow, read, replicas, write

from batonpass.testing.account import told_of
from batonpass.testing.crew import Gathered

pytestmark = pytest.mark.anyio

ROUNDS: Final = 40


@pytest.mark.timeout(400)
async def test_h15_of_a_hundred_thousand_events_none_is_missed_or_out_of_order(
    gathered_postgres: Gathered, size: Size, say: Callable[[object], None]
) -> None:
    each = size.of(10, 400)
    pauses, done = Pauses(random.Random(15), WRITERS), asyncio.Event()  # noqa: S311 — the same pauses each time
    async with replicas(gathered_postgres, 2) as servers:
        start = (await read(servers[0], after="now"))["next"]
        readers = [asyncio.create_task(follow(server, start, done)) for server in servers for _ in range(2)]
        stores = [servers[n % 2].store for n in range(WRITERS)]
        await asyncio.gather(
            *(write(store, f"task-{n}", pauses, rounds=ROUNDS, each=each) for n, store in enumerate(stores))
        )
        done.set()
        seen = await asyncio.gather(*readers)
        table = await told_of(gathered_postgres.url, after=start)

    expected = [(event.seq, event.node) for event in table]
    never_used = table[-1].seq - table[0].seq + 1 - len(table)
    say(f"{len(table)} events, {never_used} numbers never used")
    assert len(table) > WRITERS * ROUNDS * each * 8 // 10
    assert never_used > 0
    for reader in seen:
        assert [(seq, node) for seq, node, _ in reader] == expected, "each once, in the order of the table"
        for name in {node for _, node, _ in reader}:
            happened = [n for _, node, n in reader if node == name]
            assert happened == sorted(set(happened)), "for one node, in the order in which it happened"
