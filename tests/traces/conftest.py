"""The crew around the real server in process, on either database, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, Gathered, crew


@pytest.fixture
def clock() -> ManualClock:
    """The database's clock."""
    return ManualClock()


@pytest.fixture
async def team(gathered: Gathered, clock: ManualClock) -> AsyncIterator[Crew]:
    """Ada, Ann and Ben, their agents and six free tasks, around two servers over one database."""
    async with crew(gathered, clock=clock, servers=2) as running:
        yield running
