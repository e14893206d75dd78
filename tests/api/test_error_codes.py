"""Every error code, produced by a request: one test a code, named in the table of docs/reference/errors.md (D16b)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import httpx
import pytest

from batonpass.server.http.bodies import BODY_BYTES_MAX
from batonpass.server.services.feed import Feed
from batonpass.testing.points import failing
from batonpass.testing.populated import CLAIMED, FREE, INCIDENT, INCIDENTS, KEY, RELEASED
from batonpass.testing.walks import Walk
from batonpass.wire.errors import HTTP_STATUS, RECORD_ERRORS

pytestmark = pytest.mark.anyio

STATUS_OF: Final = {kind.code: status for kind, status in HTTP_STATUS.items()}


async def ask(
    walk: Walk, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await walk.server.send(method, path, body, token=token, headers=named)


def refused(answer: httpx.Response, code: str, *, field: str | None = None) -> dict[str, Any]:
    """Return the body of a refusal, after asserting that it is the one expected."""
    body: dict[str, Any] = answer.json()
    assert (body["error"]["code"], answer.status_code) == (code, STATUS_OF[code]), answer.text
    assert body["error"].get("field") == field, answer.text
    assert body["error"]["message"]
    return body


async def test_bad_request_is_a_body_that_is_no_json_object(walk: Walk) -> None:
    sent = walk.server.http.post(
        f"/v1/nodes/{FREE}/claim", content=b"[1]", headers={"Authorization": f"Bearer {walk.fleet.agent}"}
    )

    refused(await sent, "bad_request")


async def test_unauthorized_is_a_token_that_opens_nothing(walk: Walk) -> None:
    answer = await ask(walk, "GET", "/v1/me", token="bat_pat_" + "x" * 43)

    refused(answer, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_forbidden_is_what_only_an_admin_may(walk: Walk) -> None:
    refused(await ask(walk, "GET", "/v1/admin/people", token=walk.fleet.person), "forbidden")


async def test_forbidden_is_a_write_under_a_token_that_reads(walk: Walk) -> None:
    reads = (await walk.server.ask("POST", "/v1/me/tokens", {"scope": "read"}, token=walk.fleet.person))["token"]

    refused(await ask(walk, "POST", f"/v1/nodes/{FREE}/claim", {}, token=reads), "forbidden")


async def test_not_found_is_a_well_formed_id_of_nothing(walk: Walk) -> None:
    refused(await ask(walk, "GET", "/v1/nodes/task-nobody"), "not_found")


async def test_not_found_is_a_path_that_leads_nowhere(walk: Walk) -> None:
    refused(await ask(walk, "GET", "/v1/nowhere"), "not_found")


async def test_method_not_allowed_is_a_path_asked_in_another_way(walk: Walk) -> None:
    answer = await ask(walk, "PATCH", "/v1/queue")

    refused(answer, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


async def test_conflict_is_a_second_agent_of_one_name(walk: Walk) -> None:
    refused(await ask(walk, "POST", "/v1/agents", {"label": "mill"}, token=walk.fleet.person), "conflict")


async def test_already_claimed_is_a_live_lease_of_somebody_else(walk: Walk) -> None:
    answer = await ask(walk, "POST", f"/v1/nodes/{CLAIMED}/claim", {}, token=walk.fleet.rival)

    assert refused(answer, "already_claimed")["holder"]["by"] == "agent-mill"


async def test_lease_lost_is_a_tenure_that_is_over(walk: Walk) -> None:
    answer = await ask(walk, "POST", f"/v1/nodes/{CLAIMED}/renew", {"if_epoch": 77}, token=walk.fleet.agent)

    refused(answer, "lease_lost")


async def test_lease_lost_is_a_write_on_a_fence_that_is_over(walk: Walk) -> None:
    answer = await ask(
        *(walk, "POST", f"/v1/nodes/{FREE}/priority", {"priority": "p1"}), If_Lease=f"{CLAIMED}; epoch=77"
    )

    refused(answer, "lease_lost")


async def test_not_ready_is_an_item_that_is_done(walk: Walk) -> None:
    await walk.server.ask("POST", f"/v1/nodes/{RELEASED}/status", {"status": "abandoned"})

    refused(await ask(walk, "POST", f"/v1/nodes/{RELEASED}/claim", {}, token=walk.fleet.agent), "not_ready")


async def test_execution_boundary_is_an_item_that_a_pipeline_has(walk: Walk) -> None:
    node = {"id": "task-piped", "type": "task", "title": "a", "summary": "a", "execution": "pipelines/r1"}
    await walk.server.ask("POST", "/v1/nodes", {"nodes": [node]})

    for body in ({}, {"force": True}):
        answer = await ask(walk, "POST", "/v1/nodes/task-piped/claim", body, token=walk.fleet.agent)
        said = refused(answer, "execution_boundary")
        assert "pipelines/r1" in said["error"]["message"]


async def test_paused_is_a_project_that_takes_no_claims(walk: Walk) -> None:
    await walk.server.ask("PUT", "/v1/policy/mail", {"paused": "incident 7"})

    said = refused(await ask(walk, "POST", f"/v1/nodes/{FREE}/claim", {}, token=walk.fleet.agent), "paused")
    assert "incident 7" in said["error"]["message"]


async def test_too_many_claims_is_one_more_than_the_policy_allows(walk: Walk) -> None:
    await walk.server.ask("PUT", "/v1/policy/mail", {"max_claims": 1})

    refused(await ask(walk, "POST", f"/v1/nodes/{FREE}/claim", {}, token=walk.fleet.agent), "too_many_claims")


async def test_transition_denied_is_a_status_that_the_type_does_not_allow_now(walk: Walk) -> None:
    node = {"id": "task-x", "type": "task", "title": "X", "summary": "X", "date": "2026-06-01"}
    await walk.server.ask("POST", "/v1/nodes", {"nodes": [node]})

    refused(await ask(walk, "POST", "/v1/nodes/task-x/status", {"status": "done"}), "transition_denied", field="status")


async def test_too_large_is_a_body_over_a_mebibyte(walk: Walk) -> None:
    answer = await walk.server.http.post(
        "/v1/nodes", content=b" " * (BODY_BYTES_MAX + 1), headers={"Authorization": f"Bearer {walk.fleet.person}"}
    )

    refused(answer, "too_large")


async def test_invalid_request_is_a_value_that_breaks_a_rule(walk: Walk) -> None:
    refused(await ask(walk, "GET", "/v1/nodes/No-Id"), "invalid_request", field="id")
    refused(await ask(walk, "GET", "/v1/nodes/" + "a" * 10_000), "invalid_request", field="id")


async def test_invalid_node_is_a_claim_on_what_is_never_claimed(walk: Walk) -> None:
    answer = await ask(walk, "POST", "/v1/nodes/art-report/claim", {}, token=walk.fleet.agent)

    refused(answer, "invalid_node", field=answer.json()["error"].get("field"))


async def test_invalid_edge_is_a_circle_of_blocks(walk: Walk) -> None:
    answer = await ask(walk, "POST", f"/v1/nodes/{RELEASED}/edges", {"type": "blocks", "to": FREE})

    said = refused(answer, "invalid_edge", field=answer.json()["error"].get("field"))
    assert said["error"]["details"] == [RELEASED, FREE, RELEASED]


async def test_resync_is_a_position_from_before_a_restore(walk: Walk) -> None:
    position = (await walk.server.ask("GET", "/v1/events?after=now"))["next"]
    foreign = ("1" if position[0] == "0" else "0") + position[1:]

    refused(await ask(walk, "GET", f"/v1/events?after={foreign}"), "resync")


async def test_rate_limited_is_one_more_who_waits_than_may(walk: Walk) -> None:
    full = Feed(walk.server.store, waits_max=0)
    walk.server.app.state.services = replace(walk.server.services, feed=full)
    position = (await walk.server.ask("GET", "/v1/events?after=now"))["next"]

    answer = await ask(walk, "GET", f"/v1/events?after={position}&wait=1")

    refused(answer, "rate_limited")
    assert int(answer.headers["retry-after"]) >= 1


async def test_internal_is_a_promise_of_ours_that_broke_and_says_nothing_of_how(
    walk: Walk, caplog: pytest.LogCaptureFixture
) -> None:
    with failing("fence.checked", ZeroDivisionError("a secret of the server")):
        answer = await ask(walk, "POST", f"/v1/nodes/{FREE}/priority", {"priority": "p1"})

    refused(answer, "internal")
    assert "a secret" not in answer.text
    assert "a secret" in caplog.text


async def test_unavailable_is_a_database_that_the_server_cannot_ask_now(walk: Walk) -> None:
    await ask(walk, "GET", "/v1/me", token=walk.fleet.agent)  # whose token it is, is known
    await walk.server.store.close()

    answer = await ask(walk, "POST", f"/v1/nodes/{FREE}/priority", {"priority": "p2"})

    refused(answer, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1


# --- below /v1/records -----------------------------------------------------------------------------------------------


def refused_flat(answer: httpx.Response, code: str, *, field: str | None = None) -> dict[str, Any]:
    """Return the body of a refusal of a record's route, after asserting that it is the one expected."""
    body: dict[str, Any] = answer.json()
    assert (body["error"], answer.status_code) == (code, dict(RECORD_ERRORS.values())[code]), answer.text
    assert body.get("field") == field, answer.text
    assert body["message"]
    return body


