"""Keys and service accounts at records: who they are to roles, in leases, in history and in events (D1, D35, D36)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.issuer import Issuer
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

INCIDENTS: Final = {
    "fields": {
        "status": {"type": "register"},
        "actions": {"type": "append", "cap": 10},
        "remediation": {"type": "task", "lease": "300s"},
    },
    "roles": {
        "remediator": {
            "identities": ["apikey:remediator/*", "sa:prod/*"],
            "read": ["*"],
            "write": ["status", "actions"],
            "claim": ["remediation"],
        },
    },
}
RECORD: Final = "/v1/records/incidents/inc-1"
CLAIM: Final = f"{RECORD}/fields/remediation/claim"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def server(issuer: Issuer, clock: ManualClock, database_url: str) -> AsyncIterator[InProcessServer]:
    async with in_process_server(database_url, clock=clock, accounts=issuer.believed()) as running:
        await running.ask("PUT", "/v1/classes/incidents", INCIDENTS)
        yield running


async def shown(server: InProcessServer, who: str, issuer: Issuer, clock: ManualClock) -> str:
    """Return a token of somebody who has the identity `who`."""
    kind, _, name = who.partition(":")
    if kind == "apikey":
        return await server.add_key(name)
    namespace, _, account = name.partition("/")
    return issuer.token(namespace, account, at=clock.moment())


async def refusal(server: InProcessServer, method: str, path: str, body: object, *, token: str) -> Any:  # noqa: ANN401 — JSON
    response = await server.send(method, path, body, token=token)
    assert response.is_error, response.text
    return response.status_code, response.json()["error"]


@pytest.mark.parametrize("who", ["apikey:remediator/worker-1", "sa:prod/remediator"])
async def test_what_they_do_is_theirs_everywhere(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, who: str
) -> None:
    token = await shown(server, who, issuer, clock)
    agent = await server.add_agent("mill")

    held = await server.ask("PUT", CLAIM, {}, token=token)
    fence = [{"kind": "fence", "field": "remediation", "version": held["version"]}]
    await server.ask("PUT", f"{RECORD}/fields/status", {"value": "open", "based_on": fence}, token=token)
    await server.ask("POST", f"{RECORD}/fields/actions", {"value": "looked", "based_on": fence}, token=token)
    fields = (await server.ask("GET", RECORD, token=token))["fields"]
    history = (await server.ask("GET", f"{RECORD}/history", token=token))["entries"]
    blame = (await server.ask("GET", f"{RECORD}/blame", token=token))["fields"]
    events = (await server.ask("GET", "/v1/events?record=incidents/inc-1", token=token))["events"]

    assert held["owner"] == fields["remediation"]["owner"] == who
    assert {field["author"] for field in fields.values()} == {who}
    assert [entry["author"] for entry in history] == [who] * 3
    assert {field["author"] for field in blame.values()} == {who}
    assert events, "it hears of what it may read"
    assert (await refusal(server, "GET", RECORD, None, token=agent))[0] == 403, "no role has an agent"
    leases = (await server.ask("GET", "/v1/leases"))["leases"]
    assert leases == [], "what is a record's is no item's"


async def test_globs_take_one_segment_and_scopes_are_told_apart(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    found = {}
    for who in (
        "apikey:remediator/a",
        "apikey:remediator",
        "apikey:remediator/eu/a",
        "apikey:prod/a",
        "sa:prod/a",
        "sa:dev/a",
    ):
        token = await shown(server, who, issuer, clock)
        response = await server.send("PUT", f"{RECORD}/fields/status", {"value": who}, token=token)
        found[who] = response.status_code if response.is_success else response.json()["error"]

    assert found == {
        "apikey:remediator/a": 200,
        "apikey:remediator": "SCOPE_DENIED",
        "apikey:remediator/eu/a": "SCOPE_DENIED",
        "apikey:prod/a": "SCOPE_DENIED",
        "sa:prod/a": 200,
        "sa:dev/a": "SCOPE_DENIED",
    }


async def test_ten_with_one_key_are_one_holder_and_ten_with_keys_of_their_own_are_ten(server: InProcessServer) -> None:
    one = await server.add_key("remediator/one")
    ten = [await server.add_key(f"remediator/worker-{n}") for n in range(10)]

    shared = await asyncio.gather(*(server.send("PUT", CLAIM, {}, token=one) for _ in range(10)))
    other = CLAIM.replace("inc-1", "inc-2")
    apart = await asyncio.gather(*(server.send("PUT", other, {}, token=token) for token in ten))

    assert {(answer.status_code, answer.json()["version"]) for answer in shared} == {(200, 1)}
    assert sorted(answer.status_code for answer in apart) == [200, *[409] * 9]
    (won,) = (answer.json() for answer in apart if answer.is_success)
    for lost in (answer.json() for answer in apart if answer.is_error):
        assert (lost["error"], lost["owner"], lost["version"]) == ("HELD", won["owner"], won["version"])
        assert lost["lease_expires_at"] == won["lease_expires_at"]


async def test_who_is_not_known_is_told_so_in_the_shape_of_records(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, database_url: str
) -> None:
    key = await server.ask("POST", "/v1/admin/keys", {"name": "remediator/gone"})
    await server.ask("DELETE", f"/v1/admin/keys/{key['hash_prefix']}")
    stranger = Issuer().token("prod", "remediator", at=clock.moment())
    late = issuer.token("prod", "remediator", at=0)
    before = contents(database_url)

    for token in (key["token"], stranger, late, "bat_key_" + "A" * 43, "nonsense"):
        for method, path, body in (
            ("PUT", CLAIM, {}),
            ("PUT", f"{RECORD}/fields/status", {"value": 1}),
            ("GET", RECORD, None),
        ):
            assert await refusal(server, method, path, body, token=token) == (401, "UNAUTHENTICATED")
    assert contents(database_url) == before


async def test_a_reading_key_reads_and_writes_nothing(server: InProcessServer, database_url: str) -> None:
    writes = await server.add_key("remediator/writes")
    reads = await server.add_key("remediator/reads", scope="read")
    await server.ask("PUT", f"{RECORD}/fields/status", {"value": "open"}, token=writes)
    before = contents(database_url)

    assert (await server.ask("GET", RECORD, token=reads))["fields"]["status"]["value"] == "open"
    for method, path, body in (
        ("PUT", CLAIM, {}),
        ("PUT", CLAIM, {"lease_seconds": 0}),
        ("PUT", f"{RECORD}/fields/status", {"value": 1}),
        ("POST", f"{RECORD}/fields/actions", {"value": 1}),
        ("POST", RECORD, {"writes": [{"field": "status", "put": 1}]}),
        ("DELETE", RECORD, {}),
    ):
        assert await refusal(server, method, path, body, token=reads) == (403, "SCOPE_DENIED"), (method, path)
    assert contents(database_url) == before


async def test_a_new_key_of_the_name_goes_on_with_what_the_one_before_holds(server: InProcessServer) -> None:
    first = await server.add_key("remediator/a")
    held = await server.ask("PUT", CLAIM, {}, token=first)
    second = await server.add_key("remediator/a", replace=True)

    again = await server.ask("PUT", CLAIM, {"renew": True}, token=second)
    assert (again["owner"], again["epoch"]) == (held["owner"], held["epoch"])
    assert await refusal(server, "PUT", CLAIM, {}, token=first) == (401, "UNAUTHENTICATED")
