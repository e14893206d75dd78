"""Waiting for a field to move: by an event, by its lease's end, or not at all (D38)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.core.clock import Clock, DatabaseClock
from batonpass.core.record_waits import FieldAt, Stand
from batonpass.server.services import record_waits
from batonpass.server.services.feed import Feed
from batonpass.server.services.record_waits import RecordWaits
from batonpass.store import record_waits as stored
from batonpass.store.base import Reader
from batonpass.testing.callers import calling
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, gather, until

pytestmark = pytest.mark.anyio

R: Final = "/v1/records/incidents/inc-1"
STATUS: Final = f"{R}/fields/status"
TASK: Final = f"{R}/fields/remediation"
LEASE: Final = timedelta(seconds=300)
FIELDS: Final = {
    "status": {"type": "register"},
    "facts": {"type": "register"},
    "actions": {"type": "append"},
    "remediation": {"type": "task", "lease": "300s"},
}
AGENTS: Final = {"identities": ["agent:*"], "read": ["*"], "write": ["*"], "claim": ["*"]}
INCIDENTS: Final = {"fields": FIELDS, "roles": {"agents": AGENTS}}


@asynccontextmanager
async def incidents(gathered: Gathered, *, clock: Clock, servers: int = 1) -> AsyncIterator[Crew]:
    """Agents a1 and b1, and a record that a1 has written."""
    async with crew(gathered, clock=clock, servers=servers) as team:
        assert (await team.send("ada", "PUT", "/v1/classes/incidents", INCIDENTS)).ok
        assert (await team.send("a1", "PUT", STATUS, {"value": "open"})).ok
        yield team


@pytest.fixture
async def team(gathered: Gathered) -> AsyncIterator[Crew]:
    async with incidents(gathered, clock=ManualClock()) as team:
        yield team


@pytest.fixture
async def on_real_time(database_url: str) -> AsyncIterator[Crew]:
    """The same on the database's own clock: a lease that ends by itself."""
    gathered = Gathered(database_url, await gather(database_url, clock=DatabaseClock()))
    async with incidents(gathered, clock=DatabaseClock()) as team:
        yield team


async def claim(team: Crew, who: str = "a1", *, at: int = 0, **body: object) -> Answer:
    answer = await team.send(who, "PUT", f"{TASK}/claim", body, at=at)
    assert answer.ok, answer
    return answer


async def waiting(team: Crew, path: str, *, who: str = "b1", at: int = 0) -> asyncio.Task[Answer]:
    """Return a request of `who` that waits for a field."""
    waits = team.servers[at].services.record_waits
    before = waits.waiting
    request = asyncio.create_task(team.send(who, "GET", path, at=at))

    async def waits_or_is_answered() -> bool:
        return request.done() or waits.waiting > before

    await until(waits_or_is_answered)
    assert not request.done(), request
    return request


# --- what ends a wait ------------------------------------------------------------------------------------------------


async def test_a_field_at_another_version_than_was_seen_is_answered_at_once(team: Crew) -> None:
    answer = await team.send("b1", "GET", f"{STATUS}?wait=60&version=0")

    assert (answer.body["value"], answer.body["version"]) == ("open", 1)


async def test_a_field_that_was_never_written_is_waited_for_from_version_0(team: Crew) -> None:
    request = await waiting(team, f"{R}/fields/facts?wait=60&version=0")

    await team.send("a1", "PUT", f"{R}/fields/facts", {"value": {"cpu": 97}})

    assert (await request).body["value"] == {"cpu": 97}


async def test_a_put_and_an_append_end_the_waits_for_their_fields(team: Crew) -> None:
    status = await waiting(team, f"{STATUS}?wait=60&version=1")
    actions = await waiting(team, f"{R}/fields/actions?wait=60&version=0")

    batch = {"writes": [{"field": "status", "put": "closed"}, {"field": "actions", "append": "rolled back"}]}
    assert (await team.send("a1", "POST", R, batch)).ok

    assert ((await status).body["value"], (await status).body["version"]) == ("closed", 2)
    assert (await actions).body["value"] == ["rolled back"]


