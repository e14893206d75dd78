from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

DEFAULTS = {
    "claim_ttl_ms": 2_700_000,
    "claim_ttl_max_ms": 28_800_000,
    "reserve_grace_ms": 172_800_000,
    "lapse_limit": 5,
    "run_limit": 10,
    "max_claims": 50,
    "paused": None,
    "agents_may_ready": False,
}


async def test_without_settings_the_defaults_are_in_force(server: InProcessServer) -> None:
    assert await server.ask("GET", "/v1/policy/demo") == {"project": "demo", **DEFAULTS}


async def test_a_project_falls_back_to_every_projects_settings_then_to_the_defaults(server: InProcessServer) -> None:
    await server.ask("PUT", "/v1/policy/*", {"claim_ttl_ms": 60_000, "max_claims": 3})
    own = await server.ask("PUT", "/v1/policy/demo", {"claim_ttl_ms": 90_000})
    other = await server.ask("GET", "/v1/policy/other")

    assert own == {"project": "demo", **DEFAULTS, "claim_ttl_ms": 90_000, "max_claims": 3}
    assert other == {"project": "other", **DEFAULTS, "claim_ttl_ms": 60_000, "max_claims": 3}

    back = await server.ask("PUT", "/v1/policy/demo", {"claim_ttl_ms": None, "paused": "incident"})
    assert back == {"project": "demo", **DEFAULTS, "claim_ttl_ms": 60_000, "max_claims": 3, "paused": "incident"}


async def test_a_change_touches_the_next_grant_only(server: InProcessServer, clock: ManualClock) -> None:
    await server.ask("PUT", "/v1/policy/*", {"claim_ttl_ms": 3_600_000})
    await server.ask("POST", "/v1/nodes", {"nodes": [{"id": "task-a", "type": "task", "title": "A", "summary": "A"}]})
    seven, nine = await server.add_agent("seven"), await server.add_agent("nine")
    granted = await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)

    await server.ask("PUT", "/v1/policy/*", {"claim_ttl_ms": 60_000})
    clock.advance(timedelta(minutes=2))
    refused = await server.send("POST", "/v1/nodes/task-a/claim", {}, token=nine)
    renewed = await server.ask("POST", "/v1/nodes/task-a/renew", {}, token=seven)

    assert refused.status_code == 409
    assert refused.json()["holder"]["expires"] == granted["lease"]["expires"]
    assert renewed["lease"]["expires"] == granted["lease"]["expires"], "a renewal never shortens"


async def test_two_changes_at_once_both_stand(server: InProcessServer) -> None:
    await asyncio.gather(
        server.ask("PUT", "/v1/policy/demo", {"max_claims": 7}),
        server.ask("PUT", "/v1/policy/demo", {"lapse_limit": 9}),
    )

    stored = await server.ask("GET", "/v1/policy/demo")
    assert (stored["max_claims"], stored["lapse_limit"]) == (7, 9)


async def test_everybody_reads_and_only_an_admin_writes(server: InProcessServer) -> None:
    bob, seven = await server.add_person("Bob"), await server.add_agent("seven")

    assert (await server.send("GET", "/v1/policy/demo", token=seven)).status_code == 200
    for token in (bob, seven):
        response = await server.send("PUT", "/v1/policy/demo", {"max_claims": 1}, token=token)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    "body, field",
    [
        ({"claim_ttl_ms": 0}, "claim_ttl_ms"),
        ({"claim_ttl_ms": "60s"}, "claim_ttl_ms"),
        ({"max_claims": 10_001}, "max_claims"),
        ({"lapse_limit": True}, "lapse_limit"),
        ({"paused": " "}, "paused"),
        ({"paused": "x" * 501}, "paused"),
        ({"pause": "x"}, "pause"),
    ],
)
async def test_a_setting_that_is_none_is_refused_by_name(
    server: InProcessServer, body: dict[str, object], field: str
) -> None:
    response = await server.send("PUT", "/v1/policy/demo", body)

    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(f"{field}:")
    assert await server.ask("GET", "/v1/policy/demo") == {"project": "demo", **DEFAULTS}
