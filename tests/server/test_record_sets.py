"""Single writes that come together are one transaction, and each is answered as if it had come alone (D5, D44, H16)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import psycopg
import pytest

from batonpass.core.errors import Unavailable
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CAP, CLAIM, R, Scene, incidents, refusal
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import deadlocks_of, until_blocked, until_gathered

pytestmark = pytest.mark.anyio

Request = tuple[str, str, str, dict[str, Any]]
"""Who sends what: method, path, body."""

STATUS: Final = f"{R}/fields/status"
ACTIONS: Final = f"{R}/fields/actions"
OTHERS: Final = [f"/v1/records/incidents/other-{n}" for n in range(3)]


LOST: Final[list[Request]] = [
    ("mill", "PUT", STATUS, {"value": "closed"}),
    ("mill", "PUT", STATUS, {"value": "mitigated"}),
    ("mill", "PUT", f"{OTHERS[1]}/fields/status", {"value": "closed"}),
    ("mill", "POST", ACTIONS, {"value": 1}),
]
"""What comes together in sets that come to nothing."""
END_THE_WRITER: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> pg_backend_pid()
"""


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> Scene:
    """The record, and others, each written once."""
    return await written_once(await incidents(server, database_url))


@pytest.fixture
async def on_postgres(postgres_url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    """The same on PostgreSQL, where others hold rows while a set is decided."""
    async with in_process_server(postgres_url, clock=clock) as server:
        yield await written_once(await incidents(server, postgres_url))


async def written_once(scene: Scene) -> Scene:
    for record in (R, *OTHERS):
        await scene.ask("mill", "PUT", f"{record}/fields/status", {"value": "open"})
    return scene


@asynccontextmanager
async def together(scene: Scene, requests: Sequence[Request]) -> AsyncIterator[list[asyncio.Task[httpx.Response]]]:
    """Send `requests` so that they are one set, in their order: they wait while another is on its way."""
    first = OTHERS[0]
    async with points.held("batch.taken") as door:
        before = asyncio.create_task(scene.send("mill", "PUT", f"{first}/fields/facts", {"value": 0}))
        await door.reached()
        sent = []
        for number, (who, method, path, body) in enumerate(requests, start=1):
            sent.append(asyncio.create_task(scene.send(who, method, path, body)))
            await until_gathered(scene.server.app.state.services.record_writes, calls=number)
        door.open()
        assert (await before).is_success
        yield sent
        assert door.arrivals == 2, "all of them were one set"


async def answers_of(scene: Scene, requests: Sequence[Request]) -> list[httpx.Response]:
    async with together(scene, requests) as sent:
        return await asyncio.gather(*sent)


def put(record: str, value: object, *premises: dict[str, Any], field: str = "status", who: str = "mill") -> Request:
    return who, "PUT", f"{record}/fields/{field}", {"value": value, "based_on": list(premises)}


def append(value: object) -> Request:
    return "mill", "POST", ACTIONS, {"value": value}


async def history(scene: Scene, record: str = R) -> list[tuple[int, str, int | None, int]]:
    told = await scene.ask("pat", "GET", f"{record}/history")
    entries = [(one["n"], one["field"], one["version"], one["record_version"]) for one in told["entries"]]
    return sorted(entries)


# --- each by itself --------------------------------------------------------------------------------------------------


async def test_what_is_refused_in_a_set_is_refused_as_alone_and_touches_no_other(scene: Scene) -> None:
    claimed = await scene.ask("mill", "PUT", CLAIM, {})
    fence = {"kind": "fence", "field": "remediation"}
    refused: list[Request] = [
        put(OTHERS[0], "closed", {"field": "status", "version": 7}),
        put(R, "closed", {**fence, "epoch": claimed["epoch"] + 1}),
        put(R, "closed", {**fence, "epoch": claimed["epoch"]}, who="rival"),
        put(OTHERS[1], "closed", {"field": "secret", "version": 0}),
        put(R, "closed", who="reader"),
        put(R, "never"),
        put(R, "closed", field="remediation"),
        put(R, "closed", field="nothing"),
        put(R.replace("incidents/", "nowhere/"), "closed"),
        put(OTHERS[2], "closed", {**fence, "epoch": 1}),
    ]
    alone = [refusal(await scene.send(*one)) for one in refused]
    kept = [put(R, "closed", {**fence, "epoch": claimed["epoch"]}), put(OTHERS[1], "mitigated")]

    answers = await answers_of(scene, [kept[0], *refused, kept[1]])

    assert [refusal(answer) for answer in answers[1:-1]] == alone
    assert [answer.status_code for answer in (answers[0], answers[-1])] == [200, 200]
    assert await history(scene) == [(1, "status", 1, 1), (2, "remediation", 1, 2), (3, "status", 2, 3)]
    assert len(await history(scene, OTHERS[2])) == 1


async def test_writes_to_one_record_see_each_other_in_the_order_they_came(scene: Scene) -> None:
    answers = await answers_of(
        scene,
        [
            put(R, "mitigated", {"field": "status", "version": 1}),
            put(R, "closed", {"field": "status", "version": 1}),
            put(R, {"cause": "disk"}, {"field": "status", "version": 2}, field="facts"),
            put(R, "closed", {"field": "facts", "version": 1}),
        ],
    )

    told = [answer.json() for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 409, 200, 200]
    assert told[1]["premises"] == [{"field": "status", "expected": 1, "actual": 2}]
    assert [(one["version"], one["record_version"]) for one in (told[0], told[2], told[3])] == [(2, 2), (1, 3), (3, 4)]
    record = await scene.ask("mill", "GET", R)
    assert (record["record_version"], record["fields"]["status"]["value"]) == (4, "closed")
    assert await history(scene) == [(1, "status", 1, 1), (2, "status", 2, 2), (3, "facts", 1, 3), (4, "status", 3, 4)]
    events = [row for row in contents(scene.url)["events"] if "incidents/inc-1" in row]
    assert len(events) == 4


async def test_items_that_come_together_have_their_places_up_to_the_cap(scene: Scene) -> None:
    answers = await answers_of(scene, [append(n) for n in range(CAP + 1)])

    assert [answer.json().get("index") for answer in answers] == [*range(CAP), None]
    assert answers[-1].json()["error"] == "CAP_REACHED"
    assert (await scene.ask("mill", "GET", ACTIONS))["value"] == list(range(CAP))


async def test_a_record_that_is_not_there_is_made_by_the_first_of_those_that_come_together(scene: Scene) -> None:
    new = "/v1/records/incidents/new"

    answers = await answers_of(scene, [put(new, "open"), put(new, "closed"), put(R, "closed")])

    assert [answer.json()["record_version"] for answer in answers] == [1, 2, 2]
    assert await history(scene, new) == [(1, "status", 1, 1), (2, "status", 2, 2)]


# --- beside others ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lock",
    [
        "SELECT 1 FROM records WHERE id = 'inc-1' FOR UPDATE",
        "SELECT 1 FROM leases WHERE resource = 'record:incidents/inc-1#remediation' FOR UPDATE",
    ],
)
async def test_a_row_that_somebody_holds_holds_up_only_who_needs_it(on_postgres: Scene, lock: str) -> None:
    claimed = await on_postgres.ask("mill", "PUT", CLAIM, {})
    fence = {"kind": "fence", "field": "remediation", "epoch": claimed["epoch"]}
    async with await psycopg.AsyncConnection.connect(on_postgres.url) as slow:
        await slow.execute(lock.encode())
        async with together(on_postgres, [put(R, "closed", fence), *(put(one, "closed") for one in OTHERS)]) as sent:
            others = await asyncio.gather(*sent[1:])
            await until_blocked(on_postgres.url)

            assert [answer.status_code for answer in others] == [200, 200, 200]
            assert not sent[0].done()
            await slow.rollback()

            assert (await sent[0]).json()["record_version"] == 3


