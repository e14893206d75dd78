"""What a write stands on: stale fences and premises through every verb that writes (D33, H32, cases 146 and 150)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CLAIM, INCIDENTS, R, Scene, incidents
from batonpass.testing.points import held
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

STATUS: Final = f"{R}/fields/status"
TASK: Final = "record:incidents/inc-1#remediation"
WRITES: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "put": ("PUT", STATUS, {"value": "closed"}),
    "append": ("POST", f"{R}/fields/actions", {"value": 1}),
    "several": ("POST", R, {"writes": [{"field": "status", "put": "closed"}]}),
    "claim": ("PUT", CLAIM, {}),
    "renew": ("PUT", CLAIM, {"renew": True}),
    "release": ("PUT", CLAIM, {"lease_seconds": 0}),
    "delete": ("DELETE", R, {}),
}
"""Every verb that writes a record, with a body that would be taken. A checkpoint and a status are puts."""
MALFORMED: Final[list[Any]] = [
    "remediation",
    {},
    [1],
    [{}],
    [{"field": "remediation"}],
    [{"version": 1}],
    [{"field": "remediation", "version": "1"}],
    [{"field": "remediation", "version": True}],
    [{"field": "remediation", "version": 1.0}],
    [{"field": "remediation", "version": -1}],
    [{"field": "remediation", "version": 2**63}],
    [{"field": "remediation", "epoch": 1}],
    [{"kind": "fence", "field": "remediation", "epoch": 1, "version": 1}],
    [{"kind": "lock", "field": "remediation", "version": 1}],
    [{"kind": None, "field": "remediation", "version": 1}],
    [{"field": "Remediation", "version": 1}],
    [{"field": "remediation", "version": 1, "owner": "me"}],
    [{"field": "status", "version": 0}] * 21,
]


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> Scene:
    scene = await incidents(server, database_url)
    await scene.ask("admin", "PUT", "/v1/classes/incidents", _deletable())
    return scene


def _deletable() -> dict[str, Any]:
    """Return the class with a role that lets the agents delete too, so that only the premise refuses them."""
    roles = {**INCIDENTS["roles"]}
    roles["remediator"] = {**roles["remediator"], "write": ["status", "facts", "secret", "actions"]}
    return {**INCIDENTS, "roles": roles}


async def taken_over(scene: Scene, clock: ManualClock) -> dict[str, Any]:
    """Let mill claim and lapse, and rival take over; return what mill was granted."""
    granted: dict[str, Any] = await scene.ask("mill", "PUT", CLAIM, {})
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    clock.advance(timedelta(seconds=301))
    await scene.ask("rival", "PUT", CLAIM, {})
    return granted


def fences_of(granted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    named = {"kind": "fence", "field": "remediation"}
    return {
        "version": {**named, "version": granted["version"]},
        "epoch": {**named, "epoch": granted["epoch"]},
    }


async def test_a_stale_fence_is_refused_by_every_verb_that_writes(scene: Scene, clock: ManualClock) -> None:
    granted = await taken_over(scene, clock)

    with scene.unchanged():
        for verb, (method, path, body) in WRITES.items():
            for by, fence in fences_of(granted).items():
                answer = await scene.refused("mill", method, path, {**body, "based_on": [fence]})

                assert answer == {
                    "status": 409,
                    "error": "STALE_PREMISE",
                    "premises": [
                        {
                            "field": "remediation",
                            "expected": granted[by],
                            "actual": granted[by] + 1,
                            "kind": "fence",
                            "owner": "agent:agent-rival",
                        }
                    ],
                }, (verb, by)
            told = await scene.refused("mill", method, path, body, If_Lease=f"{TASK}; epoch={granted['epoch']}")
            assert (told["status"], told["error"]) == (409, "STALE_PREMISE"), verb


async def test_a_fence_that_holds_lets_its_holder_write_and_nobody_else(scene: Scene) -> None:
    granted = await scene.ask("mill", "PUT", CLAIM, {})
    for fence in fences_of(granted).values():
        for who in ("rival", "key"):
            answer = await scene.refused(who, "PUT", STATUS, {"value": "open", "based_on": [fence]})
            assert (answer["error"], answer["premises"][0]["owner"]) == ("STALE_PREMISE", "agent:agent-mill")

        await scene.ask("mill", "PUT", STATUS, {"value": "open", "based_on": [fence]})


async def test_a_lapse_that_nobody_used_breaks_no_fence(scene: Scene, clock: ManualClock) -> None:
    granted = await scene.ask("mill", "PUT", CLAIM, {})
    clock.advance(timedelta(hours=1))

    await scene.ask("mill", "PUT", STATUS, {"value": "open", "based_on": [fences_of(granted)["version"]]})


async def test_h32_a_fence_on_a_record_that_is_not_there_is_stale_and_makes_none(scene: Scene) -> None:
    with scene.unchanged():
        for verb, (method, path, body) in WRITES.items():
            for named in ({"version": 1}, {"version": 0}, {"epoch": 1}):
                fence = {"kind": "fence", "field": "remediation", **named}
                answer = await scene.refused("mill", method, path, {**body, "based_on": [fence]})

                assert answer["error"] == "STALE_PREMISE", (verb, named)
                assert answer["premises"][0]["actual"] == 0


async def test_h32_fences_of_a_deleted_record_are_not_those_of_the_one_made_again(scene: Scene) -> None:
    first = await scene.ask("mill", "PUT", CLAIM, {})
    await scene.ask("mill", "DELETE", R, {"based_on": [fences_of(first)["epoch"]]})
    second = await scene.ask("mill", "PUT", CLAIM, {})

    with scene.unchanged():
        for method, path, body in WRITES.values():
            for fence in fences_of(first).values():
                answer = await scene.refused("mill", method, path, {**body, "based_on": [fence]})
                assert answer["error"] == "STALE_PREMISE"

    assert (second["version"], second["epoch"]) > (first["version"], first["epoch"])
    await scene.ask("mill", "PUT", STATUS, {"value": "open", "based_on": [fences_of(second)["epoch"]]})


async def test_all_premises_that_do_not_hold_are_told_and_those_that_do_are_not(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    await scene.ask("mill", "PUT", CLAIM, {})
    premises = [
        {"field": "status", "version": 1},
        {"field": "facts", "version": 4},
        {"field": "status", "version": 0},
        {"field": "remediation", "version": 2},
        {"kind": "fence", "field": "actions", "version": 1},
    ]

    with scene.unchanged():
        answer = await scene.refused("mill", "PUT", STATUS, {"value": "closed", "based_on": premises})

        assert answer["premises"] == [
            {"field": "facts", "expected": 4, "actual": 0},
            {"field": "status", "expected": 0, "actual": 1},
            {"field": "remediation", "expected": 2, "actual": 1, "owner": "agent:agent-mill"},
            {"field": "actions", "expected": 1, "actual": 0, "kind": "fence"},
        ]


async def test_version_0_is_what_was_never_written(scene: Scene) -> None:
    unwritten = [{"field": "status", "version": 0}, {"field": "remediation", "version": 0}]

    await scene.ask("mill", "PUT", STATUS, {"value": "open", "based_on": unwritten})
    answer = await scene.refused("rival", "PUT", STATUS, {"value": "open", "based_on": unwritten})

    assert answer["premises"] == [{"field": "status", "expected": 0, "actual": 1}]


async def test_a_premise_on_what_one_may_not_read_tells_nothing_of_it(scene: Scene) -> None:
    await scene.ask("pat", "PUT", f"{R}/fields/secret", {"value": 1})
    await scene.ask("pat", "PUT", f"{R}/fields/review/claim", {"lease_seconds": 60})

    with scene.unchanged():
        for field in ("secret", "review"):
            for version in (0, 1, 2):
                body = {"value": "open", "based_on": [{"field": field, "version": version}]}
                answer = await scene.refused("mill", "PUT", STATUS, body)

                assert answer == {"status": 403, "error": "SCOPE_DENIED", "field": field}


async def test_a_malformed_premise_is_refused_by_every_verb_that_writes(scene: Scene) -> None:
    await scene.ask("mill", "PUT", CLAIM, {})

    with scene.unchanged():
        for verb, (method, path, body) in WRITES.items():
            for premises in MALFORMED:
                answer = await scene.send("mill", method, path, {**body, "based_on": premises})

                assert (answer.status_code, answer.json()["error"]) == (400, "BAD_REQUEST"), (verb, premises)
                assert answer.json()["field"].startswith("based_on"), (verb, premises)

        assert (await scene.ask("mill", "GET", R))["record_version"] == 1


async def test_a_premise_on_a_field_that_the_class_does_not_have_is_misspelt(scene: Scene) -> None:
    based_on = [{"field": "statsu", "version": 0}]
    for method, path, body in (("PUT", STATUS, {"value": "open"}), ("PUT", CLAIM, {}), ("DELETE", R, {})):
        with scene.unchanged():
            told = await scene.refused("pat", method, path, {**body, "based_on": based_on})

        assert told == {"status": 400, "error": "BAD_REQUEST", "field": "based_on"}, path


async def test_a_premise_of_one_without_a_role_is_not_compared(scene: Scene) -> None:
    for premise in ({"kind": "fence", "field": "nothing", "epoch": 1}, {"field": "nothing", "version": 0}):
        told = await scene.refused("stranger", "PUT", STATUS, {"value": "open", "based_on": [premise]})

        assert told == {"status": 403, "error": "SCOPE_DENIED"}


# --- against a first claim -------------------------------------------------------------------------------------------


@pytest.fixture
async def on_postgres(postgres_url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    """The scene on PostgreSQL: on SQLite nobody comes between the statements of a write."""
    async with in_process_server(postgres_url, clock=clock) as server:
        yield await incidents(server, postgres_url)


async def test_a_first_claim_that_comes_between_breaks_the_premise_that_there_was_none(on_postgres: Scene) -> None:
    await on_postgres.ask("mill", "PUT", STATUS, {"value": "open"})
    body = {"value": "closed", "based_on": [{"field": "remediation", "version": 0}]}
    async with held("lease.decided", nth=2) as door:  # at the first, there was no row to claim
        claim = asyncio.create_task(on_postgres.ask("rival", "PUT", CLAIM, {}))
        await door.reached()
        write = asyncio.create_task(on_postgres.send("mill", "PUT", STATUS, body))
        await until_blocked(on_postgres.url)  # by the record; of the lease's row it has seen nothing
        door.open()
        await claim

        answer = await write

    assert answer.status_code == 409
    assert answer.json()["premises"] == [
        {"field": "remediation", "expected": 0, "actual": 1, "owner": "agent:agent-rival"}
    ]


async def test_a_deletion_ends_a_first_claim_that_comes_between(on_postgres: Scene) -> None:
    await on_postgres.ask("mill", "PUT", STATUS, {"value": "open"})
    async with held("lease.decided", nth=2) as door:  # at the first, there was no row to claim
        claim = asyncio.create_task(on_postgres.ask("rival", "PUT", CLAIM, {}))
        await door.reached()
        deletion = asyncio.create_task(on_postgres.send("pat", "DELETE", R, {}))
        await until_blocked(on_postgres.url)  # by the record; of the lease's row it has seen nothing
        door.open()
        claimed = await claim
        assert (await deletion).status_code == 200

    answer = await on_postgres.send(
        "rival", "PUT", STATUS, {"value": "open", "based_on": [fences_of(claimed)["epoch"]]}
    )

    assert (answer.status_code, answer.json()["error"]) == (409, "STALE_PREMISE")


# --- repeated --------------------------------------------------------------------------------------------------------


async def test_a_repeated_write_gets_its_first_reply_though_a_task_it_had_read_of_has_moved(scene: Scene) -> None:
    await scene.ask("mill", "PUT", CLAIM, {})
    body = {"value": "open", "based_on": [{"field": "remediation", "version": 1}]}
    first = await scene.ask("rival", "PUT", STATUS, body, Idempotency_Key="one")
    await scene.ask("mill", "PUT", CLAIM, {"renew": True})

    with scene.unchanged():
        again = await scene.send("rival", "PUT", STATUS, body, Idempotency_Key="one")

    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first, "true")
    assert (await scene.refused("rival", "PUT", STATUS, body, Idempotency_Key="two"))["error"] == "STALE_PREMISE"


async def test_a_repeated_write_of_a_holder_that_was_taken_over_is_refused(scene: Scene, clock: ManualClock) -> None:
    granted = await scene.ask("mill", "PUT", CLAIM, {"lease_seconds": 60})
    body = {"value": "open", "based_on": [fences_of(granted)["epoch"]]}
    await scene.ask("mill", "PUT", STATUS, body, Idempotency_Key="one")
    clock.advance(timedelta(seconds=61))
    await scene.ask("rival", "PUT", CLAIM, {})

    with scene.unchanged():
        told = await scene.refused("mill", "PUT", STATUS, body, Idempotency_Key="one")

    assert told["error"] == "STALE_PREMISE"