async def test_a_claim_a_release_and_a_takeover_end_the_waits_for_a_task(team: Crew) -> None:
    first = await waiting(team, f"{TASK}?wait=60&version=0")
    claimed = await claim(team)
    held = (await first).body
    second = await waiting(team, f"{TASK}?wait=60&version={held['version']}")
    await claim(team, lease_seconds=0)
    free = (await second).body
    await claim(team)
    third = await waiting(team, f"{TASK}?wait=60")
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    await claim(team, "b1")
    taken = (await third).body

    assert (held["owner"], held["held"], held["epoch"]) == ("agent:agent-a1", True, 1)
    assert held["version"] == claimed.body["version"]
    assert (free.get("owner"), free["held"], free["version"]) == (None, False, held["version"] + 1)
    assert (taken["owner"], taken["held"], taken["epoch"]) == ("agent:agent-b1", True, 3)


async def test_a_renewal_is_no_move_and_the_takeover_after_it_is(team: Crew) -> None:
    version = (await claim(team)).body["version"]
    request = await waiting(team, f"{TASK}?wait=60&version={version}")
    for _ in range(3):
        version = (await claim(team, renew=True)).body["version"]
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    await claim(team, "b1")

    answer = (await request).body

    assert (answer["epoch"], answer["version"]) == (2, version + 1)


async def test_what_happens_elsewhere_ends_no_wait_and_at_its_end_it_shows_what_is_there(team: Crew) -> None:
    await claim(team)
    request = await waiting(team, f"{TASK}?wait=1")

    await team.send("a1", "PUT", STATUS, {"value": "closed"})
    await team.send("a1", "PUT", "/v1/records/incidents/inc-2/fields/remediation/claim", {})
    renewed = await claim(team, renew=True)

    answer = await request
    assert (answer.status, answer.body["version"], answer.body["epoch"]) == (200, renewed.body["version"], 1)


async def test_a_lease_that_ends_by_time_is_told_when_it_does_and_only_then(on_real_time: Crew) -> None:
    team = on_real_time
    await claim(team, lease_seconds=1)
    renewed = await claim(team, lease_seconds=2, renew=True)
    ends_in_ms = renewed.body["expires_in_ms"]
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    soon, late = [await waiting(team, f"{TASK}?wait={wait}&held=1") for wait in (1, 30)]

    held, lapsed = (await soon).body, (await late).body
    waited_s = loop.time() - began_s

    assert held["held"], "its wait was over before the lease was"
    assert (lapsed["held"], lapsed["owner"], lapsed["expires_in_ms"]) == (False, "agent:agent-a1", 0)
    assert lapsed["version"] == renewed.body["version"], "nothing was written"
    assert ends_in_ms / 1000 - 0.5 < waited_s < 15, "by its own timer, not at the next check"
    assert (await team.send("b1", "GET", f"{TASK}?wait=60&held=1")).body["held"] is False, "who saw it held, at once"
    resumed = await waiting(team, f"{TASK}?wait=60&held=0")
    await claim(team, "b1")
    assert (await resumed).body["owner"] == "agent:agent-b1"


async def test_a_record_that_is_deleted_is_not_found_by_those_who_wait(team: Crew) -> None:
    request = await waiting(team, f"{STATUS}?wait=60&version=1")

    assert (await team.send("a1", "DELETE", R)).ok

    assert ((await request).status, (await request).body["error"]) == (404, "NOT_FOUND")


async def test_who_may_not_read_it_any_more_is_told_within_the_next_check(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_waits, "CHECK_S", 0.05)
    request = await waiting(team, f"{STATUS}?wait=60&version=1")

    narrowed = {**AGENTS, "identities": ["agent:agent-a1"]}
    assert (await team.send("ada", "PUT", "/v1/classes/incidents", {**INCIDENTS, "roles": {"agents": narrowed}})).ok

    assert ((await request).status, (await request).body["error"]) == (403, "SCOPE_DENIED")


async def test_whose_token_was_revoked_is_told_within_the_next_check(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_waits, "CHECK_S", 0.05)
    request = await waiting(team, f"{STATUS}?wait=60&version=1")

    (minted,) = (await team.send("ben", "GET", "/v1/agents/agent-b1/tokens")).body["tokens"]
    assert (await team.send("ben", "DELETE", f"/v1/agents/agent-b1/tokens/{minted['hash_prefix']}")).ok

    assert ((await request).status, (await request).body["error"]) == (401, "UNAUTHENTICATED")


