"""A version of a class that takes a field away, and writes under the version before: never both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pytest

from batonpass.testing import points
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

CLASS = "/v1/classes/incidents"
STATUS = "/v1/records/incidents/inc-1/fields/status"
LOG = "/v1/records/incidents/inc-1/fields/log"
CLAIM = "/v1/records/incidents/inc-1/fields/work/claim"
BLOCKED_S = 0.3
"""How long somebody is watched who must not come through."""


def without(*names: str) -> dict[str, Any]:
    fields = {"status": {"type": "register"}, "log": {"type": "append"}, "work": {"type": "task", "lease": "5m"}}
    return {
        "fields": {name: spec for name, spec in {**fields, "other": {"type": "register"}}.items() if name not in names},
        "roles": {"all": {"identities": ["agent:*", "person:*"], "read": "*", "write": "*", "claim": "*"}},
    }


@dataclass(frozen=True, slots=True)
class Write:
    """A write to a field, and the point at which it has read the class and written, but committed nothing."""

    field: str
    method: str
    path: str
    body: object
    point: str

    async def send(self, server: InProcessServer) -> httpx.Response:
        return await server.send(self.method, self.path, self.body, headers={"Idempotency-Key": "write-1"})


WRITES = [
    Write("status", "PUT", STATUS, {"value": "open"}, "idem.inserted"),
    Write("log", "POST", LOG, {"value": "restarted"}, "idem.inserted"),
    Write("work", "PUT", CLAIM, {}, "lease.written"),
]


async def started(request: Awaitable[httpx.Response]) -> asyncio.Task[httpx.Response]:
    """Start a request that must not come through yet."""
    task = asyncio.ensure_future(request)
    done, _ = await asyncio.wait({task}, timeout=BLOCKED_S)
    assert not done, "it did not wait"
    return task


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.field)
async def test_a_write_before_its_commit_is_waited_for_and_then_counts(server: InProcessServer, write: Write) -> None:
    await server.ask("PUT", CLASS, without())
    await server.ask("PUT", CLAIM, {})  # a first claim is looked at twice
    await server.ask("PUT", CLAIM, {"lease_seconds": 0})

    async with points.held(write.point) as door:
        writing = asyncio.create_task(write.send(server))
        await door.reached()
        applying = await started(server.send("PUT", CLASS, without(write.field)))
        door.open()
        written, applied = await writing, await applying

    assert (written.status_code, applied.status_code) == (200, 409), (written.text, applied.text)
    error = applied.json()["error"]
    assert (error["code"], len(error["details"])) == ("conflict", 1)
    assert error["details"][0].startswith(f"class incidents: field {write.field}: field-holds-data: 1 record has ")
    assert (await server.ask("GET", CLASS))["latest"] == 1


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.field)
async def test_a_write_after_the_version_was_begun_reads_that_version(server: InProcessServer, write: Write) -> None:
    await server.ask("PUT", CLASS, without())

    async with points.held("class.locked") as door:
        applying = asyncio.create_task(server.send("PUT", CLASS, without(write.field)))
        await door.reached()
        writing = await started(write.send(server))
        door.open()
        written, applied = await writing, await applying

    assert (written.status_code, applied.status_code) == (404, 200), (written.text, applied.text)
    assert written.json()["error"] == "NOT_FOUND"


async def test_two_versions_at_once_are_two_versions_and_the_same_twice_is_one(server: InProcessServer) -> None:
    async with points.held("class.locked") as door:
        first = asyncio.create_task(server.send("PUT", CLASS, without()))
        await door.reached()
        again = await started(server.send("PUT", CLASS, without()))
        other = await started(server.send("PUT", CLASS, without("log")))
        door.open()
        replies = [(await each).json() for each in (first, again, other)]

    assert replies[0] == {"class": "incidents", "version": 1, "changed": True}
    latest = (await server.ask("GET", CLASS))["latest"]
    kept = [(await server.ask("GET", f"{CLASS}?version={number}"))["document"] for number in range(1, latest + 1)]
    assert latest == sum(reply["changed"] for reply in replies)
    assert all(before != after for before, after in pairwise(kept))


async def test_a_server_that_dies_while_it_applies_a_version_has_applied_nothing(server: InProcessServer) -> None:
    with points.failing("class.locked", OSError("it died")):
        died = await server.send("PUT", CLASS, without())

    assert died.status_code == 500
    assert (await server.send("GET", CLASS)).status_code == 404
    assert (await server.ask("PUT", CLASS, without()))["version"] == 1


async def test_classes_of_other_names_do_not_wait_for_each_other(server: InProcessServer) -> None:
    """On PostgreSQL; SQLite has one writer."""
    if server.app.state.services.store.dialect == "sqlite":
        pytest.skip("one writer at a time")
    await server.ask("PUT", "/v1/classes/invoices", without())

    async with points.held("class.locked") as door:
        apply = asyncio.create_task(server.send("PUT", CLASS, without()))
        await door.reached()
        written = await server.send("PUT", "/v1/records/invoices/i-1/fields/status", {"value": 1})
        door.open()

    assert (written.status_code, (await apply).status_code) == (200, 201)


async def test_fields_that_hold_data_are_counted_by_record(server: InProcessServer) -> None:
    await server.ask("PUT", CLASS, without())
    for record in ("inc-1", "inc-2", "inc-3"):
        await server.ask("PUT", f"/v1/records/incidents/{record}/fields/status", {"value": None})
        await server.ask("PUT", f"/v1/records/incidents/{record}/fields/work/claim", {})
    await server.ask("PUT", "/v1/records/incidents/inc-3/fields/work/claim", {"lease_seconds": 0})
    await server.ask("DELETE", "/v1/records/incidents/inc-2", {})

    refused = await server.send("PUT", CLASS, without("status", "work"))

    assert refused.json()["error"]["details"] == [
        (
            "class incidents: field status: field-holds-data: 2 records have data in it; delete those first, or keep"
            " the field"
        ),
        (
            "class incidents: field work: field-holds-data: 1 record has it claimed; release those first, or keep"
            " the field"
        ),
    ]


async def test_a_field_that_was_taken_away_goes_on_where_it_was_and_never_as_another_kind(
    server: InProcessServer,
) -> None:
    await server.ask("PUT", CLASS, without())
    await server.ask("PUT", STATUS, {"value": "open"})
    await server.ask("PUT", CLAIM, {})
    await server.ask("PUT", CLAIM, {"lease_seconds": 0})
    await server.ask("DELETE", "/v1/records/incidents/inc-1", {})
    await server.ask("PUT", CLASS, without("status", "work"))

    swapped = without()
    swapped["fields"] |= {"status": {"type": "task"}, "work": {"type": "register"}}
    refused = await server.send("PUT", CLASS, swapped)
    await server.ask("PUT", CLASS, without())
    again = await server.ask("PUT", STATUS, {"value": "open"})

    assert [line.split(": ")[1:3] for line in refused.json()["error"]["details"]] == [
        ["field status", "other-kind-before"],
        ["field work", "other-kind-before"],
    ]
    assert again["version"] > 1, "versions come back where they were"
