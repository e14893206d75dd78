"""One open store a test, on either database, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from batonpass.store.base import Store
from batonpass.store.open import open_store
from batonpass.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """The database's clock."""
    return ManualClock()


@pytest.fixture
async def store(database_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """A store over a fresh database."""
    opened = await open_store(database_url, clock=clock)
    try:
        yield opened
    finally:
        await opened.close()