async def test_another_server_over_the_same_database_tells_its_own(gathered: Gathered) -> None:
    async with incidents(gathered, clock=ManualClock(), servers=2) as team:
        request = await waiting(team, f"{TASK}?wait=60&version=0", at=1)

        await claim(team, at=0)

        assert (await request).body["owner"] == "agent:agent-a1"


# --- what must not be missed -----------------------------------------------------------------------------------------


async def test_what_happens_between_the_first_look_and_the_wait_is_not_missed(team: Crew) -> None:
    services = team.server.services

    class Slow(RecordWaits):
        async def moved(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 — handed on as it came
            await team.send("a1", "PUT", STATUS, {"value": "closed"})
            await super().moved(*args, **kwargs)

    slow = Slow(services.store, services.feed, services.classes, services.records)
    team.server.app.state.services = replace(services, record_waits=slow)

    async with asyncio.timeout(10):
        answer = await team.send("b1", "GET", f"{STATUS}?wait=60&version=1")

    assert answer.body["value"] == "closed"


async def test_all_who_wait_are_told_by_few_looks(team: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    async def counted(tx: Reader, wanted: Iterable[FieldAt]) -> dict[FieldAt, Stand]:
        asked = list(wanted)
        looks.append(len(asked))
        return await read(tx, asked)

    read = stored.stands
    monkeypatch.setattr(stored, "stands", counted)
    requests = [await waiting(team, f"{STATUS}?wait=60&version=1") for _ in range(40)]
    looks.clear()

    await team.send("a1", "PUT", STATUS, {"value": "closed"})
    answers = await asyncio.gather(*requests)

    assert {answer.body["value"] for answer in answers} == {"closed"}
    assert len(looks) <= 3, looks
    assert team.server.services.record_waits.waiting == 0


# --- places and bad input --------------------------------------------------------------------------------------------


async def test_a_client_that_hangs_up_gives_its_place_back(team: Crew) -> None:
    services = team.server.services

    async def waits() -> bool:
        return services.record_waits.waiting == 1

    async with calling(team.server, "GET", f"{STATUS}?wait=60&version=1", token=team.tokens["b1"]) as caller:
        await until(waits)
        caller.hang_up()
        await caller.answered()

    assert (services.feed.waiting, services.record_waits.waiting) == (0, 0)


async def test_more_waits_than_a_server_takes_are_refused(team: Crew) -> None:
    team.server.app.state.services = replace(team.server.services, feed=Feed(team.server.store, waits_max=0))

    answer = await team.send("b1", "GET", f"{STATUS}?wait=60&version=1")

    assert (answer.status, answer.body["error"]) == (429, "RATE_LIMITED")


async def test_a_server_that_ends_answers_those_who_wait_with_what_is_there(team: Crew) -> None:
    request = await waiting(team, f"{STATUS}?wait=60&version=1")

    team.server.services.feed.stop()

    assert ((await request).status, (await request).body["value"]) == (200, "open")


@pytest.mark.parametrize("query", ["wait=61", "wait=x", "version=-1", "version=x", "version=9223372036854775808"])
async def test_what_makes_no_sense_is_a_bad_request_by_name(team: Crew, query: str) -> None:
    answer = await team.send("b1", "GET", f"{STATUS}?{query}")

    assert (answer.status, answer.body["error"], answer.body["field"]) == (400, "BAD_REQUEST", query.partition("=")[0])


async def test_who_may_not_read_a_field_does_not_wait_for_it(team: Crew) -> None:
    for who, path, expected in (
        ("ann", f"{STATUS}?wait=60", (403, "SCOPE_DENIED")),
        ("b1", f"{R}/fields/nothing?wait=60", (404, "NOT_FOUND")),
        ("b1", "/v1/records/incidents/inc-9/fields/status?wait=60", (404, "NOT_FOUND")),
    ):
        answer = await team.send(who, "GET", path)
        assert (answer.status, answer.body["error"]) == expected, path
