"""Task fields of records through their one route: claim, renew, release, take over (task-fields, D32 to D36)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.core.clock import MICROS_PER_S, iso
from batonpass.core.ids import Instant
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, Gathered, crew
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

RECORD: Final = "incidents/inc-4471"
REMEDIATOR: Final = {
    "identities": ["agent:*"],
    "read": ["status", "actions_taken", "remediation", "review"],
    "write": ["status"],
    "claim": ["remediation", "review"],
}
CLASS: Final = {
    "fields": {
        "status": {"type": "register"},
        "secret": {"type": "register"},
        "actions_taken": {"type": "append", "cap": 10},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task"},
    },
    "roles": {"remediator": REMEDIATOR, "reader": {"identities": ["person:person-ben"], "read": "*"}},
}


class Incident:
    """A record's tasks as several agents see them."""

    def __init__(self, team: Crew, clock: ManualClock) -> None:
        self.server = team.server
        self.clock = clock
        self.url = team.url
        self.tokens = team.tokens

    async def ask(
        self, who: str, body: object = None, *, field: str = "remediation", record: str = RECORD, **headers: str
    ) -> httpx.Response:
        """Send one claim, renewal or release and return the response whatever its status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/v1/records/{record}/fields/{field}/claim"
        return await self.server.send("PUT", path, body, token=self.tokens[who], headers=named)

    async def claim(self, who: str, *, field: str = "remediation", **body: object) -> dict[str, Any]:
        """Send one that is carried out, and return its reply."""
        response = await self.ask(who, body, field=field)
        assert response.status_code == 200, response.text
        return dict(response.json())

    async def refusal(self, who: str, body: object, **where: str) -> dict[str, Any]:
        """Send one that is refused and leaves the database as it was, byte for byte; return what it says."""
        before = contents(self.url)
        response = await self.ask(who, body, **where)
        assert response.status_code >= 400, response.text
        assert contents(self.url) == before
        return {"status": response.status_code, **response.json()}

    def history(self) -> list[tuple[object, ...]]:
        """Return the history of all records, oldest first: author, verb, field, both versions, who was displaced."""
        logged = sorted(contents(self.url)["record_log"], key=lambda row: (row[0], row[1], row[2]))
        return [(row[4], row[5], row[6], row[7], row[8], row[12]) for row in logged]

    def at(self, seconds: float) -> str:
        """Return the moment so many seconds from now, as the wire has it."""
        return iso(Instant(self.clock.moment() + int(seconds * MICROS_PER_S)))


@pytest.fixture
async def incident(gathered: Gathered, clock: ManualClock) -> AsyncIterator[Incident]:
    """An incident of which nobody has written yet, its class, and the crew: a1 and b1 may claim."""
    async with crew(gathered, clock=clock) as team:
        await team.server.ask("PUT", "/v1/classes/incidents", CLASS)
        yield Incident(team, clock)


def fence(version: int, *, field: str = "remediation") -> dict[str, object]:
    return {"kind": "fence", "field": field, "version": version}


def fence_of(epoch: int, *, field: str = "remediation") -> dict[str, object]:
    return {"kind": "fence", "field": field, "epoch": epoch}


# --- claim -----------------------------------------------------------------------------------------------------------


async def test_a_claim_makes_the_record_and_holds_the_task_for_the_lease_of_its_class(incident: Incident) -> None:
    claimed = await incident.claim("a1")

    assert claimed == {
        "record": RECORD,
        "field": "remediation",
        "owner": "agent:agent-a1",
        "lease_expires_at": incident.at(300),
        "expires_in_ms": 300_000,
        "version": 1,
        "record_version": 1,
        "epoch": 1,
    }
    assert incident.history() == [("agent:agent-a1", "claim", "remediation", 1, 1, None)]


async def test_a_task_that_somebody_has_is_held_and_says_by_whom_until_when(incident: Incident) -> None:
    await incident.claim("a1")

    refused = await incident.refusal("b1", {})

    assert f"{RECORD}#remediation is held by agent:agent-a1 until" in refused.pop("message")
    assert refused == {
        "status": 409,
        "error": "HELD",
        "field": "remediation",
        "owner": "agent:agent-a1",
        "lease_expires_at": incident.at(300),
        "version": 1,
    }


async def test_a_claim_of_ones_own_task_answers_it_as_it_stands(incident: Incident) -> None:
    first = await incident.claim("a1")
    before = contents(incident.url)
    incident.clock.advance(timedelta(seconds=10))

    again = await incident.claim("a1", lease_seconds=900)

    assert again == {**first, "expires_in_ms": 290_000}
    assert contents(incident.url) == before


async def test_tasks_of_one_record_are_held_apart_and_share_its_version(incident: Incident) -> None:
    await incident.claim("a1")

    other = await incident.claim("b1", field="review", lease_seconds=60)

    assert (other["version"], other["record_version"], other["epoch"]) == (1, 2, 1)


async def test_a_lease_may_be_asked_for_up_to_a_day_whatever_the_class_says(incident: Incident) -> None:
    claimed = await incident.claim("a1", lease_seconds=86_400)

    assert claimed["lease_expires_at"] == incident.at(86_400)


async def test_a_paused_project_and_a_limit_of_claims_stop_no_task(incident: Incident) -> None:
    await incident.server.ask("PUT", "/v1/policy/*", {"paused": "a freeze", "max_claims": 1, "claim_ttl_max_ms": 1000})

    await incident.claim("a1")
    second = await incident.claim("a1", field="review", lease_seconds=900)

    assert second["expires_in_ms"] == 900_000


# --- renew and release -----------------------------------------------------------------------------------------------


async def test_a_renewal_extends_from_now_and_moves_both_versions_but_not_the_epoch(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=100))

    renewed = await incident.claim("a1", lease_seconds=300, renew=True)

    assert (renewed["version"], renewed["record_version"], renewed["epoch"]) == (2, 2, 1)
    assert renewed["lease_expires_at"] == incident.at(300)
    assert "took_over_from" not in renewed
    assert len(incident.history()) == 1, "a renewal is no entry of the history"


async def test_a_renewal_never_shortens(incident: Incident) -> None:
    await incident.claim("a1", lease_seconds=600)

    renewed = await incident.claim("a1", lease_seconds=5, renew=True)

    assert renewed["lease_expires_at"] == incident.at(600)


async def test_a_renewal_of_a_free_task_acquires_it(incident: Incident) -> None:
    renewed = await incident.claim("a1", renew=True)

    assert (renewed["version"], renewed["epoch"], renewed["owner"]) == (1, 1, "agent:agent-a1")
    assert "reclaimed" not in renewed


async def test_a_renewal_of_what_somebody_took_over_is_held(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))
    await incident.claim("b1")

    late = await incident.refusal("a1", {"renew": True})

    assert (late["error"], late["owner"], late["version"]) == ("HELD", "agent:agent-b1", 2)


async def test_a_renewal_by_the_former_holder_resumes_what_nobody_has_taken(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))

    resumed = await incident.claim("a1", renew=True)

    assert (resumed["version"], resumed["epoch"], resumed["reclaimed"]) == (2, 1, True)
    assert len(incident.history()) == 1


async def test_a_released_task_is_free_and_keeps_its_versions(incident: Incident) -> None:
    await incident.claim("a1")

    released = await incident.claim("a1", lease_seconds=0)
    claimed = await incident.claim("b1")

    assert released == {"record": RECORD, "field": "remediation", "version": 2, "record_version": 2, "epoch": 1}
    assert (claimed["version"], claimed["record_version"], claimed["epoch"]) == (3, 3, 2)
    assert "took_over_from" not in claimed
    assert incident.history() == [
        ("agent:agent-a1", "claim", "remediation", 1, 1, None),
        ("agent:agent-a1", "release", "remediation", 2, 2, None),
        ("agent:agent-b1", "claim", "remediation", 3, 3, None),
    ]


async def test_a_task_is_not_released_by_somebody_else_while_its_holder_has_it(incident: Incident) -> None:
    await incident.claim("a1")

    refused = await incident.refusal("b1", {"lease_seconds": 0})

    assert (refused["error"], refused["owner"]) == ("HELD", "agent:agent-a1")


async def test_a_lapsed_task_released_by_somebody_else_is_taken_over_and_free(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))

    released = await incident.claim("b1", lease_seconds=0)

    assert released == {
        "record": RECORD,
        "field": "remediation",
        "version": 2,
        "record_version": 2,
        "epoch": 2,
        "took_over_from": "agent:agent-a1",
    }
    assert incident.history()[-1] == ("agent:agent-b1", "takeover", "remediation", 2, 2, "agent:agent-a1")
    stale = await incident.refusal("a1", {"renew": True, "based_on": [fence_of(1)]})
    assert stale["error"] == "STALE_PREMISE"


async def test_a_lapsed_task_is_released_by_its_holder(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))

    released = await incident.claim("a1", lease_seconds=0)

    assert (released["version"], released["epoch"]) == (2, 1)
    assert "took_over_from" not in released


@pytest.mark.parametrize("record", [RECORD, "incidents/nowhere"], ids=["never claimed", "no such record"])
async def test_a_release_of_what_nobody_ever_claimed_makes_nothing(incident: Incident, record: str) -> None:
    await incident.claim("a1", field="review", lease_seconds=60)
    before = contents(incident.url)

    released = await incident.ask("b1", {"lease_seconds": 0}, record=record)

    assert released.status_code == 200
    assert released.json() == {
        "record": record,
        "field": "remediation",
        "version": 0,
        "record_version": 1 if record == RECORD else 0,
        "epoch": 0,
    }
    assert contents(incident.url) == before


async def test_the_owner_of_an_agent_releases_what_it_holds(incident: Incident) -> None:
    boss = {"identities": ["person:person-ann"], "read": "*", "claim": "*"}
    roles = {"remediator": REMEDIATOR, "boss": boss}
    await incident.server.ask("PUT", "/v1/classes/incidents", {**CLASS, "roles": roles})
    await incident.claim("a1")

    await incident.claim("ann", lease_seconds=0)

    assert incident.history()[-1] == ("person:person-ann", "release", "remediation", 2, 2, None)


# --- take over -------------------------------------------------------------------------------------------------------


async def test_a_lapsed_task_is_taken_over_and_the_reply_says_from_whom(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=300))

    taken = await incident.claim("b1", lease_seconds=300)

    assert (taken["took_over_from"], taken["version"], taken["epoch"]) == ("agent:agent-a1", 2, 2)
    assert incident.history()[-1] == ("agent:agent-b1", "takeover", "remediation", 2, 2, "agent:agent-a1")


async def test_what_happens_to_a_task_is_in_the_feed_and_renewals_are_not(incident: Incident) -> None:
    await incident.claim("a1")
    await incident.claim("a1", renew=True)
    incident.clock.advance(timedelta(seconds=301))
    await incident.claim("b1")
    await incident.claim("b1", lease_seconds=0)

    kinds = "lease.claimed,lease.taken_over,lease.released"
    feed = await incident.server.ask("GET", f"/v1/events?kind={kinds}", token=incident.tokens["a1"])

    assert [
        (each["kind"], each["record"], each["field"], each["version"], each["epoch"], each["actor"], each.get("node"))
        for each in feed["events"]
    ] == [
        ("lease.claimed", RECORD, "remediation", 1, 1, "agent-a1", None),
        ("lease.taken_over", RECORD, "remediation", 3, 2, "agent-b1", None),
        ("lease.released", RECORD, "remediation", 4, 2, "agent-b1", None),
    ]


async def test_a_late_duplicate_of_a_fenced_renewal_takes_nothing_back(incident: Incident) -> None:
    first = await incident.claim("a1")
    body: dict[str, Any] = {"renew": True, "based_on": [fence_of(first["epoch"])]}
    await incident.claim("a1", **body)
    incident.clock.advance(timedelta(seconds=301))
    await incident.claim("b1")
    await incident.claim("b1", lease_seconds=0)

    late = await incident.refusal("a1", body)

    assert late["error"] == "STALE_PREMISE"
    assert late["premises"] == [{"field": "remediation", "expected": 1, "actual": 2, "kind": "fence"}]


async def test_a_fence_pins_a_claim_to_its_tenure_which_it_then_resumes(incident: Incident) -> None:
    first = await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))

    resumed = await incident.claim("a1", based_on=[fence_of(first["epoch"])])

    assert (resumed["epoch"], resumed["version"], resumed["reclaimed"]) == (1, 2, True)


# --- premises --------------------------------------------------------------------------------------------------------


async def test_a_stale_fence_refuses_every_verb_and_changes_nothing(incident: Incident) -> None:
    await incident.claim("a1")
    await incident.claim("a1", renew=True)

    refused = [
        await incident.refusal("a1", {**verb, "based_on": [premise]})
        for verb in ({}, {"renew": True}, {"lease_seconds": 0})
        for premise in (fence(1), fence_of(7))
    ]

    assert {(each["status"], each["error"]) for each in refused} == {(409, "STALE_PREMISE")}


async def test_every_stale_premise_is_told_with_who_holds_it(incident: Incident) -> None:
    await incident.claim("a1")
    based_on = [fence(1), {"field": "status", "version": 3}, fence(4, field="review")]

    refused = await incident.refusal("b1", {"lease_seconds": 60, "based_on": based_on}, field="review")

    assert refused["premises"] == [
        {"field": "remediation", "expected": 1, "actual": 1, "kind": "fence", "owner": "agent:agent-a1"},
        {"field": "status", "expected": 3, "actual": 0},
        {"field": "review", "expected": 4, "actual": 0, "kind": "fence"},
    ]


async def test_what_was_read_of_a_task_is_a_premise_without_holding_it(incident: Incident) -> None:
    await incident.claim("a1")
    premise = [{"field": "remediation", "version": 1}, {"field": "status", "version": 0}]

    claimed = await incident.claim("b1", field="review", lease_seconds=60, based_on=premise)

    assert claimed["version"] == 1


@pytest.mark.parametrize("record", [RECORD, "incidents/nowhere"], ids=["never claimed", "no such record"])
async def test_a_fence_of_what_is_not_there_is_stale_and_makes_nothing(incident: Incident, record: str) -> None:
    await incident.claim("a1", field="review", lease_seconds=60)

    refused = await incident.refusal("a1", {"based_on": [fence(1)]}, record=record)

    assert refused["premises"] == [{"field": "remediation", "expected": 1, "actual": 0, "kind": "fence"}]


async def test_a_broken_if_lease_is_a_stale_premise(incident: Incident) -> None:
    await incident.claim("a1")

    refused = await incident.ask(
        "a1", {"lease_seconds": 9}, field="review", if_lease=f"record:{RECORD}#remediation; epoch=9"
    )

    assert (refused.status_code, refused.json()["error"]) == (409, "STALE_PREMISE")


MISSHAPEN: Final[tuple[tuple[object, str], ...]] = (
    ("remediation", "based_on"),
    ([1], "based_on[0]"),
    ([fence(1), {"field": "status"}], "based_on[1].version"),
    ([{"version": 1}], "based_on[0].field"),
    ([{"field": "Status", "version": 1}], "based_on[0].field"),
    ([{"field": "status", "version": True}], "based_on[0].version"),
    ([{"field": "status", "version": 1.0}], "based_on[0].version"),
    ([{"field": "status", "version": -1}], "based_on[0].version"),
    ([{"field": "status", "version": 2**63}], "based_on[0].version"),
    ([{"field": "status", "version": 1, "kind": "lock"}], "based_on[0].kind"),
    ([{"field": "status", "version": 1, "kind": None}], "based_on[0].kind"),
    ([{"field": "remediation", "epoch": 1}], "based_on[0].epoch"),
    ([{**fence(1), "epoch": 1}], "based_on[0].epoch"),
    ([{**fence(1), "colour": "red"}], "based_on[0]"),
    ([fence(1)] * 21, "based_on"),
)


async def test_premises_of_another_shape_are_refused_by_name(incident: Incident) -> None:
    refused = [await incident.refusal("a1", {"based_on": based_on}) for based_on, _ in MISSHAPEN]

    assert {(each["status"], each["error"]) for each in refused} == {(400, "BAD_REQUEST")}
    assert [each["field"] for each in refused] == [named for _, named in MISSHAPEN]


# --- bad bodies (case 148) -------------------------------------------------------------------------------------------


BAD_BODIES: Final[tuple[tuple[bytes, str | None], ...]] = (
    (b'{"lease_seconds": -1}', "lease_seconds"),
    (b'{"lease_seconds": 0.5}', "lease_seconds"),
    (b'{"lease_seconds": 86401}', "lease_seconds"),
    (b'{"lease_seconds": "300"}', "lease_seconds"),
    (b'{"lease_seconds": true}', "lease_seconds"),
    (b'{"lease_seconds": null}', "lease_seconds"),
    (b'{"lease_seconds": 1e308}', "lease_seconds"),
    (b'{"lease_seconds": NaN}', None),
    (b'{"lease_seconds": [300]}', "lease_seconds"),
    (b'{"lease_seconds": 300, "renew": "true"}', "renew"),
    (b'{"renew": 1}', "renew"),
    (b'{"renew": null}', "renew"),
    (b"[]", None),
    (b"{} {}", None),
    (b'{"lease_seconds": 1, "lease_seconds": 2}', None),
)


async def test_a_body_that_asks_for_no_lease_there_is_is_refused_by_name(incident: Incident) -> None:
    before = contents(incident.url)
    path, sent = f"/v1/records/{RECORD}/fields/remediation/claim", {"Authorization": f"Bearer {incident.tokens['a1']}"}

    refused = [(await incident.server.http.request("PUT", path, content=body, headers=sent)) for body, _ in BAD_BODIES]

    assert {(each.status_code, each.json()["error"]) for each in refused} == {(400, "BAD_REQUEST")}
    assert [each.json().get("field") for each in refused] == [named for _, named in BAD_BODIES]
    assert contents(incident.url) == before


async def test_a_lease_must_be_asked_for_where_the_class_has_none(incident: Incident) -> None:
    refused = await incident.refusal("a1", {}, field="review")

    assert (refused["status"], refused["error"], refused["field"]) == (400, "BAD_REQUEST", "lease_seconds")


async def test_a_misspelt_field_of_the_body_is_named_in_a_header(incident: Incident) -> None:
    response = await incident.ask("a1", {"lease_second": 60})

    assert (response.status_code, response.json()["expires_in_ms"]) == (200, 300_000)
    assert response.headers["Baton-Ignored"] == "lease_second"


async def test_a_body_may_be_left_out(incident: Incident) -> None:
    assert (await incident.ask("a1")).json()["owner"] == "agent:agent-a1"


# --- who may ---------------------------------------------------------------------------------------------------------


DENIED: Final[tuple[tuple[str, dict[str, str], int, str], ...]] = (
    ("a1", {"field": "status"}, 400, "NOT_TASK_FIELD"),
    ("a1", {"field": "actions_taken"}, 400, "NOT_TASK_FIELD"),
    ("a1", {"field": "secret"}, 403, "SCOPE_DENIED"),
    ("a1", {"field": "nothing"}, 404, "NOT_FOUND"),
    ("a1", {"record": "invoices/inv-1"}, 404, "NOT_FOUND"),
    ("ben", {}, 403, "SCOPE_DENIED"),
    ("ann", {}, 403, "SCOPE_DENIED"),
    ("ada", {}, 403, "SCOPE_DENIED"),
)


async def test_roles_decide_who_claims_what(incident: Incident) -> None:
    refused = [await incident.refusal(who, {"lease_seconds": 60}, **where) for who, where, _, _ in DENIED]

    assert [(each["status"], each["error"]) for each in refused] == [(status, code) for _, _, status, code in DENIED]


async def test_a_premise_is_read_and_so_takes_the_permission_to_read(incident: Incident) -> None:
    refused = await incident.refusal("a1", {"based_on": [{"field": "secret", "version": 0}]})

    assert (refused["error"], refused["field"]) == ("SCOPE_DENIED", "secret")


async def test_a_role_that_is_taken_away_counts_from_the_next_claim_on(incident: Incident) -> None:
    await incident.claim("a1")
    readers = {"remediator": {"identities": ["agent:*"], "read": "*"}}
    await incident.server.ask("PUT", "/v1/classes/incidents", {**CLASS, "roles": readers})

    refused = await incident.refusal("a1", {"renew": True})

    assert refused["error"] == "SCOPE_DENIED"


# --- one identity, not one process (case 144) ------------------------------------------------------------------------


FLEET: Final = {
    **CLASS,
    "roles": {"fleet": {"identities": ["apikey:remediator/*"], "read": "*", "claim": "*"}},
}


async def test_ten_with_one_key_all_have_the_task_and_ten_with_their_own_do_not(
    incident: Incident,
) -> None:
    await incident.server.ask("PUT", "/v1/classes/incidents", FLEET)
    shared = await incident.server.add_key("remediator/all")
    own = [await incident.server.add_key(f"remediator/worker-{n}") for n in range(10)]

    async def claimed(tokens: list[str], field: str) -> list[httpx.Response]:
        path = f"/v1/records/{RECORD}/fields/{field}/claim"
        return await asyncio.gather(
            *(incident.server.send("PUT", path, {"lease_seconds": 60}, token=token) for token in tokens)
        )

    together = await claimed([shared] * 10, "remediation")
    apart = await claimed(own, "review")

    assert [each.status_code for each in together] == [200] * 10
    assert {each.json()["version"] for each in together} == {1}
    assert sorted(each.status_code for each in apart) == [200, *[409] * 9]
    (winner,) = (each.json()["owner"] for each in apart if each.is_success)
    held = [each.json() for each in apart if not each.is_success]
    assert {(each["error"], each["owner"], each["version"]) for each in held} == {("HELD", winner, 1)}
    assert {each["lease_expires_at"] for each in held} == {incident.at(60)}


# --- beside the leases on nodes --------------------------------------------------------------------------------------


async def test_what_enumerates_leases_on_nodes_neither_shows_nor_touches_tasks(incident: Incident) -> None:
    await incident.claim("a1")
    row = contents(incident.url)["leases"]
    server, token = incident.server, incident.tokens["a1"]

    renewed = await server.ask("POST", "/v1/queue/renew", {}, token=token)
    released = await server.ask("POST", "/v1/queue/release", {}, token=token)
    listed = await server.ask("GET", "/v1/leases?holder=me", token=token)
    queue = await server.ask("GET", "/v1/queue", token=token)
    assigned = await server.ask("GET", "/v1/queue?assignee=me", token=token)

    assert (renewed["count"], renewed["failed"], released["count"], listed["leases"]) == (0, [], 0, [])
    assert "inc-4471" not in str(queue) + str(assigned)
    assert contents(incident.url)["leases"] == row


async def test_tasks_do_not_count_among_the_claims_of_nodes(incident: Incident) -> None:
    await incident.server.ask("PUT", "/v1/policy/*", {"max_claims": 1})
    await incident.claim("a1")

    node = await incident.server.send("POST", "/v1/nodes/task-1/claim", {}, token=incident.tokens["a1"])

    assert node.is_success


async def test_a_task_lost_to_another_is_not_among_the_leases_that_a_renewal_of_all_reports(incident: Incident) -> None:
    await incident.claim("a1")
    incident.clock.advance(timedelta(seconds=301))
    await incident.claim("b1")

    renewed = await incident.server.ask("POST", "/v1/queue/renew", {}, token=incident.tokens["a1"])

    assert renewed["failed"] == []


# --- run tokens (D2a) ------------------------------------------------------------------------------------------------


async def minted(incident: Incident, who: str, epoch: int, **wish: object) -> httpx.Response:
    """Ask for the run token of a1's tenure of the remediation."""
    lease = {"record": RECORD, "field": "remediation", "epoch": epoch}
    return await incident.server.send(
        "POST", "/v1/agents/agent-a1/token", {"lease": lease, **wish}, token=incident.tokens[who]
    )