async def test_a_first_claim_under_way_is_waited_for_by_who_read_that_there_was_none(on_postgres: Scene) -> None:
    premise = {"field": "remediation", "version": 0}
    async with points.held("lease.decided", nth=2) as door:  # at the first, there was no row to claim
        claim = asyncio.create_task(on_postgres.send("rival", "PUT", CLAIM, {}))
        await door.reached()
        write = asyncio.create_task(on_postgres.send(*put(R, "closed", premise)))
        await until_blocked(on_postgres.url)
        door.open()

        assert ((await claim).status_code, (await write).json()["error"]) == (200, "STALE_PREMISE")


async def test_a_set_whose_connection_is_lost_at_its_end_is_unanswered_for_all_of_it(on_postgres: Scene) -> None:
    # the first to commit is the one that the others wait for
    async with points.held("commit.sent", nth=2) as door, together(on_postgres, LOST) as sent:
        await door.reached()
        before = contents(on_postgres.url)
        async with await psycopg.AsyncConnection.connect(on_postgres.url, autocommit=True) as admin:
            await admin.execute(END_THE_WRITER)
        door.open()
        answers = await asyncio.gather(*sent)

    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(503, "OUTCOME_UNKNOWN")] * 4
    assert contents(on_postgres.url) == before
    assert [answer.status_code for answer in await answers_of(on_postgres, LOST)] == [200] * 4


async def test_a_set_that_the_disk_does_not_take_is_refused_for_all_of_it(sqlite_url: str, clock: ManualClock) -> None:
    full = Unavailable("the database cannot take it now: database or disk is full; nothing was changed")
    async with in_process_server(sqlite_url, clock=clock) as server:
        scene = await written_once(await incidents(server, sqlite_url))
        with points.failing("group.committing", full, nth=2):
            async with together(scene, LOST) as sent:
                before = contents(scene.url)
                answers = await asyncio.gather(*sent)

        assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(503, "UNAVAILABLE")] * 4
        assert contents(scene.url) == before
        assert [answer.status_code for answer in await answers_of(scene, LOST)] == [200] * 4


async def test_writes_claims_and_batches_never_wait_for_each_other_in_a_ring(postgres_url: str) -> None:
    chance = random.Random(16)  # noqa: S311  # the same draw in every run
    async with in_process_server(postgres_url) as server:
        scene = await written_once(await incidents(server, postgres_url))
        paths = [R, *OTHERS]
        claims = [await scene.ask("mill", "PUT", f"{one}/fields/remediation/claim", {}) for one in paths]
        fences = [{"kind": "fence", "field": "remediation", "epoch": one["epoch"]} for one in claims]

        def drawn() -> Request:
            n = chance.randrange(len(paths))
            several = {"writes": [{"field": "facts", "put": n}], "based_on": [fences[n]]}
            return chance.choice(
                [
                    put(paths[n], "closed", fences[n]),
                    put(paths[n], "open", {"field": "remediation", "version": 1}, fences[n]),
                    ("mill", "POST", paths[n], several),
                    ("mill", "PUT", f"{paths[n]}/fields/remediation/claim", {}),
                ]
            )

        requests = [drawn() for _ in range(160)]
        answers = await asyncio.gather(*(scene.send(*one) for one in requests))

        assert {answer.status_code for answer in answers} == {200}
        for path in paths:
            told = await history(scene, path)
            assert [n for n, *_ in told] == [*range(1, len(told) + 1)]
            assert [version for *_, version in told] == [*range(1, len(told) + 1)]
    assert await deadlocks_of(postgres_url) == 0
