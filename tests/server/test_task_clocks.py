"""A task's lease is counted by the database's clock, whatever clock or time zone others go by (D5; case 152)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import pytest

from batonpass.core.clock import DatabaseClock
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, Gathered, crew, gather

pytestmark = pytest.mark.anyio

CLAIM: Final = "/v1/records/incidents/inc-1/fields/remediation/claim"
CLASS: Final = {
    "fields": {"remediation": {"type": "task", "lease": "300s"}},
    "roles": {"all": {"identities": ["agent:*"], "read": "*", "claim": "*"}},
}
ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata")
EVENING: Final = datetime(2026, 11, 1, 3, tzinfo=UTC)


async def claimed(team: Crew, who: str, **body: object) -> tuple[int, Any]:
    answer = await team.send(who, "PUT", CLAIM, body)
    return answer.status, {name: value for name, value in answer.body.items() if name in SAME_IN_EVERY_ZONE}


SAME_IN_EVERY_ZONE: Final = frozenset(
    {"owner", "lease_expires_at", "expires_in_ms", "took_over_from", "reclaimed", "error"}
)
"""Versions and epochs go on from one zone's night to the next."""


async def a_night(team: Crew, clock: ManualClock) -> list[tuple[int, Any]]:
    """Claims, renewals and takeovers over the night in which New York's clocks are set back."""
    answers = []
    for _ in range(4):
        answers += [await claimed(team, "a1"), await claimed(team, "b1"), await claimed(team, "a1", renew=True)]
        clock.advance(timedelta(minutes=50))
        answers += [await claimed(team, "b1"), await claimed(team, "b1", lease_seconds=0)]
    return answers


async def test_nothing_depends_on_the_time_zone_of_the_databases_session(postgres_url: str) -> None:
    tokens = await gather(postgres_url, clock=ManualClock(EVENING))
    nights = []
    for zone in ZONES:
        clock = ManualClock(EVENING)
        gathered = Gathered(f"{postgres_url}&options={quote(f'-c TimeZone={zone}')}", tokens)
        async with crew(gathered, clock=clock) as team:
            await team.server.ask("PUT", "/v1/classes/incidents", CLASS)
            nights.append(await a_night(team, clock))

    assert [status for status, _ in nights[0][:5]] == [200, 409, 200, 200, 200]
    assert nights == [nights[0]] * len(ZONES)


@pytest.fixture
async def by_its_own_clock(postgres_url: str) -> AsyncIterator[Crew]:
    """A server over a database that goes by its own clock."""
    gathered = Gathered(postgres_url, await gather(postgres_url, clock=DatabaseClock()))
    async with crew(gathered, clock=DatabaseClock()) as team:
        yield team


async def test_a_server_whose_clock_is_an_hour_off_grants_the_same_lease(
    by_its_own_clock: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, wall = by_its_own_clock, time.time
    await team.server.ask("PUT", "/v1/classes/incidents", CLASS)
    ends = []
    for off_s in (0, 3600, -3600):
        monkeypatch.setattr(time, "time", lambda off_s=off_s: wall() + off_s)
        answer = await team.send("a1", "PUT", CLAIM, {"renew": True})
        assert answer.body["expires_in_ms"] == 300_000, off_s
        ends.append(datetime.fromisoformat(answer.body["lease_expires_at"]))
    monkeypatch.undo()

    assert ends == sorted(ends)
    assert ends[-1] - ends[0] < timedelta(minutes=1)