async def test_a_run_token_for_a_task_acts_on_its_tenure_and_moves_no_version(incident: Incident) -> None:
    claimed = await incident.claim("a1")
    token = await minted(incident, "ann", 1)
    incident.tokens["run"] = token.json()["token"]

    again = await incident.claim("run")
    renewed = await incident.claim("run", renew=True, based_on=[fence(claimed["version"])])

    assert token.json()["lease"] == {"resource": f"record:{RECORD}#remediation", "epoch": 1}
    assert (again["version"], again["owner"]) == (1, "agent:agent-a1")
    assert (renewed["version"], renewed["record_version"], renewed["epoch"]) == (2, 2, 1)


async def test_a_run_token_is_of_no_use_once_its_tenure_is_over(incident: Incident) -> None:
    await incident.claim("a1")
    incident.tokens["run"] = (await minted(incident, "a1", 1)).json()["token"]
    incident.clock.advance(timedelta(seconds=301))
    await incident.claim("b1")

    late = [
        await incident.refusal("run", {"renew": True}),
        await incident.refusal("run", {"lease_seconds": 60}, field="review"),
    ]

    assert {(each["status"], each["error"]) for each in late} == {(409, "STALE_PREMISE")}


async def test_a_run_does_not_release_the_task_it_was_made_for(incident: Incident) -> None:
    await incident.claim("a1")
    incident.tokens["run"] = (await minted(incident, "a1", 1)).json()["token"]

    refused = await incident.refusal("run", {"lease_seconds": 0})

    assert (refused["status"], refused["error"]) == (403, "SCOPE_DENIED")


async def test_what_a_run_took_besides_is_its_own_to_release(incident: Incident) -> None:
    await incident.claim("a1")
    incident.tokens["run"] = (await minted(incident, "a1", 1)).json()["token"]
    await incident.claim("run", field="review", lease_seconds=60)

    stranger = await incident.refusal("b1", {"lease_seconds": 0}, field="review")
    released = await incident.claim("run", field="review", lease_seconds=0)

    assert stranger["error"] == "HELD"
    assert released["version"] == 2


async def test_no_run_token_is_minted_for_a_task_by_a_stranger_or_for_a_tenure_that_is_not(incident: Incident) -> None:
    await incident.claim("a1")

    answers = [await minted(incident, "ben", 1), await minted(incident, "ann", 2)]

    assert [(each.status_code, each.json()["error"]["code"]) for each in answers] == [
        (403, "forbidden"),
        (409, "lease_lost"),
    ]
