"""What machines can run, and which will do for a profile, over HTTP (companion 7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

OF_MILL: Final = "/v1/agents/agent-mill/capabilities"
HOSTS: Final = "/v1/profiles/profile-strong/hosts"
STRONG: Final = {"harness": "codex", "mcp": ["batonpass"], "skills": ["review"]}


@pytest.fixture
async def pat(server: InProcessServer) -> str:
    """Return the token of a person; there is a profile."""
    profile = {"id": "profile-strong", "type": "profile", "title": "S", "summary": "S", **STRONG}
    await server.ask("POST", "/v1/nodes", {"nodes": [profile]})
    return await server.add_person("Pat")


@pytest.fixture
async def mill(server: InProcessServer, pat: str) -> str:
    """Return the token of an agent of theirs."""
    return await server.add_agent("mill", token=pat)


async def test_what_a_machine_can_run_is_published_by_it_and_shown_merged(server: InProcessServer, mill: str) -> None:
    layers = {
        "probed": {"harnesses": ["codex", "claude-code"], "gh": True, "deny": ["profile-probed"]},
        "declared": {"harnesses": ["own"], "deny": ["profile-weak"]},
        "skills": "review",
    }

    first = await server.ask("POST", OF_MILL, layers, token=mill)
    again = await server.ask("POST", OF_MILL, {"capabilities": layers, "later": 1}, token=mill)
    read = await server.ask("GET", OF_MILL, token=mill)

    assert first["capabilities"] == {
        "harnesses": ["codex", "claude-code", "own"],
        "reachable_mcp": [],
        "skills": ["review"],
        "plugins": [],
        "gh": True,
        "deny": ["profile-weak"],
    }
    assert (first["changed"], again["changed"], "changed" in read) == (True, False, False)
    assert again["warnings"] == ["later: not a field of this request; ignored"]
    assert read["capabilities"] == first["capabilities"]
    assert (read["agent"], read["published_by"]) == ("agent-mill", "agent-mill")


async def test_whose_the_machine_is_says_who_publishes_and_reads(server: InProcessServer, pat: str, mill: str) -> None:
    eve = await server.add_person("Eve")
    stranger = await server.add_agent("other", token=eve)
    never = await server.send("GET", OF_MILL, token=mill)
    unbeaten = await server.send("POST", "/v1/agents/agent-mill/heartbeat", {}, token=mill)
    for token in (mill, pat, server.admin_token):
        assert (await server.send("POST", OF_MILL, {}, token=token)).status_code == 200
        assert (await server.send("GET", OF_MILL, token=token)).status_code == 200
        assert (await server.send("POST", "/v1/agents/agent-mill/heartbeat", {}, token=token)).status_code == 200
    for token in (eve, stranger):
        assert (await server.send("POST", OF_MILL, {}, token=token)).status_code == 403
        assert (await server.send("GET", OF_MILL, token=token)).status_code == 403
        assert (await server.send("POST", "/v1/agents/agent-mill/heartbeat", {}, token=token)).status_code == 403
    nobody = await server.send("POST", "/v1/agents/agent-nobody/capabilities", {}, token=mill)

    assert (never.status_code, unbeaten.status_code, nobody.status_code) == (404, 404, 404)


@pytest.mark.parametrize(
    "body, field",
    [
        ({"harnesses": 7}, "harnesses"),
        ({"probed": []}, "probed"),
        ({"declared": {"gh": "yes"}}, "declared.gh"),
        ({"deny": ["No Id"]}, "deny"),
        ({"skills": ["x"] * 501}, "skills"),
    ],
)
async def test_what_is_no_axis_is_refused_by_name(
    server: InProcessServer, mill: str, body: dict[str, Any], field: str
) -> None:
    refused = await server.send("POST", OF_MILL, body, token=mill)

    assert (refused.status_code, refused.json()["error"]["message"].split(": ")[0]) == (422, field)


async def test_a_heartbeat_moves_when_a_machine_was_seen_and_nothing_else(
    server: InProcessServer, mill: str, clock: ManualClock
) -> None:
    published = await server.ask("POST", OF_MILL, {}, token=mill)
    clock.advance(timedelta(minutes=5))

    beat = await server.ask("POST", "/v1/agents/agent-mill/heartbeat", {}, token=mill)
    read = await server.ask("GET", OF_MILL, token=mill)

    assert read["last_seen"] == beat["last_seen"] > published["last_seen"]
    assert read["published_at"] == published["published_at"]


async def test_the_hosts_of_a_profile_freshest_first_with_every_reason(
    server: InProcessServer, pat: str, mill: str, clock: ManualClock
) -> None:
    fit = {"harnesses": ["codex"], "reachable_mcp": ["batonpass"], "skills": ["review", "more"]}
    others = {
        "two": fit,
        "bare": {"harnesses": ["gemini"]},
        "denied": {**fit, "deny": ["profile-strong"]},
        "old": fit,
    }
    tokens = {label: await server.add_agent(label, token=pat) for label in others}
    await server.ask("POST", "/v1/agents/agent-old/capabilities", fit, token=tokens["old"])
    clock.advance(timedelta(hours=13))
    await server.ask("POST", OF_MILL, fit, token=mill)
    for label in ("two", "bare", "denied"):
        clock.advance(timedelta(minutes=1))
        await server.ask("POST", f"/v1/agents/agent-{label}/capabilities", others[label], token=tokens[label])

    found = await server.ask("GET", f"{HOSTS}?owner=me&max_age=12h", token=pat)
    as_agent = await server.ask("GET", HOSTS, token=mill)

    assert [(host["agent"], host["age_seconds"]) for host in found["satisfiable"]] == [
        ("agent-two", 120),
        ("agent-mill", 180),
    ]
    assert [(host["agent"], host["reasons"]) for host in found["unsatisfiable"]] == [
        ("agent-denied", ["profile-strong is denied on this machine"]),
        (
            "agent-bare",
            [
                "the harness codex is not there, only gemini",
                "the MCP server batonpass is not there",
                "the skill review is not there",
            ],
        ),
    ]
    assert found["counts"] == {"satisfiable": 2, "unsatisfiable": 2, "stale": 1}
    assert as_agent["counts"] == {"satisfiable": 3, "unsatisfiable": 2, "stale": 0}


async def test_anothers_machines_are_an_admins_to_see(server: InProcessServer, pat: str, mill: str) -> None:
    await server.ask("POST", OF_MILL, {}, token=mill)
    eve, key = await server.add_person("Eve"), await server.add_key("ci")

    as_eve = await server.send("GET", f"{HOSTS}?owner=person-pat", token=eve)
    as_key = await server.send("GET", HOSTS, token=key)
    as_admin = await server.ask("GET", f"{HOSTS}?owner=person-pat")
    own = await server.ask("GET", f"{HOSTS}?owner=person-pat", token=pat)

    assert (as_eve.status_code, as_key.status_code) == (403, 403)
    assert as_admin["counts"] == own["counts"] == {"satisfiable": 0, "unsatisfiable": 1, "stale": 0}


async def test_hosts_are_of_a_profile(server: InProcessServer, pat: str) -> None:
    missing = await server.send("GET", "/v1/profiles/profile-none/hosts", token=pat)
    person = await server.send("GET", "/v1/profiles/person-pat/hosts", token=pat)
    age = await server.send("GET", f"{HOSTS}?max_age=soon", token=pat)

    assert (missing.status_code, person.status_code, age.status_code) == (404, 422, 422)
    assert "is a person, not a profile" in person.text


@pytest.mark.parametrize("key", ["argv", "env", "command", "binary"])
async def test_a_profile_that_would_choose_what_is_run_is_refused_by_the_key(server: InProcessServer, key: str) -> None:
    profile = {"id": "profile-bad", "type": "profile", "title": "B", "summary": "B", key: ["sh"]}

    refused = await server.send("POST", "/v1/nodes", {"nodes": [profile]})

    (result,) = refused.json()["results"]
    assert (result["status"], key in str(result)) == ("error", True)