async def test_scope_denied_is_what_no_role_lets_one_do(walk: Walk) -> None:
    document = {**INCIDENTS, "roles": {"nobody": {"identities": ["apikey:nobody"], "read": ["*"]}}}
    await walk.server.ask("PUT", "/v1/classes/incidents", document)

    refused_flat(await ask(walk, "GET", INCIDENT, token=walk.fleet.agent), "SCOPE_DENIED")


async def test_not_task_field_is_a_claim_on_a_field_that_holds_a_value(walk: Walk) -> None:
    answer = await ask(walk, "PUT", f"{INCIDENT}/fields/status/claim", {}, token=walk.fleet.agent)

    refused_flat(answer, "NOT_TASK_FIELD", field="status")


async def test_held_is_a_task_that_somebody_else_has(walk: Walk) -> None:
    answer = await ask(walk, "PUT", f"{INCIDENT}/fields/remediation/claim", {}, token=walk.fleet.agent)

    body = refused_flat(answer, "HELD", field="remediation")
    assert (body["owner"], body["version"]) == (f"apikey:{KEY}", 1)
    assert body["lease_expires_at"]


async def test_stale_premise_is_a_field_that_has_moved_on(walk: Walk) -> None:
    body = {"value": "closed", "based_on": [{"field": "status", "version": 7}]}

    answer = await ask(walk, "PUT", f"{INCIDENT}/fields/status", body, token=walk.fleet.agent)

    told = refused_flat(answer, "STALE_PREMISE")
    assert told["premises"] == [{"field": "status", "expected": 7, "actual": 1}]


async def test_cap_reached_is_one_more_item_than_the_class_allows(walk: Walk) -> None:
    append = f"{INCIDENT}/fields/actions"
    for _ in range(3):
        await walk.server.ask("POST", append, {"value": 1})

    refused_flat(await ask(walk, "POST", append, {"value": 1}), "CAP_REACHED", field="actions")


async def test_what_is_no_route_or_no_token_is_told_flatly_too(walk: Walk) -> None:
    refused_flat(await ask(walk, "GET", f"{INCIDENT}/nowhere"), "NOT_FOUND")
    refused_flat(await ask(walk, "PATCH", INCIDENT), "METHOD_NOT_ALLOWED")
    refused_flat(await ask(walk, "GET", INCIDENT, token="bat_agt_" + "x" * 43), "UNAUTHENTICATED")
    with failing("fence.checked", ZeroDivisionError("a secret of the server")):
        # Several writes of one request: a single one would be tried again, alone.
        refused_flat(await ask(walk, "POST", INCIDENT, {"writes": [{"field": "status", "put": "open"}]}), "INTERNAL")
