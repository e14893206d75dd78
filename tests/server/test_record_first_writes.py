"""First writes of a record that come together: one makes it, the others come after (D32, D33, D44)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CLAIM, R, Scene, incidents
from batonpass.testing.points import held
from batonpass.testing.server import in_process_server

pytestmark = pytest.mark.anyio

STATUS: Final = f"{R}/fields/status"
ACTIONS: Final = f"{R}/fields/actions"


@pytest.fixture
async def scene(postgres_url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    """On PostgreSQL: on SQLite nobody comes between the statements of a write."""
    async with in_process_server(postgres_url, clock=clock) as server:
        yield await incidents(server, postgres_url)


async def test_a_field_that_was_put_meanwhile_is_at_its_next_version(scene: Scene) -> None:
    async with held("idem.inserted") as door:
        late = asyncio.create_task(scene.send("mill", "PUT", STATUS, {"value": "open"}, Idempotency_Key="one"))
        await door.reached()
        assert (await scene.ask("rival", "PUT", STATUS, {"value": "closed"}))["version"] == 1
        door.open()

        assert (await late).json()["version"] == 2


async def test_a_premise_that_there_was_nothing_is_broken_by_whoever_wrote_first(scene: Scene) -> None:
    body = {"value": "open", "based_on": [{"field": "status", "version": 0}]}
    async with held("idem.inserted") as door:
        late = asyncio.create_task(scene.send("mill", "PUT", STATUS, body, Idempotency_Key="one"))
        await door.reached()
        await scene.ask("rival", "PUT", STATUS, {"value": "closed"})
        door.open()

        assert (await late).json()["error"] == "STALE_PREMISE"


async def test_a_premise_that_nobody_had_claimed_is_broken_by_a_claim_that_made_the_record(scene: Scene) -> None:
    body = {"value": "open", "based_on": [{"field": "remediation", "version": 0}]}
    async with held("idem.inserted") as door:
        late = asyncio.create_task(scene.send("mill", "PUT", STATUS, body, Idempotency_Key="one"))
        await door.reached()
        await scene.ask("rival", "PUT", CLAIM, {})
        door.open()

        assert (await late).json()["error"] == "STALE_PREMISE"


async def test_first_items_that_come_together_all_have_their_place(scene: Scene) -> None:
    async with held("idem.inserted") as door:
        late = asyncio.create_task(scene.send("mill", "POST", ACTIONS, {"value": 1}, Idempotency_Key="one"))
        await door.reached()
        assert (await scene.ask("rival", "POST", ACTIONS, {"value": 2}))["index"] == 0
        door.open()

        assert (await late).json()["index"] == 1
