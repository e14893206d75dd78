"""Task fields of records through their one route: claim, renew, release, take over (task-fields, D32 to D36)."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from batonpass.core.clock import MICROS_PER_S, iso
from batonpass.core.ids import Instant
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

RECORD: Final = "incidents/inc-4471"
CLASS: Final = {
    "fields": {
        "status": {"type": "register"},
        "secret": {"type": "register"},
        "actions_taken": {"type": "append", "cap": 10},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task"},
    },
    "roles": {
        "remediator": {
            "identities": ["agent:*"],
            "read": ["status", "actions_taken", "remediation", "review"],
            "write": ["status"],
            "claim": ["remediation", "review"],
        },
        "reader": {"identities": ["person:person-rea"], "read": "*"},
    },
}


class Incident:
    """A record's task as several agents see it."""

    def __init__(self, server: InProcessServer, clock: ManualClock, tokens: dict[str, str]) -> None:
        self.server = server
        self.clock = clock
        self.tokens = tokens

    async def ask(
        self, who: str, body: object = None, *, field: str = "remediation", record: str = RECORD, **headers: str
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/v1/records/{record}/fields/{field}/claim"
        return await self.server.send("PUT", path, body, token=self.tokens[who], headers=named)

    async def claim(self, who: str, **body: object) -> dict[str, Any]:
        response = await self.ask(who, body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def at(self, seconds: float) -> str:
        """Return the moment so many seconds from now, as the wire has it."""
        return iso(Instant(self.clock.moment() + int(seconds * MICROS_PER_S)))


@pytest.fixture
async def incident(server: InProcessServer, clock: ManualClock) -> Incident:
    await server.ask("PUT", "/v1/classes/incidents", CLASS)
    ann = await server.add_person("Ann")
    tokens = {name: await server.add_agent(name, token=ann) for name in ("one", "two")}
    return Incident(server, clock, {"admin": server.admin_token, "ann": ann, **tokens})


async def test_a_claim_makes_the_record_and_holds_the_task_for_the_lease_of_its_class(incident: Incident) -> None:
    claimed = await incident.claim("one")

    assert claimed == {
        "record": RECORD,
        "field": "remediation",
        "owner": "agent:agent-one",
        "lease_expires_at": incident.at(300),
        "expires_in_ms": 300_000,
        "version": 1,
        "record_version": 1,
        "epoch": 1,
    }


async def test_a_task_that_somebody_has_is_held_and_says_by_whom_until_when(incident: Incident) -> None:
    await incident.claim("one")

    refused = await incident.ask("two", {})

    assert refused.status_code == 409
    assert refused.json() == {
        "error": "HELD",
        "message": refused.json()["message"],
        "field": "remediation",
        "owner": "agent:agent-one",
        "lease_expires_at": incident.at(300),
        "version": 1,
    }
