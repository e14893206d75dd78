"""A hundred items, six slots in two workers, and kill -9 for agent programs, supervisors and workers at random.

Short in the suite, on SQLite; a minute on each database with ``BATON_SOAK=whole``. ``BATON_SOAK_SEED`` draws others,
``BATON_SOAK_S`` says for how many seconds (`just chaos`: ten minutes).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
from tests.soak.conftest import Size

from batonpass.testing.account import told_of
from batonpass.testing.chaos import PROJECT, Mill
from batonpass.testing.chaos_audit import account, audit
from batonpass.testing.fleet import fleet
from batonpass.wire.policy import PolicyRequest

ITEMS: Final = 100
SEED: Final = 5
BEGINNING: Final = "0-0"
"""The position before the first event."""
TTL_MS: Final = 8_000
LIMIT: Final = 1_000
"""How often an item may lapse and be run before a person is asked: killing costs it more than it may cost itself."""


def table(title: str, starts: Mapping[str, int], kills: Mapping[str, int], ends: Mapping[str, int]) -> str:
    """Return what was done and what became of the items as lines of two columns."""
    rows = [*starts.items(), *((f"killed -9: {whom}", many) for whom, many in sorted(kills.items()))]
    rows += [(f"items: {end}", many) for end, many in sorted(ends.items())]
    return "\n".join([title, *(f"  {what:<40}{many:>6}" for what, many in rows)])


@pytest.mark.timeout(900)
def test_items_of_workers_that_are_killed_at_random_all_come_to_an_end_once(
    database_url: str, tmp_path: Path, size: Size, say: Callable[[object], None]
) -> None:
    if database_url.startswith("postgres") and not size.whole:
        pytest.skip("on PostgreSQL it is part of the whole soak only")
    seconds = float(os.environ.get("BATON_SOAK_S", size.of(12, 60)))
    seed = int(os.environ.get("BATON_SOAK_SEED", SEED))
    with fleet(database_url, tmp_path) as box, Mill(box, seed) as mill:
        limits = PolicyRequest(claim_ttl_ms=TTL_MS, lapse_limit=LIMIT, run_limit=LIMIT, max_claims=LIMIT)
        box.person.put_policy(PROJECT, limits)
        items = [box.add_item(f"task-{n:03}", project=PROJECT) for n in range(ITEMS)]
        mill.play(seconds=seconds)
        unsettled = mill.drain()
        found = account(box, items)
        events = asyncio.run(told_of(database_url, after=BEGINNING))
        wrong = audit(box, mill, found, events)
        runs = mill.records()
        said, told = mill.said, mill.told()

    say(
        table(f"seed {seed}, {seconds:.0f} s: {len(runs)} runs", {"worker starts": mill.starts}, mill.kills, found.ends)
    )
    assert unsettled == []
    assert wrong == [], said[-2_000:]
    landed = sum(line.get("status") == HTTPStatus.OK for line in told)
    assert landed > 0, "none of the programs wrote anything, so none could have written too late"
    assert sum(found.ends.values()) == ITEMS
    assert min(mill.kills[whom] for whom in ("harness", "supervisor", "worker")) > 0, "nobody of a kind was killed"
